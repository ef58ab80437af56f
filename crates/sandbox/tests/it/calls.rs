//! Single calls: answers, refusals, deadlines, callers that go away.

use std::time::Duration;

use futures::future::poll_immediate;
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Limits, Outcome, Request};
use rocstar_sandbox::{Error, Sandbox as _, Schedule};

use crate::{client, endless, one_at_a_time, run, small, start, until};

#[tokio::test]
async fn a_call_is_answered_and_counted() {
    let Some(sandbox) = start(small()) else { return };
    let report = run(&sandbox, "print(1 + 1)").await.unwrap();
    assert_eq!((report.outcome, report.stdout.text.as_str()), (Outcome::Ok, "2\n"));
    let stats = sandbox.stats();
    let counts = (stats.accepted, stats.answered, stats.cancelled, stats.queued, stats.running);
    assert_eq!(counts, (1, 1, 0, 0, 0));
    assert_eq!((stats.outcomes["ok"], stats.run_time.count(), stats.clients), (1, 1, 0));
}

#[tokio::test]
async fn an_exception_is_an_outcome() {
    let Some(sandbox) = start(small()) else { return };
    let report = run(&sandbox, "1 / 0").await.unwrap();
    assert_eq!(report.outcome.name(), "exception");
}

#[tokio::test]
async fn a_request_that_cannot_be_accepted_is_refused_with_its_field() {
    let Some(sandbox) = start(small()) else { return };
    let limits = Limits { wall_ms: Some(0), ..Limits::default() };
    let request = Request { limits, ..Request::new("1") };
    let refused = sandbox.execute(&client("a"), request, Schedule::default()).await;
    assert!(matches!(&refused, Err(Error::Invalid(error)) if error.field == "limits.wall_ms"));
    let stats = sandbox.stats();
    assert_eq!((stats.accepted, stats.refused.invalid), (0, 1));
}

#[tokio::test]
async fn a_caller_that_goes_away_frees_its_running_call() {
    let Some(sandbox) = start(small()) else { return };
    let call = sandbox.execute(&client("a"), endless(), Schedule::default());
    let mut call = Box::pin(call);
    assert!(poll_immediate(&mut call).await.is_none());
    until(&sandbox, |stats| stats.running == 1).await;
    drop(call);
    let stats = until(&sandbox, |stats| stats.running == 0).await;
    assert_eq!((stats.answered, stats.cancelled), (0, 1));
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_waiting_call_out_of_the_queue() {
    let Some(sandbox) = start(one_at_a_time()) else { return };
    let mut first = Box::pin(sandbox.execute(&client("a"), endless(), Schedule::default()));
    let mut second = Box::pin(sandbox.execute(&client("a"), endless(), Schedule::default()));
    assert!(poll_immediate(&mut first).await.is_none());
    assert!(poll_immediate(&mut second).await.is_none());
    let stats = sandbox.stats();
    assert_eq!((stats.running, stats.queued), (1, 1));
    drop(second);
    let stats = sandbox.stats();
    assert_eq!((stats.running, stats.queued, stats.cancelled), (1, 0, 1));
}

#[tokio::test]
async fn a_call_that_does_not_start_in_time_is_told_so() {
    let Some(sandbox) = start(one_at_a_time()) else { return };
    let mut first = Box::pin(sandbox.execute(&client("a"), endless(), Schedule::default()));
    assert!(poll_immediate(&mut first).await.is_none());
    let soon = Schedule { start_within: Some(Duration::from_millis(1)) };
    let late = sandbox.execute(&client("a"), Request::new("1"), soon).await;
    assert!(matches!(late, Err(Error::DeadlinePassed { .. })), "{late:?}");
    let stats = sandbox.stats();
    assert_eq!((stats.deadline_passed, stats.answered, stats.queued), (1, 1, 0));
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_when_to_come_back() {
    let mut config = one_at_a_time();
    config.queue_calls = 1;
    let Some(sandbox) = start(config) else { return };
    let mut first = Box::pin(sandbox.execute(&client("a"), endless(), Schedule::default()));
    let mut second = Box::pin(sandbox.execute(&client("a"), endless(), Schedule::default()));
    assert!(poll_immediate(&mut first).await.is_none());
    assert!(poll_immediate(&mut second).await.is_none());
    let third = sandbox.execute(&client("b"), Request::new("1"), Schedule::default()).await;
    match third {
        Err(Error::Full { queued: 1, capacity: 1, retry_after_s }) => assert!(retry_after_s >= 1),
        other => panic!("{other:?}"),
    }
    assert_eq!(sandbox.stats().refused.full, 1);
}
