//! Batches: whole or not at all, once each, bounded, shared where asked.

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Outcome, Request};
use rocstar_sandbox::{Batch, Error, Sandbox as _, Schedule};

use crate::{client, small, start, until};

fn batch(calls: Vec<Request>) -> Batch {
    Batch { calls, share_identical: false }
}

fn numbered(count: usize) -> Batch {
    batch((0..count).map(|number| Request::new(format!("print({number})"))).collect())
}

#[tokio::test]
async fn every_call_is_answered_once() {
    const CALLS: usize = 300;
    let Some(sandbox) = start(small()) else { return };
    let reports = sandbox.execute_batch(&client("a"), numbered(CALLS), Schedule::default()).await;
    let mut seen: Vec<_> = reports
        .unwrap()
        .map(|(index, report)| (index, report.unwrap().stdout.text))
        .collect()
        .await;
    seen.sort();
    let expected: Vec<_> = (0..CALLS).map(|number| (number, format!("{number}\n"))).collect();
    assert_eq!(seen, expected);
    let stats = sandbox.stats();
    assert_eq!((stats.accepted, stats.answered), (CALLS as u64, CALLS as u64));
}

#[tokio::test]
async fn one_bad_call_refuses_the_batch() {
    let Some(sandbox) = start(small()) else { return };
    let calls = vec![Request::new("1"), Request::new("\0"), Request::new("1")];
    let refused = sandbox.execute_batch(&client("a"), batch(calls), Schedule::default()).await;
    match refused {
        Err(Error::Invalid(error)) => assert_eq!(error.field, "calls[1].program"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
    assert_eq!(sandbox.stats().accepted, 0);
}

#[tokio::test]
async fn identical_calls_run_once_where_asked() {
    let Some(sandbox) = start(small()) else { return };
    let random = Request::new("import os; print(os.urandom(16).hex())");
    let calls = vec![random; 50];
    let shared = Batch { calls: calls.clone(), share_identical: true };
    for (batch, distinct) in [(shared, 1), (batch(calls), 50)] {
        let reports = sandbox.execute_batch(&client("a"), batch, Schedule::default()).await;
        let answers: Vec<_> = reports.unwrap().collect().await;
        let mut indices: Vec<_> = answers.iter().map(|(index, _)| *index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..50).collect::<Vec<_>>());
        let mut texts: Vec<_> =
            answers.into_iter().map(|(_, report)| report.unwrap().stdout.text).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), distinct);
    }
    let stats = sandbox.stats();
    assert_eq!((stats.accepted, stats.shared), (51, 49));
}

#[tokio::test]
async fn dropping_the_stream_frees_what_is_left() {
    let Some(sandbox) = start(small()) else { return };
    let reports = sandbox.execute_batch(&client("a"), numbered(500), Schedule::default()).await;
    let first: Vec<_> = reports.unwrap().take(5).collect().await;
    assert_eq!(first.len(), 5);
    let stats = until(&sandbox, |stats| stats.running == 0).await;
    assert_eq!((stats.accepted, stats.queued), (500, 0));
    assert!(stats.cancelled > 0, "{stats:?}");
}

#[tokio::test]
async fn unread_answers_pause_the_batch_and_reading_resumes_it() {
    // More output than may be unread, long before all calls have run.
    let Some(sandbox) = start(small()) else { return };
    let calls = vec![Request::new("print('x' * 60_000)"); 600];
    let reports = sandbox.execute_batch(&client("slow"), batch(calls), Schedule::default()).await;
    let stats = until(&sandbox, |stats| stats.running == 0).await;
    assert!(stats.queued > 0 && stats.answered < 600, "{stats:?}");
    // Another client is not held up by it.
    let other = crate::run(&sandbox, "print(1)").await.unwrap();
    assert_eq!(other.outcome, Outcome::Ok);
    assert_eq!(reports.unwrap().count().await, 600);
}
