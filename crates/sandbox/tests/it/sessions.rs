//! Sessions: state, order, forks, limits, and whose they are.

use futures::future::{join_all, poll_immediate};
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Limits, Outcome, Request};
use rocstar_sandbox::{
    ClientId, Error, LocalSandbox, Result, Sandbox as _, SessionId, SessionOptions,
};

use crate::{client, endless, small, start, until};

async fn open(sandbox: &LocalSandbox, client: &ClientId) -> SessionId {
    sandbox.open_session(client, SessionOptions::default()).await.unwrap()
}

async fn cell(
    sandbox: &LocalSandbox,
    client: &ClientId,
    session: &SessionId,
    program: &str,
) -> (Outcome, String) {
    let request = Request { last_expression: true, ..Request::new(program) };
    let report = sandbox.execute_in_session(client, session, request).await.unwrap();
    (report.outcome, report.value.unwrap_or_default())
}

fn cause<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::NoSession { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn state_stays_and_forks_go_their_own_way() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    assert_eq!(cell(&sandbox, &owner, &session, "x = 1").await.0, Outcome::Ok);
    let branch = sandbox.fork_session(&owner, &session).await.unwrap();
    assert_eq!(cell(&sandbox, &owner, &session, "x += 1; x").await, (Outcome::Ok, "2".into()));
    assert_eq!(cell(&sandbox, &owner, &branch, "x += 10; x").await, (Outcome::Ok, "11".into()));
    assert_eq!(cell(&sandbox, &owner, &session, "x").await, (Outcome::Ok, "2".into()));
    let stats = sandbox.stats();
    assert_eq!((stats.sessions.open, stats.sessions.opened, stats.sessions.forked), (2, 2, 1));
    assert_eq!((stats.accepted, stats.answered), (4, 4));
}

#[tokio::test]
async fn cells_of_one_session_run_in_their_order() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    cell(&sandbox, &owner, &session, "seen = []").await;
    let cells = (0..20).map(|number| {
        let request = Request::new(format!("seen.append({number})"));
        sandbox.execute_in_session(&owner, &session, request)
    });
    join_all(cells).await.into_iter().for_each(|report| assert!(report.is_ok()));
    let expected = format!("{:?}", (0..20).collect::<Vec<_>>());
    assert_eq!(cell(&sandbox, &owner, &session, "seen").await, (Outcome::Ok, expected));
}

#[tokio::test]
async fn a_session_exists_only_for_the_client_that_opened_it() {
    let (Some(sandbox), owner, other) = (start(small()), client("a"), client("b")) else { return };
    let session = open(&sandbox, &owner).await;
    let request = || Request::new("1");
    let foreign = cause(sandbox.execute_in_session(&other, &session, request()).await);
    let unknown = SessionId("0".repeat(32));
    assert_eq!(foreign, cause(sandbox.execute_in_session(&other, &unknown, request()).await));
    assert_eq!(foreign, cause(sandbox.fork_session(&other, &session).await));
    assert_eq!(foreign, cause(sandbox.close_session(&other, &session).await));
    sandbox.close_session(&owner, &session).await.unwrap();
    let closed = cause(sandbox.execute_in_session(&owner, &session, request()).await);
    assert_eq!(closed, "it was closed");
}

#[tokio::test]
async fn a_time_out_keeps_the_state() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    cell(&sandbox, &owner, &session, "x = 7").await;
    let limits = Limits { wall_ms: Some(100), ..Limits::default() };
    let request = Request { limits, ..Request::new("while True: pass") };
    let report = sandbox.execute_in_session(&owner, &session, request).await.unwrap();
    assert_eq!(report.outcome, Outcome::Timeout);
    assert_eq!(cell(&sandbox, &owner, &session, "x").await, (Outcome::Ok, "7".into()));
}

#[tokio::test]
async fn a_cell_takes_the_limits_of_its_session_where_it_names_none() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let limits = Limits { wall_ms: Some(100), ..Limits::default() };
    let options = SessionOptions { limits, ..SessionOptions::default() };
    let session = sandbox.open_session(&owner, options).await.unwrap();
    assert_eq!(cell(&sandbox, &owner, &session, "while True: pass").await.0, Outcome::Timeout);
    let limits = Limits { wall_ms: Some(10_000), ..Limits::default() };
    let longer = Request { limits, ..Request::new("import time; time.sleep(0.2)") };
    let report = sandbox.execute_in_session(&owner, &session, longer).await.unwrap();
    assert_eq!(report.outcome, Outcome::Ok);
}

#[tokio::test]
async fn a_session_whose_process_died_says_so() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    cell(&sandbox, &owner, &session, "import os; os.kill(os.getpid(), 9)").await;
    let died = cause(sandbox.execute_in_session(&owner, &session, Request::new("1")).await);
    assert!(died.contains("died"), "{died}");
    let sessions = sandbox.stats().sessions;
    assert_eq!((sessions.open, sessions.died), (0, 1));
}

#[tokio::test]
async fn closing_a_session_ends_the_cell_that_runs_in_it() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    let mut cell = sandbox.execute_in_session(&owner, &session, endless());
    assert!(poll_immediate(&mut cell).await.is_none());
    until(&sandbox, |stats| stats.running == 1).await;
    sandbox.close_session(&owner, &session).await.unwrap();
    assert_eq!(cause(cell.await), "it was closed");
    // Answered where the session was closed just before the cell began, cancelled otherwise.
    let stats = sandbox.stats();
    let ended = stats.answered + stats.cancelled;
    assert_eq!((stats.running, ended, stats.sessions.open), (0, 1, 0));
}

#[tokio::test]
async fn limits_of_time_end_sessions() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    let idle = SessionOptions { idle_ms: Some(1), ..SessionOptions::default() };
    sandbox.open_session(&owner, idle).await.unwrap();
    until(&sandbox, |stats| stats.sessions.idle == 1).await;
    let lifetime = SessionOptions { lifetime_ms: Some(300), ..SessionOptions::default() };
    let session = sandbox.open_session(&owner, lifetime).await.unwrap();
    let ended = cause(sandbox.execute_in_session(&owner, &session, endless()).await);
    assert_eq!(ended, "it ended after 300ms");
    let sessions = sandbox.stats().sessions;
    assert_eq!((sessions.open, sessions.idle, sessions.lifetime), (0, 1, 1));
}

#[tokio::test]
async fn limits_beyond_the_services_are_refused() {
    let (Some(sandbox), owner) = (start(small()), client("a")) else { return };
    for idle_ms in [0, u64::MAX] {
        let options = SessionOptions { idle_ms: Some(idle_ms), ..SessionOptions::default() };
        let refused = sandbox.open_session(&owner, options).await;
        assert!(matches!(&refused, Err(Error::Invalid(error)) if error.field == "idle_ms"));
    }
}

#[tokio::test]
async fn session_places_are_limited() {
    let mut config = small();
    config.jail.sessions = 1;
    let (Some(sandbox), owner) = (start(config), client("a")) else { return };
    let session = open(&sandbox, &owner).await;
    let refused = sandbox.open_session(&owner, SessionOptions::default()).await;
    assert!(matches!(refused, Err(Error::SessionsFull { limit: 1 })), "{refused:?}");
    sandbox.close_session(&owner, &session).await.unwrap();
    open(&sandbox, &owner).await;
}
