//! The tools of the Model Context Protocol, by a real client over a stream and over HTTP.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::{ServiceError, ServiceExt as _};
use rocstar_sandbox::{LocalSandbox, Sandbox, mcp};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{small, start};

/// A client on a stream, and the server that it talks to.
struct Connection {
    client: RunningService<RoleClient, ()>,
    sandbox: Arc<LocalSandbox>,
    server: JoinSet<std::io::Result<()>>,
}

async fn connect() -> Option<Connection> {
    let sandbox = Arc::new(start(small())?);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let mut server = JoinSet::new();
    server.spawn(mcp::serve(Arc::clone(&sandbox) as Arc<dyn Sandbox>, theirs));
    let client = ().serve(ours).await.unwrap();
    Some(Connection { client, sandbox, server })
}

impl Connection {
    async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let Value::Object(arguments) = arguments else { panic!("{arguments} is no object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.client.call_tool(request).await
    }

    /// The first text of a cell's answer, and its session.
    async fn cell(&self, arguments: Value) -> (String, String) {
        let result = self.call("python_session", arguments).await.unwrap();
        let session = result.structured_content.clone().unwrap_or_default()["session"].clone();
        (first_text(&result), session.as_str().unwrap_or_default().to_owned())
    }
}

fn first_text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

#[tokio::test]
async fn the_tools_are_listed_and_run() {
    let Some(connection) = connect().await else { return };
    let tools = connection.client.list_all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["python", "python_session"]);
    let good = connection.call("python", json!({"code": "print('a')\n1 + 1"})).await.unwrap();
    assert_eq!((first_text(&good), good.is_error), ("a\n2".to_owned(), Some(false)));
    let bad = connection.call("python", json!({"code": "1 / 0"})).await.unwrap();
    assert!(first_text(&bad).contains("ZeroDivisionError"), "{bad:?}");
    assert_eq!(bad.is_error, Some(true));
    let input = json!({"code": "print(input())", "stdin": "x"});
    assert_eq!(first_text(&connection.call("python", input).await.unwrap()), "x");
}

#[tokio::test]
async fn wrong_arguments_are_a_protocol_error_that_names_them() {
    let Some(connection) = connect().await else { return };
    for (arguments, named) in [
        (json!({}), "code"),
        (json!({"code": "1", "colour": "red"}), "colour"),
        (json!({"code": "1", "timeout_ms": 0}), "limits.wall_ms"),
    ] {
        let error = connection.call("python", arguments).await.unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    assert!(connection.call("ruby", json!({"code": "1"})).await.is_err());
}

#[tokio::test]
async fn a_connection_keeps_its_session_until_it_is_reset() {
    let Some(connection) = connect().await else { return };
    let (_, first) = connection.cell(json!({"code": "x = 1"})).await;
    assert_eq!(connection.cell(json!({"code": "x"})).await, ("1".to_owned(), first.clone()));
    let (text, second) = connection.cell(json!({"code": "x", "reset": true})).await;
    assert!(text.contains("NameError"), "{text}");
    assert_ne!(first, second);
    let (text, _) = connection.cell(json!({"code": "x", "session": first})).await;
    assert!(text.contains("it was closed"), "{text}");
    let sessions = connection.sandbox.stats().sessions;
    assert_eq!((sessions.opened, sessions.closed, sessions.open), (2, 1, 1));
}

#[tokio::test]
async fn lost_state_is_reported_once_and_then_starts_afresh() {
    let Some(connection) = connect().await else { return };
    connection.cell(json!({"code": "import os; os.kill(os.getpid(), 9)"})).await;
    let (text, session) = connection.cell(json!({"code": "1"})).await;
    assert!(text.contains("died") && session.is_empty(), "{text}");
    assert_eq!(connection.cell(json!({"code": "1"})).await.0, "1");
}

#[tokio::test]
async fn the_server_ends_when_the_client_hangs_up() {
    let Some(mut connection) = connect().await else { return };
    connection.client.cancel().await.unwrap();
    connection.server.join_next().await.unwrap().unwrap().unwrap();
}

/// One request that stands alone, as newer versions of the protocol send them.
fn stateless(tool: &str, arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": tool,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1.0"},
                "io.modelcontextprotocol/clientCapabilities": {}
            }
        }
    })
}

#[tokio::test]
async fn over_http_each_request_stands_alone_and_names_its_session() {
    let Some(sandbox) = start(small()) else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(axum::serve(listener, mcp::router(Arc::new(sandbox))).into_future());
    let http = rocstar_sandbox::client_builder("http:").build().unwrap();
    let post = |tool: &str, arguments: Value| {
        let body = stateless(tool, &arguments);
        http.post(&url)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .json(&body)
    };
    let send = async |request: reqwest::RequestBuilder| {
        let text = request.send().await.unwrap().text().await.unwrap();
        let start = text.find('{').unwrap_or_else(|| panic!("no JSON in {text:?}"));
        let end = text.rfind('}').unwrap();
        serde_json::from_str::<Value>(&text[start..=end]).unwrap()["result"].clone()
    };
    let first = send(post("python_session", json!({"code": "x = 5"}))).await;
    let session = &first["structuredContent"]["session"];
    let second = send(post("python_session", json!({"code": "x", "session": session}))).await;
    assert_eq!(second["content"][0]["text"], "5", "{second}");
    let from_a_page = post("python", json!({"code": "1"})).header("origin", "http://evil.example");
    assert_eq!(from_a_page.send().await.unwrap().status(), 403);
}
