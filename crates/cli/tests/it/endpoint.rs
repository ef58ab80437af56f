//! `--endpoint-options`: all settings of a server from a file, under the options beside it.

use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Reply, Script};
use serde_json::{Value, json};

use crate::harness::{Harness, show};
use crate::quickstart;

const SETTINGS: &str = "model = \"not served\"\nstream = false\nmax_concurrent = 3\n\
                        limit_field = \"max_completion_tokens\"\nkind = \"chat\"\n\
                        [extra]\nreasoning_effort = \"low\"\n";

fn server() -> FakeEndpoint {
    let script = Script::new(|question| Reply::text(format!("Heard: {}", question.last_text())));
    FakeEndpoint::start(Behaviour { script, ..Behaviour::default() }).unwrap()
}

/// Says something to a server with this file; what was shown.
fn said(server: &FakeEndpoint, settings: &str, more: &[&str]) -> String {
    let harness = Harness::new();
    std::fs::write(harness.path().join("server.toml"), settings).unwrap();
    let url = server.url();
    let first = ["chat", &url, "--once", "hello", "--tool", "none", "--json"];
    let file = ["--endpoint-options", "server.toml"];
    show(&harness.command(&[&first[..], &file, more].concat()).output().unwrap())
}

#[test]
fn a_file_sets_everything_and_options_win() {
    let server = server();
    let shown = said(&server, SETTINGS, &["--endpoint-model", "fake"]);
    assert!(shown.starts_with("exit status: 0") && shown.contains("Heard: hello"), "{shown}");
    let body: Value = server.seen().remove(0).body;
    assert_eq!((&body["model"], &body["stream"]), (&json!("fake"), &json!(false)));
    assert_eq!(body["reasoning_effort"], "low");
    assert!(body["max_completion_tokens"].is_u64() && body.get("max_tokens").is_none(), "{body}");
    // Nothing given beside: the file's model is asked for.
    let shown = said(&server, SETTINGS, &[]);
    assert!(shown.contains("serves `fake`; not `not served`"), "{shown}");
}

#[test]
fn calls_are_found_by_us_where_the_file_says_so() {
    let server = server();
    let harness = quickstart::harness();
    std::fs::write(harness.path().join("server.toml"), "tool_calls = \"ours\"\n").unwrap();
    let url = server.url();
    let sandbox = &quickstart::SANDBOX[..];
    let first = ["chat", &url, "--once", "hello", "--tool", "stateless", "--json"];
    let file = ["--endpoint-options", "server.toml"];
    let output = harness.command(&[&first[..], &file, sandbox].concat()).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let body = server.seen().remove(0).body;
    // The tool stands in the system message.
    assert!(body.get("tools").is_none() && body["messages"][0]["role"] == "system", "{body}");
}

#[test]
fn a_file_that_can_t_work_is_refused() {
    let server = server();
    let refusals = [
        ("trys = 3", "did you mean `tries`?"),
        ("kind = \"vlm\"", "did you mean `vllm`?"),
        ("tries = \"often\"", "line 1"),
        ("tries = 0", "`tries` must be at least 1"),
        ("[extra]\ntemperature = 0.5", "`extra` must not hold `temperature`: we set it"),
        ("url = \"http://h\"", "addresses are given on the command line"),
    ];
    for (settings, expected) in refusals {
        let shown = said(&server, settings, &[]);
        assert!(!shown.starts_with("exit status: 0") && shown.contains(expected), "{shown}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn what_changes_figures_stands_in_the_protocol() {
    let server = server();
    let harness = Harness::new();
    let settings =
        format!("tool_calls = \"ours\"\ncall_format = \"pythonic\"\n{}", &SETTINGS[21..]);
    std::fs::write(harness.path().join("server.toml"), settings).unwrap();
    std::fs::write(harness.path().join("own.jsonl"), "{\"problem\": \"1\", \"answer\": \"1\"}\n")
        .unwrap();
    let url = server.url();
    let evaluate = [
        "eval",
        &url,
        "--endpoint-options",
        "server.toml",
        "--suite",
        "own.jsonl",
        "--samples",
        "1",
        "--no-tool",
        "--json",
    ];
    let output = harness.command(&evaluate).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", show(&output)));
    let model = &result["protocol"]["model"];
    assert_eq!(
        (&model["place"]["tool_calls"], &model["call_format"]),
        (&json!("ours"), &json!("pythonic"))
    );
    let told = &model["place"]["settings"];
    assert_eq!(told["extra"]["reasoning_effort"], "low", "{told}");
    assert_eq!(told.get("max_concurrent"), None, "{told}");
}
