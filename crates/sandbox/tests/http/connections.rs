//! Who may connect, and what becomes of work when connections or the server end.

use pretty_assertions::assert_eq;
use reqwest::{Method, StatusCode};
use rocstar_sandbox::Batch;
use rocstar_sandbox::http::HttpConfig;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{Server, endless, small};

/// A request on a connection of its own, whose answer is not waited for.
async fn post_raw(server: &Server, path: &str, body: &impl Serialize) -> TcpStream {
    let body = serde_json::to_string(body).unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

#[tokio::test]
async fn without_the_token_only_the_probes_answer() {
    let config = HttpConfig { token: Some("secret".into()), ..HttpConfig::default() };
    let Some(server) = Server::with(small(), config).await else { return };
    for path in ["/health", "/ready"] {
        assert_eq!(server.get(path).await.0, StatusCode::OK, "{path}");
    }
    for (method, path) in [
        (Method::GET, "/metrics"),
        (Method::GET, "/status"),
        (Method::GET, "/v1/effective"),
        (Method::POST, "/v1/execute"),
        (Method::POST, "/run_code"),
        (Method::POST, "/mcp"),
        (Method::GET, "/nothing"),
    ] {
        let response = server.request(method, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"rocstar\"", "{path}");
    }
    let with = async |token: &str| {
        let request = server.request(Method::POST, "/v1/execute").bearer_auth(token);
        request.json(&json!({"program": ""})).send().await.unwrap().status()
    };
    assert_eq!(with("secret").await, StatusCode::OK);
    assert_eq!(with("secrets").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_call() {
    let Some(server) = Server::start().await else { return };
    let connection = post_raw(&server, "/v1/execute", &endless()).await;
    server.until(|stats| stats.running == 1).await;
    drop(connection);
    let stats = server.until(|stats| stats.running == 0).await;
    assert_eq!((stats.accepted, stats.answered, stats.cancelled), (1, 0, 1));
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_batch() {
    let Some(server) = Server::start().await else { return };
    let batch = Batch { calls: vec![endless(); 100], share_identical: false };
    for path in ["/v1/execute/batch", "/v1/execute/batch?stream=true"] {
        let connection = post_raw(&server, path, &batch).await;
        server.until(|stats| stats.running > 0).await;
        drop(connection);
        server.until(|stats| stats.running == 0 && stats.queued == 0).await;
    }
    let stats = server.sandbox.stats();
    assert_eq!((stats.accepted, stats.answered, stats.cancelled), (200, 0, 200));
}

#[tokio::test]
async fn a_client_of_a_peers_route_that_hangs_up_frees_its_work() {
    let Some(server) = Server::start().await else { return };
    let code = "while True: pass";
    let submission = json!({"type": "python", "solution": code});
    for (path, body) in [
        ("/run", submission.clone()),
        ("/run/long-batch", json!({"type": "batch", "submissions": [submission]})),
        ("/run_code", json!({"language": "python", "code": code, "run_timeout": 500})),
        ("/run_jupyter", json!({"cells": [code], "total_timeout": 500})),
    ] {
        let connection = post_raw(&server, path, &body).await;
        server.until(|stats| stats.running > 0).await;
        drop(connection);
        server.until(|stats| stats.running == 0 && stats.queued == 0).await;
    }
    assert_eq!(server.sandbox.stats().cancelled, 4);
    // The session that the notebook left behind ends by its idle limit.
    server.until(|stats| stats.sessions.open == 0).await;
}

#[tokio::test]
async fn stopping_answers_what_is_open_and_takes_nothing_more() {
    let Some(mut server) = Server::start().await else { return };
    let mut open = post_raw(&server, "/v1/execute", &endless()).await;
    server.until(|stats| stats.running == 1).await;
    server.stop.cancel();
    let stats = server.sandbox.shutdown(Duration::ZERO).await;
    assert_eq!((stats.accepted, stats.running, stats.queued), (1, 0, 0));

    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    let status = answer.lines().next().unwrap();
    assert!(["HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"].contains(&status), "{answer}");
    server.serving.join_next().await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_server_that_goes_down_says_so() {
    let Some(server) = Server::start().await else { return };
    server.sandbox.shutdown(Duration::ZERO).await;
    let request = server.request(Method::POST, "/v1/execute").json(&json!({"program": ""}));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let config = HttpConfig { body_ms: 1, ..HttpConfig::default() };
    let Some(server) = Server::with(small(), config).await else { return };
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let request = "POST /v1/execute HTTP/1.1\r\nhost: localhost\r\n\
                   content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 32];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, *b"HTTP/1.1 408 Request Timeout\r\nco");
}

#[tokio::test]
async fn connections_have_a_bound_and_an_end() {
    let config = HttpConfig { connections: 1, idle_connection_ms: 1, ..HttpConfig::default() };
    let Some(server) = Server::with(small(), config).await else { return };
    // One that sends nothing is closed, and so leaves its place to the next.
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut nothing = Vec::new();
    silent.read_to_end(&mut nothing).await.unwrap();
    assert_eq!(nothing, b"");
    let mut next = post_raw(&server, "/v1/execute", &json!({"program": ""})).await;
    let mut answer = [0; 15];
    next.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, *b"HTTP/1.1 200 OK");
}
