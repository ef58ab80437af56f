//! `rocstar serve`: a model that is served, asked and stopped; models that can't be served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Harness, announced, show};
use crate::tiny_model;

/// A harness with a model in `model`.
fn with_model() -> Harness {
    let harness = Harness::new();
    tiny_model::save(&harness.path().join("model"));
    harness
}

const SERVE: [&str; 8] =
    ["serve", "--model", "model", "--listen", "127.0.0.1:0", "--json", "--template", "chatml"];

struct Service {
    process: Child,
    announcement: Value,
}

impl Service {
    fn start(harness: &Harness) -> Self {
        let (process, announcement) = announced(harness.command(&SERVE));
        Self { process, announcement }
    }

    fn post(&self, path: &str, body: &Value) -> String {
        let url = self.announcement["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks it to stop, and gives its exit status and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

#[test]
fn a_model_is_served_until_a_signal() {
    let harness = with_model();
    let service = Service::start(&harness);
    assert_eq!(service.announcement["model"], "model");
    assert_eq!(service.announcement["context_tokens"], 256);
    let hello = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5});
    let answer = service.post("/v1/chat/completions", &hello);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = service.post("/v1/completions", &json!({"prompt": [1, 2], "max_tokens": 5}));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (status, said) = service.stop();
    assert_eq!(status, Some(0), "{said}");
    for line in ["memory:    ", "listening: http://127.0.0.1:", "stopped: 2 answers accepted"] {
        assert!(said.contains(line), "{line} is missing in:\n{said}");
    }
}

#[test]
fn what_cannot_work_is_told_before_weights_are_read() {
    let harness = with_model();
    for (more, expected) in [
        (&["--kv-bytes", "4TiB"][..], "are free"),
        (&["--max-running", "0"], "`max_running` is 0"),
        (&["--context-tokens", "512"], "`context_tokens` is 512"),
        (&["--call-format", "xml"], "no format of tool calls"),
        (&["--template", "missing.jinja"], "can't read the template"),
    ] {
        let output = harness.command(&SERVE[..6]).args(more).output().unwrap();
        let text = show(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let harness = with_model();
    tiny_model::save_tokenizer(&harness.path().join("model"), &["<a>", "<b>", "<c>"]);
    let output = harness.command(&SERVE).output().unwrap();
    let text = show(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("259 tokens") && text.contains("258 rows"), "{text}");
}

#[test]
fn a_public_address_needs_a_token() {
    let harness = with_model();
    let text = harness.run(&["serve", "--model", "model", "--listen", "0.0.0.0:0"]);
    assert!(text.contains("exit status: 2") && text.contains("no token is set"), "{text}");
}
