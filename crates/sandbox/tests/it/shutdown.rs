//! The end of the service: every call is answered or counted.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::poll_immediate;
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Outcome, Request};
use rocstar_sandbox::{Batch, Error, Sandbox as _, Schedule, SessionOptions};

use crate::{LONG, client, endless, one_at_a_time, run, small, start, until};

#[tokio::test]
async fn calls_in_time_are_finished_and_later_ones_refused() {
    let Some(sandbox) = start(small()) else { return };
    let batch = Batch { calls: vec![Request::new("print(1)"); 50], share_identical: false };
    let reports = sandbox.execute_batch(&client("a"), batch, Schedule::default()).await.unwrap();
    let stats = sandbox.shutdown(LONG).await;
    assert_eq!((stats.accepted, stats.answered, stats.cancelled), (50, 50, 0));
    let outcomes: Vec<_> = reports.map(|(_, report)| report.unwrap().outcome).collect().await;
    assert_eq!(outcomes, vec![Outcome::Ok; 50]);
    assert!(matches!(run(&sandbox, "1").await, Err(Error::ShuttingDown)));
    let refused = sandbox.open_session(&client("a"), SessionOptions::default()).await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
}

#[tokio::test]
async fn calls_beyond_the_grace_are_answered_as_cancelled() {
    let Some(sandbox) = start(one_at_a_time()) else { return };
    let mut running = sandbox.execute(&client("a"), endless(), Schedule::default());
    let mut waiting = sandbox.execute(&client("a"), endless(), Schedule::default());
    assert!(poll_immediate(&mut running).await.is_none());
    assert!(poll_immediate(&mut waiting).await.is_none());
    let stats = sandbox.shutdown(Duration::ZERO).await;
    let counts = (stats.accepted, stats.answered, stats.cancelled, stats.queued, stats.running);
    assert_eq!(counts, (2, 0, 2, 0, 0));
    match running.await {
        Ok(report) => assert_eq!(report.outcome, Outcome::Cancelled),
        Err(error) => assert!(matches!(error, Error::ShuttingDown), "{error}"),
    }
    assert!(matches!(waiting.await, Err(Error::ShuttingDown)));
}

#[tokio::test]
async fn sessions_end_with_the_service() {
    let Some(sandbox) = start(small()) else { return };
    let session = sandbox.open_session(&client("a"), SessionOptions::default()).await.unwrap();
    let stats = sandbox.shutdown(LONG).await;
    assert_eq!((stats.sessions.open, stats.sessions.shut_down), (0, 1));
    let ended = sandbox.execute_in_session(&client("a"), &session, Request::new("1")).await;
    assert!(matches!(ended, Err(Error::NoSession { .. })), "{ended:?}");
}

#[tokio::test]
async fn dropping_the_service_answers_what_is_left() {
    let Some(sandbox) = start(one_at_a_time()) else { return };
    let calls = Batch { calls: vec![endless(); 10], share_identical: false };
    let reports = sandbox.execute_batch(&client("a"), calls, Schedule::default()).await.unwrap();
    until(&sandbox, |stats| stats.running == 1).await;
    drop(sandbox);
    assert_eq!(reports.count().await, 10);
}
