//! What episodes hold, whatever runs beside them.

use pretty_assertions::assert_eq;
use rocstar_chat::Show;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Finish, VerdictKind};
use rocstar_rollout::{MathVerifier, RolloutError, RolloutOptions, Rollouts, ToolMode};

use crate::support::*;
use crate::test_support::tokenizer;

/// Some turns with calls, then an answer; how many, and which, hangs on the draw's key alone.
fn varied(draw: Key) -> String {
    let number = draw.task * 7 + u64::from(draw.sample) * 3;
    if u64::from(draw.turn) < number % 3 {
        let fault = if number.is_multiple_of(5) { "<tool_call>{</tool_call>" } else { "" };
        return format!("turn {} {fault}{}{END}", draw.turn, call(&format!("print({number})")));
    }
    answer(&number.to_string())
}

#[tokio::test]
async fn episodes_are_in_order_and_judged_by_their_last_words() {
    let rollouts = rollouts(Scripted::new(varied), TableTool::working(), options());
    // Sample 1 of task 10 + 1 answers 80.
    let tasks = [task("a", "?", "0"), task("b", "?", "80")];
    let all = roll_out(&rollouts, &tasks).await;
    for (group, task) in all.groups.iter().zip(&tasks) {
        assert_eq!(&group.task, task);
        let samples: Vec<u32> = group.episodes.iter().map(|episode| episode.sample).collect();
        assert_eq!(samples, [0, 1, 2, 3]);
        assert!(group.episodes.iter().all(|one| one.task == task.id && one.step == 4));
    }
    let rewards: Vec<f64> = all.groups[1].episodes.iter().map(|one| one.reward).collect();
    assert_eq!(rewards, [0.0, 1.0, 0.0, 0.0]);
    let right = &all.groups[1].episodes[1];
    assert_eq!((right.verdict.kind, right.finish), (VerdictKind::Right, Finish::Done));
    assert_eq!(right.verdict.answer.as_deref(), Some("80"));
    assert_eq!(all.groups[1].episodes[0].verdict.kind, VerdictKind::Wrong);
    let policy: usize = timeless(&all).iter().map(|episode| episode.policy_tokens()).sum();
    assert_eq!(all.usage.policy_tokens, policy);
    let calls = timeless(&all)
        .iter()
        .map(|one| one.calls().filter(|call| !call.program.is_empty()).count())
        .sum::<usize>();
    assert_eq!(all.usage.tool_calls, calls);
    assert!(calls > 0 && all.usage.tried_again == 0);
}

#[tokio::test]
async fn neither_company_nor_order_changes_an_episode() {
    let tasks: Vec<_> = (0..6).map(|number| task(&format!("t{number}"), "?", "77")).collect();
    let mut seen = Vec::new();
    for most_running in [1, 3, 0] {
        let options = RolloutOptions { most_running, ..options() };
        let rollouts = rollouts(Scripted::new(varied), TableTool::working(), options);
        let all = roll_out(&rollouts, &tasks).await;
        assert_eq!(all.usage.most_at_once, if most_running == 0 { 24 } else { most_running });
        seen.push(timeless(&all));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[tokio::test]
async fn each_draw_has_its_own_key() {
    let script = |draw: Key| {
        let expected = Key {
            turn: draw.turn,
            sample: draw.sample,
            task: draw.task,
            step: 4,
            ..Key::new(3, Purpose::Sampling)
        };
        assert_eq!(draw, expected);
        varied(draw)
    };
    let rollouts = rollouts(Scripted::new(script), TableTool::working(), options());
    roll_out(&rollouts, &[task("a", "?", "1")]).await;
}

#[tokio::test]
async fn what_was_cut_off_is_never_right() {
    let script = |draw: Key| match draw.sample {
        // Right words, and then no end.
        0 => answer("1").replace(END, "") + &"and on ".repeat(1000),
        // Right words before a call in the last turn that is allowed.
        1 => answer("1").replace(END, "") + &call("1") + END,
        // Right words of an earlier turn only.
        2 if draw.turn == 0 => answer("1").replace(END, "") + &call("1") + END,
        2 => format!("done</reason>{END}"),
        // Only the tool says it.
        _ if draw.turn == 0 => call("<answer>\\boxed{1}</answer>") + END,
        _ => format!("as the tool says</reason>{END}"),
    };
    let rollouts = rollouts(Scripted::new(script), TableTool::working(), options());
    let all = roll_out(&rollouts, &[task("a", "?", "1")]).await;
    let ends: Vec<_> = all.groups[0]
        .episodes
        .iter()
        .map(|one| (one.finish, one.verdict.kind, one.reward))
        .collect();
    let unparseable = |finish| (finish, VerdictKind::Unparseable, 0.0);
    use Finish::{Done, TokenLimit, TurnLimit};
    assert_eq!(ends, [TokenLimit, TurnLimit, Done, Done].map(unparseable));
    let why = &all.groups[0].episodes[0].verdict.explanation;
    assert_eq!(why, "no final answer: the response was cut off: its tokens ran out");
}

#[tokio::test]
async fn without_a_tool_the_prompt_names_none() {
    let options = RolloutOptions { tool: ToolMode::None, ..options() };
    let generator = std::sync::Arc::new(Scripted::new(|_| answer("4")));
    let verifier = std::sync::Arc::new(MathVerifier);
    let rollouts = Rollouts::new(policy(), generator, None, verifier, options).unwrap();
    let all = roll_out(&rollouts, &[task("a", "2 + 2?", "4")]).await;
    let episode = &all.groups[0].episodes[0];
    let text = tokenizer().decode(&episode.tokens, Show::All);
    assert!(!text.contains("<tools>") && text.contains("2 + 2?"), "{text}");
    assert_eq!(episode.reward, 1.0);
    let prompt = episode.tokens.len() - episode.response_tokens();
    assert_eq!(rollouts.prompt_tokens(&task("a", "2 + 2?", "4")).unwrap(), prompt);
}

#[tokio::test]
async fn what_can_not_work_is_told_before_anything_is_generated() {
    let refused = |options: RolloutOptions| {
        let tool = Some(std::sync::Arc::new(TableTool::working()) as _);
        let generator = std::sync::Arc::new(Scripted::new(|_| String::new()));
        let verifier = std::sync::Arc::new(MathVerifier);
        Rollouts::new(policy(), generator, tool, verifier, options).unwrap_err().to_string()
    };
    let both = RolloutOptions { samples: 0, top_p: 0.0, ..options() };
    let expected = "the rollout's settings can't work: `samples` must be at least 1; `top_p` must \
                    be over 0 and at most 1";
    assert_eq!(refused(both), expected);
    let none = RolloutOptions { tool: ToolMode::None, ..options() };
    assert_eq!(refused(none), "`tool` is set to none, but a tool was given");

    let mut generator = Scripted::new(|_| panic!("nothing is asked"));
    generator.capacity.longest_tokens = 2000;
    let rollouts = rollouts(generator, TableTool::working(), options());
    let tasks = [task("short", "?", "1"), task("long", &"x".repeat(3000), "1")];
    let error = try_roll_out(&rollouts, &tasks).await.unwrap_err();
    assert!(
        matches!(&error, RolloutError::PromptTooLong { task, longest_tokens: 2000, .. } if task.0 == "long"),
        "{error}"
    );
}
