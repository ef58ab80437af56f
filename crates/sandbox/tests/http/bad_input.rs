//! Requests that can't be accepted: a clear 4xx each, and a server that goes on.

use futures::stream;
use pretty_assertions::assert_eq;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::Server;

/// Status, code and field of the refusal of `body`.
async fn refused(server: &Server, path: &str, body: &str) -> (u16, String, String) {
    let (status, answer) = server.post_text(path, body.to_owned()).await;
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    (status.as_u16(), text("code"), text("field"))
}

async fn still_answers(server: &Server) {
    let report = server.answer("/v1/execute", &json!({"program": "print('still here')"})).await;
    assert_eq!(report["stdout"]["text"], "still here\n");
}

#[tokio::test]
async fn each_bad_call_is_refused_by_its_field() {
    let Some(server) = Server::start().await else { return };
    for (body, status, code, field) in [
        ("", 400, "malformed_json", ""),
        ("{", 400, "malformed_json", ""),
        (r#"{"program": "x", }"#, 400, "malformed_json", ""),
        (
            r#"{"program":"","limits":{"wall_ms":Infinity}}"#,
            400,
            "malformed_json",
            "limits.wall_ms",
        ),
        ("[1]", 422, "invalid_field", "[0]"),
        ("{}", 422, "invalid_field", "program"),
        (r#"{"program":1}"#, 422, "invalid_field", "program"),
        (r#"{"program":"","colour":1}"#, 422, "invalid_field", "colour"),
        (r#"{"program":"\u0000"}"#, 422, "invalid_field", "program"),
        (r#"{"program":"\ud800"}"#, 422, "invalid_field", "program"),
        (r#"{"program":"","limits":{"wall_ms":0}}"#, 422, "invalid_field", "limits.wall_ms"),
        (r#"{"program":"","limits":{"wall_ms":-1}}"#, 422, "invalid_field", "limits.wall_ms"),
        (r#"{"program":"","limits":{"wall_ms":1e999}}"#, 422, "invalid_field", "limits.wall_ms"),
        (
            r#"{"program":"","limits":{"memory_bytes":1e9}}"#,
            422,
            "invalid_field",
            "limits.memory_bytes",
        ),
        (
            r#"{"program":"","limits":{"wall_ms":99999999999}}"#,
            422,
            "invalid_field",
            "limits.wall_ms",
        ),
        (r#"{"program":"","argv":["a\u0000"]}"#, 422, "invalid_field", "argv[0]"),
        (
            r#"{"program":"","files":[{"path":"../a","content":""}]}"#,
            422,
            "invalid_field",
            "files[0].path",
        ),
        (r#"{"program":"","fetch":["/etc/shadow"]}"#, 422, "invalid_field", "fetch[0]"),
        (r#"{"program":"","kind":"fast"}"#, 422, "invalid_field", "kind"),
    ] {
        let expected = (status, code.to_owned(), field.to_owned());
        assert_eq!(refused(&server, "/v1/execute", body).await, expected, "{body}");
    }
    still_answers(&server).await;
}

#[tokio::test]
async fn each_bad_batch_is_refused_by_its_field() {
    let Some(server) = Server::start().await else { return };
    let many = format!(r#"{{"calls":[{}]}}"#, vec![r#"{"program":""}"#; 45_001].join(","));
    for (body, field) in [
        (r#"{"calls":[]}"#, "calls"),
        (many.as_str(), "calls"),
        (
            r#"{"calls":[{"program":""},{"program":"","limits":{"cpu_ms":0}}]}"#,
            "calls[1].limits.cpu_ms",
        ),
        (r#"{"calls":[{"program":""},{"program":"\u0000"}]}"#, "calls[1].program"),
        (r#"{"calls":[{"program":"","limit":{}}]}"#, "calls[0].limit"),
        (r#"{"share_identical":true}"#, "calls"),
    ] {
        let (status, code, found) = refused(&server, "/v1/execute/batch", body).await;
        assert_eq!((status, code.as_str(), found.as_str()), (422, "invalid_field", field));
    }
    let judge = refused(&server, "/v1/judge", r#"{"program":"","cases":[]}"#).await;
    assert_eq!(judge, (422, "invalid_field".to_owned(), "cases".to_owned()));
    let query = refused(&server, "/v1/execute?start_within=5", r#"{"program":""}"#).await;
    assert_eq!(query, (422, "invalid_field".to_owned(), "query".to_owned()));
    let stats = server.sandbox.stats();
    assert_eq!((stats.accepted, stats.queued), (0, 0));
    still_answers(&server).await;
}

#[tokio::test]
async fn a_huge_program_is_refused_unread_and_unheld() {
    let Some(server) = Server::start().await else { return };
    let huge = format!(r#"{{"program":"{}"}}"#, "x".repeat(100 << 20));
    let (status, answer) = server.post_text("/v1/execute", huge.clone()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer["error"]["code"], "body_too_large");
    assert_eq!(answer["error"]["details"], json!({"limit_bytes": 16 << 20}));
    // The same without a declared length.
    let chunks: Vec<Vec<u8>> = huge.as_bytes().chunks(1 << 20).map(<[u8]>::to_vec).collect();
    let chunks = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    let (status, _) = server.post_text("/v1/execute", reqwest::Body::wrap_stream(chunks)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // Within the body's limit, but more than a program may have.
    let (status, answer) =
        server.post("/v1/execute", &json!({"program": "#".repeat((8 << 20) + 1)})).await;
    assert_eq!((status.as_u16(), &answer["error"]["field"]), (422, &json!("program")));
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.contains("rocstar_sandbox_http_body_bytes 0\n"), "{metrics}");
    still_answers(&server).await;
}

#[tokio::test]
async fn more_bodies_than_the_server_holds_are_put_off() {
    let config = rocstar_sandbox::http::HttpConfig { held_body_bytes: 1_000, ..Default::default() };
    let Some(server) = Server::with(crate::small(), config).await else { return };
    let request = server.request(Method::POST, "/v1/execute");
    let response = request.json(&json!({"program": "#".repeat(1_000)})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "1");
    let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(answer["error"]["code"], "busy");
    still_answers(&server).await;
}

#[tokio::test]
async fn what_is_not_declared_as_json_is_refused() {
    let Some(server) = Server::start().await else { return };
    for declared in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let mut request = server.request(Method::POST, "/v1/execute").body(r#"{"program":""}"#);
        if let Some(declared) = declared {
            request = request.header("content-type", declared);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{declared:?}");
    }
    let request = server.request(Method::POST, "/v1/execute").body(r#"{"program":""}"#);
    let request = request.header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn unknown_routes_methods_and_sessions_are_told_apart() {
    let Some(server) = Server::start().await else { return };
    let code = async |method: Method, path: &str| {
        let response = server.request(method, path).send().await.unwrap();
        let status = response.status().as_u16();
        let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        (status, answer["error"]["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(code(Method::GET, "/v2/execute").await, (404, "not_found".into()));
    assert_eq!(code(Method::GET, "/v1/execute").await, (405, "method_not_allowed".into()));
    let fork = code(Method::POST, "/v1/sessions/0123/fork").await;
    assert_eq!(fork, (404, "unknown_session".into()));
}
