//! What can't be done is refused in OpenAI's form, with the field and before anything runs.

use pretty_assertions::assert_eq;
use reqwest::{Method, StatusCode};
use rocstar_engine::openai::ServerOptions;
use serde_json::{Value, json};

use crate::models::random;
use crate::{CHAT, COMPLETIONS, Server};

/// Route, body, status, `param`, `code`.
type Row = (&'static str, Value, u16, Value, &'static str);

fn rows() -> Vec<Row> {
    let hello = json!([{"role": "user", "content": "Hello"}]);
    let long = "x".repeat(4000);
    vec![
        (CHAT, json!({}), 400, json!("messages"), "invalid_value"),
        (CHAT, json!({"messages": "Hello"}), 400, json!("messages"), "invalid_value"),
        (CHAT, json!({"messages": hello, "model": "gpt"}), 404, json!("model"), "model_not_found"),
        (
            CHAT,
            json!({"messages": hello, "temprature": 0}),
            400,
            json!("temprature"),
            "unknown_parameter",
        ),
        (
            CHAT,
            json!({"messages": hello, "response_format": {"type": "json_object"}}),
            400,
            json!("response_format"),
            "unsupported_parameter",
        ),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": long}]}),
            400,
            json!("messages"),
            "context_length_exceeded",
        ),
        (COMPLETIONS, json!({"prompt": long}), 400, json!("prompt"), "context_length_exceeded"),
        (COMPLETIONS, json!({"prompt": [5, 100_000]}), 400, json!("prompt"), "invalid_value"),
        (COMPLETIONS, json!({"prompt": ""}), 400, json!("prompt"), "invalid_value"),
        (COMPLETIONS, json!({"prompt": "a", "n": 0}), 400, json!("n"), "invalid_value"),
        ("/v1/embeddings", json!({"input": "a"}), 404, Value::Null, "unknown_url"),
        ("/v1/models", json!({}), 405, Value::Null, "method_not_allowed"),
    ]
}

#[tokio::test]
async fn refusals_have_openais_form() {
    let server = Server::start(random()).await;
    for (path, body, status, param, code) in rows() {
        let (found, error) = server.post(path, &body).await;
        let error = &error["error"];
        let facts = (found.as_u16(), error["param"].clone(), error["code"].as_str());
        assert_eq!(facts, (status, param, Some(code)), "{path} {error:#}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(server.engine.stats().requests, 0);
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let server =
        Server::with(random(), ServerOptions { body_bytes: 1000, ..ServerOptions::default() })
            .await;
    let long = format!("{{\"prompt\": \"{}\"}}", "x".repeat(2000));
    for (kind, body, status, code) in [
        ("application/json", "{", StatusCode::BAD_REQUEST, "invalid_json"),
        ("application/json", "[]", StatusCode::BAD_REQUEST, "invalid_json"),
        ("text/plain", "{}", StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
        ("application/json", long.as_str(), StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
    ] {
        let request = server.request(Method::POST, COMPLETIONS).header("content-type", kind);
        let response = request.body(body.to_owned()).send().await.unwrap();
        assert_eq!(response.status(), status);
        let error: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(error["error"]["code"], code);
    }
}
