//! `HttpClient`: the same trait, the same answers, the same errors as in the process.

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use rocstar_sandbox::http::HttpConfig;
use rocstar_sandbox::jail::{Limits, Outcome, Request};
use rocstar_sandbox::{
    Batch, ClientId, Error, HttpClient, JudgeCase, JudgeRequest, Sandbox, Schedule, ServiceConfig,
    SessionId, SessionOptions, Verdict,
};
use std::time::Duration;

use crate::{Server, endless, small};

fn me() -> ClientId {
    ClientId::new("me")
}

#[tokio::test]
async fn answers_are_those_of_the_process() {
    let Some(server) = Server::start().await else { return };
    let remote = server.client();
    let request = Request {
        stdin: Some(b"\xff".into()),
        argv: vec!["ü".into()],
        last_expression: true,
        ..Request::new("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())\nsys.argv[1:]")
    };
    let there = remote.execute(&me(), request.clone(), Schedule::default()).await.unwrap();
    let here = server.sandbox.execute(&me(), request, Schedule::default()).await.unwrap();
    assert_eq!(there.outcome, Outcome::Ok);
    assert_eq!((&there.stdout, &there.value), (&here.stdout, &here.value));
    assert_eq!(remote.effective().await.unwrap(), server.sandbox.effective().await.unwrap());
}

#[tokio::test]
async fn batches_stream() {
    let Some(server) = Server::start().await else { return };
    let calls: Vec<Request> = (0..50).map(|n| Request::new(format!("print({n})"))).collect();
    let batch = Batch { calls, share_identical: false };
    let reports = server.client().execute_batch(&me(), batch, Schedule::default()).await.unwrap();
    let mut reports: Vec<_> = reports.collect().await;
    reports.sort_by_key(|(index, _)| *index);
    for (position, (index, report)) in reports.into_iter().enumerate() {
        assert_eq!(index, position);
        assert_eq!(report.unwrap().stdout.text, format!("{index}\n"));
    }
}

#[tokio::test]
async fn dropping_a_stream_frees_the_rest() {
    let Some(server) = Server::start().await else { return };
    let batch = Batch { calls: vec![endless(); 20], share_identical: false };
    let reports = server.client().execute_batch(&me(), batch, Schedule::default()).await.unwrap();
    server.until(|stats| stats.running > 0).await;
    drop(reports);
    let stats = server.until(|stats| stats.running == 0 && stats.queued == 0).await;
    assert_eq!(stats.cancelled, 20);
}

#[tokio::test]
async fn sessions_live_and_end() {
    let Some(server) = Server::start().await else { return };
    let remote = server.client();
    let session = remote.open_session(&me(), SessionOptions::default()).await.unwrap();
    let cell = async |session: &SessionId, program: &str| {
        let request = Request { last_expression: true, ..Request::new(program) };
        remote.execute_in_session(&me(), session, request).await
    };
    cell(&session, "x = 1").await.unwrap();
    let fork = remote.fork_session(&me(), &session).await.unwrap();
    assert_eq!(cell(&fork, "x + 1").await.unwrap().value.as_deref(), Some("2"));
    remote.close_session(&me(), &session).await.unwrap();
    let gone = cell(&session, "x").await.unwrap_err();
    assert!(matches!(&gone, Error::NoSession { id, .. } if *id == session.0), "{gone}");
    let foreign = SessionId("../judge".into());
    let refused = cell(&foreign, "x").await.unwrap_err();
    assert!(matches!(refused, Error::NoSession { .. }), "{refused}");
}

#[tokio::test]
async fn judgements_come_through() {
    let Some(server) = Server::start().await else { return };
    let case = |stdin: &str, expected: &str| JudgeCase::Output {
        stdin: stdin.into(),
        expected_stdout: expected.into(),
    };
    let request = JudgeRequest {
        program: "print(input())".into(),
        cases: vec![case("a", "a"), case("a", "b"), JudgeCase::Asserts { asserts: "".into() }],
        stop_early: false,
        limits: Limits::default(),
    };
    let judgement = server.client().judge(&me(), request).await.unwrap();
    let verdicts: Vec<Verdict> = judgement.cases.iter().map(|case| case.verdict).collect();
    assert_eq!(verdicts, [Verdict::Passed, Verdict::WrongOutput, Verdict::Failed]);
}

#[tokio::test]
async fn refusals_keep_their_kind() {
    let mut service = ServiceConfig { queue_calls: 1, ..small() };
    service.active_calls = 1;
    service.jail.slots = 1;
    let Some(server) = Server::with(service, HttpConfig::default()).await else { return };
    let remote = server.client();
    let invalid = Request { argv: vec!["\0".into()], ..Request::new("") };
    let error = remote.execute(&me(), invalid, Schedule::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(invalid) if invalid.field == "argv[0]"), "{error}");

    let call = |request, schedule| remote.execute(&me(), request, schedule);
    let mut hogs = tokio::task::JoinSet::new();
    let other = remote.clone();
    hogs.spawn(async move { other.execute(&me(), endless(), Schedule::default()).await });
    server.until(|stats| stats.running == 1).await;
    let schedule = Schedule { start_within: Some(Duration::from_millis(1)) };
    let error = call(Request::new(""), schedule).await.unwrap_err();
    assert!(matches!(error, Error::DeadlinePassed { waited_ms: 1.. }), "{error}");

    let other = remote.clone();
    hogs.spawn(async move { other.execute(&me(), endless(), Schedule::default()).await });
    server.until(|stats| stats.queued == 1).await;
    let error = call(Request::new(""), Schedule::default()).await.unwrap_err();
    assert!(matches!(error, Error::Full { capacity: 1, retry_after_s: 1.., .. }), "{error}");

    server.sandbox.shutdown(Duration::ZERO).await;
    let error = remote.execute(&me(), Request::new(""), Schedule::default()).await.unwrap_err();
    assert!(matches!(error, Error::ShuttingDown), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_ours_is_a_transport_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let nobody = HttpClient::new(&format!("http://{address}"), None).unwrap();
    let error = nobody.effective().await.unwrap_err();
    assert!(
        matches!(&error, Error::Transport { cause, .. } if cause.contains("refused")),
        "{error}"
    );

    let config = HttpConfig { token: Some("secret".into()), ..HttpConfig::default() };
    let Some(server) = Server::with(small(), config).await else { return };
    let error = server.client().effective().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { cause, .. } if cause.contains("token")), "{error}");
    let known = HttpClient::new(&server.url("/"), Some("secret".into())).unwrap();
    assert!(known.effective().await.is_ok());

    for url in ["", "localhost:1", "ftp://localhost", "http://"] {
        assert!(HttpClient::new(url, None).is_err(), "{url}");
    }
}
