//! OpenAI's own Python client, unmodified, against the server. SKIP where `openai` can't be imported;
//! `ROCSTAR_OPENAI_PYTHON` names a Python that has it.

use std::path::Path;
use std::process::{Command, Output};

use crate::Server;
use crate::models::scripted;

fn python() -> String {
    std::env::var("ROCSTAR_OPENAI_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Runs `client.py`, off the test's runtime.
async fn run(arguments: Vec<String>) -> Option<Output> {
    let running = tokio::task::spawn_blocking(move || {
        let has_client = Command::new(python()).args(["-c", "import openai"]).output();
        if !has_client.is_ok_and(|output| output.status.success()) {
            println!("SKIP {} has no package `openai`", python());
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openai/client.py");
        Some(Command::new(python()).arg(script).args(arguments).output().unwrap())
    });
    running.await.unwrap()
}

#[tokio::test]
async fn an_unmodified_client_works() {
    let call = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}</tool_call>";
    let server = Server::start(scripted(&["Let me see. ", call])).await;
    let url = format!("http://{}/v1", server.address);
    let Some(output) = run(vec![url]).await else { return };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}
