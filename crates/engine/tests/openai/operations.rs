//! Models, health, metrics, tokens; clients that leave, crowds, and the end.

use std::time::Duration;

use pretty_assertions::assert_eq;
use reqwest::{Method, StatusCode};
use rocstar_engine::Stats;
use rocstar_engine::openai::ServerOptions;
use serde_json::{Value, json};

use crate::models::{END, options, random, random_with};
use crate::{CHAT, COMPLETIONS, Server};

/// Runs until it is stopped: the context is long, and no token ends it.
fn endless() -> Value {
    json!({"prompt": "a", "max_tokens": 2000, "ignore_eos": true})
}

#[tokio::test]
async fn the_model_is_listed_and_described() {
    let server = Server::start(random()).await;
    let list: Value = serde_json::from_str(&server.get("/v1/models").await.1).unwrap();
    assert_eq!(list["object"], "list");
    let card: Value = serde_json::from_str(&server.get("/v1/models/tiny").await.1).unwrap();
    assert_eq!(list["data"], json!([card]));
    assert_eq!(card["id"], "tiny");
    assert_eq!(card["max_model_len"], 2048);
    assert_eq!(card["rocstar"]["end_tokens"], json!([END]));
    assert_eq!(server.get("/v1/models/org/other").await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/health").await, (StatusCode::OK, "ok\n".to_owned()));
}

#[tokio::test]
async fn a_scrape_counts_what_was_done() {
    let server = Server::start(random()).await;
    let body = json!({"prompt": "abc", "max_tokens": 5, "ignore_eos": true, "n": 2});
    server.answer(COMPLETIONS, &body).await;
    server.until(|stats| stats.finished == 2).await;
    let (status, text) = server.get("/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "rocstar_engine_requests_total 2",
        "rocstar_engine_finished_total 2",
        "rocstar_engine_new_tokens_total 10",
        "rocstar_engine_running 0",
        "rocstar_engine_first_token_seconds_count 2",
        "rocstar_engine_http_responses_total{route=\"/v1/completions\",status=\"200\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
}

#[tokio::test]
async fn tokens_go_there_and_back() {
    let server = Server::start(random()).await;
    let answer = server.answer("/tokenize", &json!({"prompt": "aß"})).await;
    assert_eq!(answer, json!({"tokens": [97, 195, 159], "count": 3, "max_model_len": 2048}));
    let tokens = json!({"tokens": answer["tokens"]});
    assert_eq!(server.answer("/detokenize", &tokens).await, json!({"prompt": "aß"}));
    let (status, refused) = server.post("/detokenize", &json!({"tokens": [97, 9999]})).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("tokens[1]"))
    );
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let server = Server::start(random()).await;
    for stream in [false, true] {
        let mut body = endless();
        body["stream"] = json!(stream);
        body["n"] = json!(3);
        let request = server.request(Method::POST, COMPLETIONS).json(&body);
        let before = server.engine.stats();
        let waiting = tokio::time::timeout(Duration::from_secs(60), async {
            if stream {
                let mut response = request.send().await.unwrap();
                response.chunk().await.unwrap();
            } else {
                tokio::select! {
                    _ = request.send() => {}
                    _ = server.until(|stats| stats.new_tokens > before.new_tokens) => {}
                }
            }
        });
        waiting.await.unwrap();
        // Counts of one moment are told one after another: all of them must come to it.
        let is_free = |stats: &Stats| (stats.running, stats.waiting) == (0, 0);
        server.until(|stats| stats.finished == before.finished + 3 && is_free(stats)).await;
    }
}

#[tokio::test]
async fn a_full_queue_is_told_with_a_time_to_try_again() {
    let mut small = options();
    (small.max_running, small.max_waiting) = (1, 1);
    let server = Server::start(random_with(small)).await;
    let mut body = endless();
    (body["n"], body["stream"]) = (json!(2), json!(true));
    let mut held = server.request(Method::POST, COMPLETIONS).json(&body).send().await.unwrap();
    held.chunk().await.unwrap();
    let body = endless();
    let response = server.request(Method::POST, COMPLETIONS).json(&body).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "1");
    let error: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    assert_eq!(error["error"]["type"], "rate_limit_error");
    // Only the two that were accepted are there.
    assert_eq!(server.engine.stats().requests, 2);
    drop(held);
}

#[tokio::test]
async fn open_requests_are_answered_before_the_server_ends() {
    let server = Server::start(random()).await;
    let body = json!({"prompt": "a", "max_tokens": 100, "ignore_eos": true});
    let request = server.request(Method::POST, COMPLETIONS).json(&body).send();
    let stopping = async {
        server.until(|stats| stats.requests == 1).await;
        server.stop.cancel();
    };
    let (response, ()) = tokio::join!(request, stopping);
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn what_outlasts_the_grace_is_told_that_it_was_cut_off() {
    let server =
        Server::with(random(), ServerOptions { grace_ms: 0, ..ServerOptions::default() }).await;
    let mut streaming = endless();
    streaming["stream"] = json!(true);
    let whole = server.request(Method::POST, COMPLETIONS).json(&endless()).send();
    let streamed = server.request(Method::POST, COMPLETIONS).json(&streaming).send();
    let stopping = async {
        server.until(|stats| stats.running == 2).await;
        server.stop.cancel();
    };
    let (whole, streamed, ()) = tokio::join!(whole, streamed, stopping);
    let whole = whole.unwrap();
    assert_eq!(whole.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(whole.headers()["retry-after"], "1");
    let text = streamed.unwrap().text().await.unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["code"], "shutting_down");
    server.until(|stats| stats.running == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let options = ServerOptions { token: Some("secret".to_owned()), ..ServerOptions::default() };
    assert!(!format!("{options:?}").contains("secret"));
    let server = Server::with(random(), options).await;
    let (status, error) = server.post(CHAT, &json!({})).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(error["error"]["code"], "invalid_api_key");
    assert_eq!(server.get("/health").await.0, StatusCode::OK);
    assert_eq!(server.get("/metrics").await.0, StatusCode::UNAUTHORIZED);
    let request = server.request(Method::GET, "/v1/models").bearer_auth("secret");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
}
