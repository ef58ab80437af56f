//! The native API, as any HTTP client sees it.

use pretty_assertions::assert_eq;
use reqwest::{Method, StatusCode};
use rocstar_sandbox::http::HttpConfig;
use serde_json::{Value, json};

use crate::Server;

#[tokio::test]
async fn a_program_is_run() {
    let Some(server) = Server::start().await else { return };
    let report = server
        .answer(
            "/v1/execute",
            &json!({"program": "print(input())\n40 + 2", "stdin": "hi\n", "last_expression": true}),
        )
        .await;
    assert_eq!(report["outcome"], json!({"type": "ok"}));
    assert_eq!(report["stdout"], json!({"text": "hi\n", "total_bytes": 3, "cut_bytes": 0}));
    assert_eq!(report["value"], "42");
}

#[tokio::test]
async fn a_batch_is_answered_in_order_or_as_it_finishes() {
    let Some(server) = Server::start().await else { return };
    let calls: Vec<Value> = (0..20).map(|n| json!({"program": format!("print({n})")})).collect();
    let batch = json!({ "calls": calls });

    let ordered = server.answer("/v1/execute/batch", &batch).await;
    let printed: Vec<&str> = ordered["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["stdout"]["text"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (0..20).map(|n| format!("{n}\n")).collect();
    assert_eq!(printed, expected);

    let request = server.request(Method::POST, "/v1/execute/batch?stream=true").json(&batch);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let mut seen = vec![false; 20];
    for line in response.text().await.unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let index = usize::try_from(line["index"].as_u64().unwrap()).unwrap();
        assert_eq!(line["report"]["stdout"]["text"], expected[index]);
        assert!(!std::mem::replace(&mut seen[index], true), "{index} came twice");
    }
    assert_eq!(seen, [true; 20]);
}

#[tokio::test]
async fn a_batch_ahead_of_a_slow_call_waits_in_a_file() {
    let config = HttpConfig { held_report_bytes: 0, ..HttpConfig::default() };
    let Some(server) = Server::with(crate::small(), config).await else { return };
    let slow = json!({"program": "x = sum(range(3_000_000))\nprint('slow')"});
    let quick = json!({"program": "print('q' * 1000)"});
    let calls: Vec<Value> = std::iter::once(slow).chain(vec![quick; 20]).collect();
    let answer = server.answer("/v1/execute/batch", &json!({ "calls": calls })).await;
    let reports = answer["reports"].as_array().unwrap();
    assert_eq!(reports.len(), 21);
    assert_eq!(reports[0]["stdout"]["text"], "slow\n");
    assert_eq!(reports[20]["stdout"]["total_bytes"], 1_001);
}

#[tokio::test]
async fn a_session_keeps_its_state_and_forks() {
    let Some(server) = Server::start().await else { return };
    let (status, opened) = server.post("/v1/sessions", &json!({})).await;
    assert_eq!(status, StatusCode::CREATED);
    let session = format!("/v1/sessions/{}", opened["id"].as_str().unwrap());
    let cell = async |session: &str, program: &str| {
        let body = json!({"program": program, "last_expression": true});
        server.answer(&format!("{session}/execute"), &body).await["value"].clone()
    };
    assert_eq!(cell(&session, "x = 1").await, Value::Null);

    let fork = server.request(Method::POST, &format!("{session}/fork")).send().await.unwrap();
    assert_eq!(fork.status(), StatusCode::CREATED);
    let fork: Value = serde_json::from_str(&fork.text().await.unwrap()).unwrap();
    let fork = format!("/v1/sessions/{}", fork["id"].as_str().unwrap());
    assert_eq!(cell(&fork, "x += 1; x").await, "2");
    assert_eq!(cell(&session, "x").await, "1");

    let delete = async |path: &str| server.request(Method::DELETE, path).send().await.unwrap();
    assert_eq!(delete(&session).await.status(), StatusCode::NO_CONTENT);
    let again = delete(&session).await;
    assert_eq!(again.status(), StatusCode::NOT_FOUND);
    let again: Value = serde_json::from_str(&again.text().await.unwrap()).unwrap();
    assert_eq!(again["error"]["code"], "unknown_session");

    // Another client does not get at it, though it knows the name.
    let request = server.request(Method::POST, &format!("{fork}/execute"));
    let request = request.header("x-rocstar-client", "someone else");
    let response = request.json(&json!({"program": "x"})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_program_is_judged() {
    let Some(server) = Server::start().await else { return };
    let judgement = server
        .answer(
            "/v1/judge",
            &json!({
                "program": "n = int(input() or 0)\nprint(n * 2)",
                "cases": [
                    {"stdin": "2", "expected_stdout": "4"},
                    {"stdin": "2", "expected_stdout": "5"},
                    {"stdin": "x", "expected_stdout": ""},
                ],
            }),
        )
        .await;
    assert_eq!(judgement["passed"], false);
    let verdicts: Vec<&Value> =
        judgement["cases"].as_array().unwrap().iter().map(|case| &case["verdict"]).collect();
    assert_eq!(verdicts, ["passed", "wrong_output", "failed"]);
}

#[tokio::test]
async fn every_documented_route_is_served() {
    let Some(server) = Server::start().await else { return };
    let (_, document) = server.get("/v1/openapi.json").await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut served = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let response = server.request(method, &path.replace("{id}", "none")).send().await;
            let (status, text) = {
                let response = response.unwrap();
                (response.status(), response.text().await.unwrap())
            };
            let answer: Value = serde_json::from_str(&text).unwrap_or_default();
            assert_ne!(answer["error"]["code"], "not_found", "{path}");
            assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let documented = &operations.as_object().unwrap().values().next().unwrap()["responses"];
            assert!(!documented[status.as_str()].is_null(), "{path} answers {status}: {text}");
            served += 1;
        }
    }
    assert_eq!(served, 12);
}

#[tokio::test]
async fn the_counts_can_be_scraped() {
    let Some(server) = Server::start().await else { return };
    server.answer("/v1/execute", &json!({"program": "print(1)"})).await;
    server.answer("/v1/execute", &json!({"program": "1 / 0"})).await;
    let (status, text) = server.get("/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "rocstar_sandbox_calls_accepted_total 2",
        "rocstar_sandbox_calls_answered_total 2",
        "rocstar_sandbox_outcomes_total{outcome=\"ok\"} 1",
        "rocstar_sandbox_outcomes_total{outcome=\"exception\"} 1",
        "rocstar_sandbox_http_responses_total{route=\"/v1/execute\",status=\"200\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}

#[tokio::test]
async fn effective_layers_are_told() {
    let Some(server) = Server::start().await else { return };
    let (status, text) = server.get("/v1/effective").await;
    assert_eq!(status, StatusCode::OK);
    let effective: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(effective["layers"].as_array().unwrap().len(), 13);
    assert_eq!(effective["degraded"], false);
}
