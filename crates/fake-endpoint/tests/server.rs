//! The server does what it is told to, as a plain client sees it.
#![cfg(test)]

use pretty_assertions::assert_eq;
use reqwest::{Client, Response};
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Fault, Faults, Flavour, TokenScript};
use serde_json::{Value, json};

fn start(faults: Vec<Fault>) -> FakeEndpoint {
    let faults = Faults::first(faults);
    FakeEndpoint::start(Behaviour { faults, ..Behaviour::default() }).unwrap()
}

/// Other crates of a build may have asked for encryption: then a client wants to know whose.
fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new()
}

async fn ask(server: &FakeEndpoint, stream: bool, max_tokens: usize) -> Response {
    let body = json!({"messages": [{"role": "user", "content": "Hello, you"}], "stream": stream,
                      "max_tokens": max_tokens, "seed": 7});
    let url = format!("{}/v1/chat/completions", server.url());
    client()
        .post(url)
        .body(body.to_string())
        .header("content-type", "application/json")
        .send()
        .await
        .unwrap()
}

/// The text of a streamed answer and its last words.
fn joined(stream: &str) -> (String, String) {
    let mut text = String::new();
    let mut last = String::new();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let piece: Value = serde_json::from_str(data).unwrap_or_default();
        text += piece["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        last = data.to_owned();
    }
    (text, last)
}

#[tokio::test]
async fn streamed_and_whole_are_the_same_and_bounded() {
    let server = start(Vec::new());
    let whole: Value =
        serde_json::from_str(&ask(&server, false, 100).await.text().await.unwrap()).unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], "You said: Hello, you");
    assert_eq!(whole["usage"]["completion_tokens"], 5);
    let streamed = ask(&server, true, 100).await.text().await.unwrap();
    assert_eq!(joined(&streamed), ("You said: Hello, you".to_owned(), "[DONE]".to_owned()));
    let short = ask(&server, true, 2).await.text().await.unwrap();
    assert_eq!(joined(&short).0, "You said");
    assert!(short.contains(r#""finish_reason":"length""#), "{short}");
    let seen = server.seen();
    assert!(seen.len() == 3 && seen.iter().all(|seen| seen.was_answered && seen.seed == 7));
}

#[tokio::test]
async fn faults_come_in_their_order_and_then_it_works() {
    let server = start(vec![
        Fault::TooMany { retry_after_s: Some(2.5) },
        Fault::Status(503),
        Fault::Cut { after_pieces: 2 },
        Fault::CutQuietly { after_pieces: 2 },
        Fault::ErrorWithin { after_pieces: 1 },
        Fault::ByteByByte,
    ]);
    let busy = ask(&server, true, 100).await;
    assert_eq!(
        (busy.status().as_u16(), busy.headers()["retry-after"].to_str().unwrap()),
        (429, "2.5")
    );
    assert_eq!(ask(&server, true, 100).await.status().as_u16(), 503);
    let url = format!("{}/v1/chat/completions", server.url());
    let body = json!({"messages": [], "stream": true}).to_string();
    let cut = client().post(url).body(body).header("content-type", "application/json").send();
    let cut = match cut.await {
        Ok(response) => response.text().await,
        Err(error) => Err(error),
    };
    assert!(cut.is_err(), "{cut:?}");
    let quiet = ask(&server, true, 100).await.text().await.unwrap();
    assert_eq!(joined(&quiet).0, "You ");
    let within = ask(&server, true, 100).await.text().await.unwrap();
    assert!(joined(&within).1.contains("a fault on demand"), "{within}");
    let slow = ask(&server, true, 100).await.text().await.unwrap();
    assert_eq!(joined(&slow).1, "[DONE]");
    let answered: Vec<bool> = server.seen().iter().map(|seen| seen.was_answered).collect();
    assert_eq!(answered, [false, false, false, false, false, true]);
}

#[tokio::test]
async fn tokens_end_at_a_stop_token() {
    for (flavour, route) in [(Flavour::Vllm, "v1/completions"), (Flavour::Sglang, "generate")] {
        let token_script = TokenScript::new(|_| vec![4, 5, 6, 7]);
        let server =
            FakeEndpoint::start(Behaviour { flavour, token_script, ..Behaviour::default() });
        let server = server.unwrap();
        let body = json!({"prompt": [1], "stop_token_ids": [6], "max_tokens": 9, "input_ids": [1],
                          "sampling_params": {"stop_token_ids": [6], "max_new_tokens": 9}});
        let url = format!("{}/{route}", server.url());
        let json = client().post(url).body(body.to_string());
        let answer = json.header("content-type", "application/json").send().await.unwrap();
        let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        match flavour {
            Flavour::Sglang => {
                assert_eq!(answer["output_ids"], json!([4, 5, 6]));
                assert_eq!(answer["meta_info"]["finish_reason"]["matched"], 6);
            }
            Flavour::Vllm | Flavour::Chat => {
                assert_eq!(answer["choices"][0]["token_ids"], json!([4, 5, 6]));
                assert_eq!(answer["choices"][0]["finish_reason"], "stop");
            }
        }
    }
}
