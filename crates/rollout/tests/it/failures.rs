//! Failures that are ours: tried again, then a lost sample, never a reward.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use pretty_assertions::assert_eq;
use rocstar_record::draw::Key;
use rocstar_record::episode::{DropCause, ToolOutcome, Verdict};
use rocstar_rollout::{
    GeneratorError, MathVerifier, RolloutError, RolloutOptions, Rollouts, Task, ToolError,
    Verifier, VerifierError,
};

use crate::support::*;

/// A call, then an answer.
fn usual(draw: Key) -> String {
    if draw.turn == 0 { format!("{}{END}", call(&draw.sample.to_string())) } else { answer("1") }
}

fn tasks() -> [Arc<Task>; 1] {
    [task("a", "?", "1")]
}

/// Fails the first calls of each program with these.
fn failing(first: fn() -> Vec<ToolError>) -> TableTool {
    let seen = Arc::new(std::sync::Mutex::new(std::collections::HashMap::new()));
    TableTool::new(move |code| {
        let mut seen = seen.lock().unwrap();
        let left = seen.entry(code).or_insert_with(|| first().into_iter());
        std::future::ready(left.next().map_or(Ok(ToolOutcome::Ok), Err))
    })
}

fn failed(cause: &str) -> ToolError {
    ToolError::Failed { cause: cause.to_owned() }
}

#[tokio::test]
async fn a_call_that_failed_is_made_again() {
    let tool = failing(|| {
        let busy =
            ToolError::Busy { retry_after: Duration::from_millis(1), cause: "full".to_owned() };
        vec![failed("a pipe broke"), busy.clone(), busy.clone(), busy, failed("again")]
    });
    let expected = rollouts(Scripted::new(usual), TableTool::working(), options());
    let expected = roll_out(&expected, &tasks()).await;
    let all = roll_out(&rollouts(Scripted::new(usual), tool, options()), &tasks()).await;
    assert_eq!(timeless(&all), timeless(&expected));
    assert_eq!(all.usage.tried_again, 4 * 2, "a full queue is no failure");
}

#[tokio::test]
async fn too_many_failures_lose_the_sample_and_no_other() {
    let tool = TableTool::new(|code| {
        let result = if code == "2" { Err(failed("no disk")) } else { Ok(ToolOutcome::Ok) };
        std::future::ready(result)
    });
    let all = roll_out(&rollouts(Scripted::new(usual), tool, options()), &tasks()).await;
    let samples: Vec<u32> = all.groups[0].episodes.iter().map(|one| one.sample).collect();
    assert_eq!(samples, [0, 1, 3]);
    let lost = &all.groups[0].lost[0];
    assert_eq!(lost.sample, 2);
    let what = "the tool failed: no disk".to_owned();
    assert_eq!(lost.cause, DropCause::Infrastructure { what });
}

#[tokio::test]
async fn a_lost_state_or_a_failed_generation_begins_the_sample_again() {
    let lost = || vec![ToolError::StateLost { cause: "the session's host is gone".to_owned() }];
    let mut generator = Scripted::new(usual);
    generator.failures = vec![GeneratorError::Failed { cause: "no numbers".to_owned() }];
    let all = roll_out(&rollouts(generator, failing(lost), options()), &tasks()).await;
    let expected = rollouts(Scripted::new(usual), TableTool::working(), options());
    assert_eq!(timeless(&all), timeless(&roll_out(&expected, &tasks()).await));
    assert_eq!(all.usage.tried_again, 4 + 1);
}

#[tokio::test]
async fn a_full_generator_is_waited_out_and_a_stopped_one_ends_it_all() {
    let busy = || GeneratorError::Busy { retry_after: Duration::from_millis(1) };
    let mut generator = Scripted::new(usual);
    generator.failures = (0..20).map(|_| busy()).collect();
    let all = roll_out(&rollouts(generator, TableTool::working(), options()), &tasks()).await;
    assert_eq!((all.groups[0].lost.len(), all.usage.tried_again), (0, 0));
    let mut generator = Scripted::new(usual);
    generator.failures =
        vec![busy(), GeneratorError::Stopped { cause: "it was told to".to_owned() }];
    let rollouts = rollouts(generator, TableTool::working(), options());
    let error = try_roll_out(&rollouts, &tasks()).await.unwrap_err();
    assert!(matches!(error, RolloutError::Generator(GeneratorError::Stopped { .. })), "{error}");
}

/// Fails so many times, then judges.
#[derive(Debug)]
struct Moody {
    failures: AtomicUsize,
}

impl Verifier for Moody {
    fn verify(
        &self,
        task: &Task,
        answer_text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let left = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => std::future::ready(Err(VerifierError { cause: "a fault".to_owned() })).boxed(),
            Err(_) => MathVerifier.verify(task, answer_text),
        }
    }
}

#[tokio::test]
async fn a_verifier_that_fails_gives_no_verdict() {
    for (failures, lost) in [(2, 0), (3, 1), (1000, 1)] {
        let verifier = Arc::new(Moody { failures: AtomicUsize::new(failures) });
        let options = RolloutOptions { samples: 1, ..options() };
        let (generator, tool) = (Scripted::new(usual), Some(Arc::new(TableTool::working()) as _));
        let rollouts =
            Rollouts::new(policy(), Arc::new(generator), tool, verifier, options).unwrap();
        let all = roll_out(&rollouts, &tasks()).await;
        assert_eq!(all.groups[0].lost.len(), lost, "{failures} failures");
    }
}
