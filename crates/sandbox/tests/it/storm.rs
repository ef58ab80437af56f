//! Many clients do everything at once, impatiently; in the end nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::poll_immediate;
use pretty_assertions::assert_eq;
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::prop_oneof;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rocstar_sandbox::jail::Request;
use rocstar_sandbox::{
    Batch, ClientId, Error, JudgeCase, JudgeRequest, LocalSandbox, Sandbox as _, Schedule,
    SessionOptions,
};
use tokio::task::JoinSet;

use crate::{LONG, client, endless, small, start};

#[derive(Debug, Clone)]
enum Act {
    Run,
    RunWithin(u64),
    GiveUp,
    Batch { calls: usize, read: usize },
    Judge,
    Session,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Run),
        (0..20_u64).prop_map(Act::RunWithin),
        Just(Act::GiveUp),
        (1..30_usize, any::<prop::sample::Index>())
            .prop_map(|(calls, read)| Act::Batch { calls, read: read.index(calls + 1) }),
        Just(Act::Judge),
        Just(Act::Session),
    ]
}

async fn perform(sandbox: &LocalSandbox, client: &ClientId, act: Act) {
    let call = || Request::new("print(1)");
    match act {
        Act::Run => {
            let report = sandbox.execute(client, call(), Schedule::default()).await.unwrap();
            assert_eq!(report.stdout.text, "1\n");
        }
        Act::RunWithin(ms) => {
            let schedule = Schedule { start_within: Some(Duration::from_millis(ms)) };
            match sandbox.execute(client, call(), schedule).await {
                Ok(report) => assert_eq!(report.stdout.text, "1\n"),
                Err(Error::DeadlinePassed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Act::GiveUp => {
            let mut call = sandbox.execute(client, endless(), Schedule::default());
            assert!(poll_immediate(&mut call).await.is_none());
            tokio::task::yield_now().await;
        }
        Act::Batch { calls, read } => {
            let batch = Batch { calls: vec![call(); calls], share_identical: false };
            let reports = sandbox.execute_batch(client, batch, Schedule::default()).await.unwrap();
            let read_reports: Vec<_> = reports.take(read).collect().await;
            assert_eq!(read_reports.len(), read);
        }
        Act::Judge => {
            let case = |expected_stdout: &str| JudgeCase::Output {
                stdin: String::new(),
                expected_stdout: expected_stdout.to_owned(),
            };
            let request = JudgeRequest {
                program: "print(1)".to_owned(),
                cases: vec![case("1"), case("2"), case("1"), case("1")],
                stop_early: true,
                limits: Default::default(),
            };
            assert!(!sandbox.judge(client, request).await.unwrap().passed);
        }
        Act::Session => {
            let session = match sandbox.open_session(client, SessionOptions::default()).await {
                Ok(session) => session,
                Err(Error::SessionsFull { .. }) => return,
                Err(error) => panic!("{error}"),
            };
            let report = sandbox.execute_in_session(client, &session, call()).await.unwrap();
            assert_eq!(report.stdout.text, "1\n");
            sandbox.close_session(client, &session).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_a_storm() {
    let Some(sandbox) = start(small()) else { return };
    let sandbox = Arc::new(sandbox);
    let mut runner = TestRunner::deterministic();
    let mut clients = JoinSet::new();
    for number in 0..8 {
        let acts = prop::collection::vec(act(), 12).new_tree(&mut runner).unwrap().current();
        let (sandbox, client) = (Arc::clone(&sandbox), client(&format!("client {number}")));
        clients.spawn(async move {
            for act in acts {
                perform(&sandbox, &client, act).await;
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    let stats = sandbox.shutdown(LONG).await;
    assert_eq!((stats.queued, stats.running, stats.clients, stats.turns), (0, 0, 0, 0));
    assert_eq!(stats.accepted, stats.answered + stats.cancelled);
    assert_eq!((stats.outcomes["infrastructure"], stats.sessions.open), (0, 0));
    assert!(stats.answered > 0 && stats.cancelled > 0, "{stats:?}");
}
