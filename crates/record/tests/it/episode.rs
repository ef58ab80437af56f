//! Parts of episodes and groups fit each other, or are named.

use pretty_assertions::assert_eq;
use rocstar_record::episode::{Activity, Doing, Episode, Evaluated, GroupVerdict, Misfit, Timing};

use crate::support::{episode, evaluated, groups};

#[test]
fn tokens_of_tools_and_templates_are_not_trained_on() {
    let episode = episode();
    episode.check().expect("parts that fit");
    let mask = episode.loss_mask();
    assert_eq!(mask, [false, false, false, false, true, true, false, false, true, true]);
    assert_eq!((episode.policy_tokens(), episode.response_tokens()), (4, 6));
    assert_eq!(episode.calls().filter(|call| call.outcome.is_failure()).count(), 1);
}

#[test]
fn parts_that_do_not_fit_are_named() {
    let check = |change: fn(&mut Episode)| {
        let mut changed = episode();
        change(&mut changed);
        changed.check().expect_err("a misfit")
    };
    assert_eq!(check(|it| it.schema = 99), Misfit::NewerSchema { found: 99 });
    assert_eq!(check(|it| it.tokens.truncate(9)), Misfit::Spans { covered: 10, tokens: 9 });
    let misfit = Misfit::LogProbs { policy_tokens: 4, sampled: 3, model: 4 };
    assert_eq!(check(|it| it.log_probs.truncate(3)), misfit);
    let misfit = Misfit::WeightVersions { policy_tokens: 4, covered: 3 };
    assert_eq!(check(|it| it.weight_versions.truncate(1)), misfit);
    let misfit = Misfit::Turns { policy_tokens: 4, covered: 2 };
    assert_eq!(check(|it| it.turns.truncate(1)), misfit);
    let misfit = Misfit::Turns { policy_tokens: 4, covered: 4 };
    assert_eq!(check(|it| it.turns[1].start_token = 9), misfit);
    assert_eq!(check(|it| it.log_probs[1] = f32::NAN), Misfit::NotFinite { field: "log_probs" });
    assert_eq!(check(|it| it.reward = f64::INFINITY), Misfit::NotFinite { field: "reward" });
    let endless = |it: &mut Episode| {
        it.spans[0].tokens = usize::MAX;
        it.spans[1].tokens = 4;
    };
    assert_eq!(check(endless), Misfit::Spans { covered: usize::MAX, tokens: 10 });
}

/// Times at which things began were not always written down.
#[test]
fn activities_are_read_as_they_were_written_or_are_absent() {
    let text = r#"{"total_us":9000,"generating_us":7000,"tools_us":1600}"#;
    let mut timing: Timing = serde_json::from_str(text).unwrap();
    assert_eq!(timing, episode().timing);
    assert_eq!(serde_json::to_string(&timing).unwrap(), text);
    timing.activities.push(Activity { what: Doing::Tool, from_us: 3, us: 4 });
    timing.begin_earlier(100);
    let text = serde_json::to_string(&timing).unwrap();
    assert!(text.ends_with(r#""activities":[{"what":"tool","from_us":103,"us":4}]}"#), "{text}");
    assert_eq!(serde_json::from_str::<Timing>(&text).unwrap(), timing);
}

#[test]
fn a_group_is_checked_with_its_episodes() {
    let [group, unused] = groups();
    group.check().expect("parts that fit");
    unused.check().expect("parts that fit");
    let samples: Vec<u32> = group.episodes().map(|(episode, _)| episode.sample).collect();
    assert_eq!(samples, [0, 1, 2, 3, 4]);
    let mut changed = group.clone();
    changed.kept[0].advantage = f64::NAN;
    assert_eq!(changed.check(), Err(Misfit::NotFinite { field: "advantage" }));
    let mut changed = group.clone();
    changed.kept[0].penalties.tool_errors = f64::NAN;
    assert_eq!(changed.check(), Err(Misfit::NotFinite { field: "penalties" }));
    let mut changed = group.clone();
    changed.lost[0].sample = 4;
    assert_eq!(changed.check(), Err(Misfit::SampleTwice { sample: 4 }));
    let mut changed = group.clone();
    changed.dropped[0].episode.step = 13;
    assert_eq!(changed.check(), Err(Misfit::OtherGroup { sample: 2 }));
    let mut changed = group.clone();
    changed.verdict = GroupVerdict::Dropped { why: "all_wrong".into() };
    assert_eq!(changed.check(), Err(Misfit::GroupVerdict { kept: 2 }));
    let mut changed = group;
    changed.dropped[0].episode.log_probs.pop();
    assert!(matches!(changed.check(), Err(Misfit::LogProbs { .. })));
}

#[test]
fn a_task_of_an_evaluation_is_checked_with_its_episodes() {
    let evaluated = evaluated();
    evaluated.check().expect("parts that fit");
    let check = |change: fn(&mut Evaluated)| {
        let mut changed = evaluated.clone();
        change(&mut changed);
        changed.check().expect_err("a misfit")
    };
    assert_eq!(check(|it| it.schema = 99), Misfit::NewerSchema { found: 99 });
    assert_eq!(check(|it| it.lost[0].sample = 1), Misfit::SampleTwice { sample: 1 });
    assert_eq!(check(|it| it.task.0.clear()), Misfit::OtherGroup { sample: 0 });
    assert!(matches!(check(|it| it.episodes[0].spans.clear()), Misfit::Spans { .. }));
}
