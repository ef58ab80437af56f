//! The written form of episodes and groups: golden, and checked.

#![cfg(test)]

use pretty_assertions::assert_eq;
use rocstar_record::episode::{
    Author, Call, DropCause, Dropped, Episode, Finish, Group, GroupVerdict, Kept, Lost, Misfit,
    Penalties, SCHEMA_VERSION, Span, TaskId, Timing, ToolOutcome, Turn, Verdict, VerdictKind,
};

const PENALTIES: Penalties = Penalties { tool_errors: 1.0, answer_format: 0.0 };

fn episode() -> Episode {
    let span = |author, tokens| Span { author, tokens };
    Episode {
        schema: SCHEMA_VERSION,
        task: TaskId("sum-7".into()),
        sample: 3,
        step: 12,
        tokens: (0..10).collect(),
        spans: vec![
            span(Author::Prompt, 3),
            span(Author::Template, 1),
            span(Author::Policy, 2),
            span(Author::Tool, 2),
            span(Author::Policy, 2),
        ],
        log_probs: vec![-0.5, -0.25, -1.0, -2.0],
        model_log_probs: vec![-0.75, -0.25, -1.5, -2.0],
        weight_versions: vec![(12, 3), (13, 1)],
        turns: vec![
            Turn {
                start_token: 4,
                policy_tokens: 2,
                answer_tags: 0,
                calls: vec![Call {
                    tool: "python".into(),
                    program: "print(1/int(input()))".into(),
                    input: "0\n".into(),
                    outcome: ToolOutcome::Exception { name: "ZeroDivisionError".into() },
                    shown: "ZeroDivisionError at line 1: division by zero".into(),
                    cut_tokens: 0,
                    wall_us: 1500,
                    cpu_us: 1200,
                    memory_bytes: Some(9_000_000),
                    isolation: vec!["pid_namespace".into(), "seccomp".into()],
                }],
            },
            Turn { start_token: 8, policy_tokens: 2, answer_tags: 1, calls: Vec::new() },
        ],
        finish: Finish::Done,
        verdict: Verdict {
            kind: VerdictKind::Wrong,
            answer: Some("8".into()),
            explanation: "7 and 8".into(),
        },
        reward: 0.0,
        timing: Timing { total_us: 9000, generating_us: 7000, tools_us: 1600 },
    }
}

/// A change of the written form must come with a new [`SCHEMA_VERSION`] and a new golden file; the
/// old ones must still be read.
#[test]
fn the_written_form_is_golden() {
    let group = Group {
        schema: SCHEMA_VERSION,
        task: TaskId("sum-7".into()),
        answer: "8".into(),
        step: 12,
        verdict: GroupVerdict::Used,
        kept: vec![Kept { episode: episode(), penalties: PENALTIES, advantage: -0.5 }],
        dropped: vec![Dropped {
            episode: Episode { sample: 4, ..episode() },
            penalties: PENALTIES,
            cause: DropCause::Selection { why: "wrong_not_drawn".into() },
        }],
        lost: vec![Lost {
            sample: 5,
            cause: DropCause::Infrastructure { what: "the code environment is gone".into() },
        }],
    };
    let written = serde_json::to_string_pretty(&group).expect("JSON");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/group_1.json");
    if std::env::var_os("ROCSTAR_REFRESH").is_some() {
        std::fs::write(path, &written).expect("written");
    }
    let golden = std::fs::read_to_string(path).expect("the golden file");
    assert_eq!(written, golden.trim_end(), "refresh with ROCSTAR_REFRESH=1");
    assert_eq!(serde_json::from_str::<Group>(&golden).expect("a group"), group);
}

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

#[test]
fn a_group_is_checked_with_its_episodes() {
    let golden = include_str!("golden/group_1.json");
    let group: Group = serde_json::from_str(golden).expect("a group");
    group.check().expect("parts that fit");
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
    assert_eq!(changed.check(), Err(Misfit::OtherGroup { sample: 4 }));
    let mut changed = group.clone();
    changed.verdict = GroupVerdict::Dropped { why: "all_wrong".into() };
    assert_eq!(changed.check(), Err(Misfit::GroupVerdict { kept: 1 }));
    let mut changed = group;
    changed.dropped[0].episode.log_probs.pop();
    assert!(matches!(changed.check(), Err(Misfit::LogProbs { .. })));
}
