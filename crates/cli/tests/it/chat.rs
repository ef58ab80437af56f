//! `rocstar chat`: one message through a model of this process, a run and a server; what is refused.

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::eval::Server;
use crate::harness::{Harness, show};
use crate::quickstart;

const MODEL: &str = "built-in:quickstart";
const QUESTION: &str = "compute 34127 + 50718 .";

/// The reply to one message, as JSON.
fn reply(harness: &Harness, target: &str, more: &[&str]) -> Value {
    let first = ["chat", target, "--once", QUESTION, "--json", "--seed", "5"];
    let all = [&first[..], more].concat();
    let output = harness.command(&all).output().unwrap();
    let shown = show(&output);
    assert!(output.status.success(), "{shown}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// What doesn't depend on when and where it was said.
fn said(reply: &Value) -> Value {
    let mut said = reply.clone();
    said["seconds"] = Value::Null;
    for call in said["calls"].as_array_mut().unwrap() {
        for cost in ["wall_us", "cpu_us", "memory_bytes"] {
            call[cost] = Value::Null;
        }
    }
    said
}

#[test]
fn a_model_and_a_server_of_it_say_the_same() {
    let harness = quickstart::harness();
    let (_server, url) = Server::start(&harness);
    let tool = [&["--tool", "stateless"], &quickstart::SANDBOX[..]].concat();
    let local = reply(&harness, MODEL, &tool);
    assert_eq!(local["message"], QUESTION);
    assert_eq!(local["finish"], "done");
    let calls = local["calls"].as_array().unwrap();
    assert!(!calls.is_empty() && calls[0]["wall_us"].as_u64().unwrap() > 0, "{local}");
    assert_eq!(said(&local), said(&reply(&harness, MODEL, &tool)), "the same seed, the same reply");
    let served = reply(&harness, &url, &tool);
    // A server leaves out the blank before a call.
    let texts = |reply: &Value| -> Vec<String> {
        let texts = reply["texts"].as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(texts(&local), texts(&served));
    let programs = |reply: &Value| -> Vec<Value> {
        let calls = reply["calls"].as_array().unwrap().iter();
        calls.map(|call| call["program"].clone()).collect()
    };
    assert_eq!(programs(&local), programs(&served));
}

#[test]
fn text_goes_to_standard_output_and_calls_beside_it() {
    let harness = quickstart::harness();
    let arguments = ["chat", MODEL, "--once", QUESTION, "--seed", "5", "--tool", "stateless"];
    let output =
        harness.command(&[&arguments[..], &quickstart::SANDBOX].concat()).output().unwrap();
    let (text, beside) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{beside}");
    assert!(text.contains("<answer>") && !text.contains("tool_call"), "{text}");
    assert!(beside.contains("┌ python_code_with_standard_io"), "{beside}");
    assert!(beside.contains("ms wall") && beside.contains("seed 5"), "{beside}");
}

#[test]
fn a_message_may_come_from_standard_input() {
    let harness = Harness::new();
    let arguments = ["chat", MODEL, "--tool", "none", "--json", "--response-tokens", "30"];
    let mut process = harness
        .command(&arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, QUESTION.as_bytes()).unwrap();
    drop(input);
    let output = process.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&reply["message"], &reply["calls"]), (&QUESTION.into(), &serde_json::json!([])));
}

#[test]
fn what_can_t_be_talked_with_is_refused_at_once() {
    let harness = Harness::new();
    let shown = harness.run(&["chat", "no-such-model", "--once", "hello"]);
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    assert!(shown.contains("no model at `no-such-model`"), "{shown}");
    let shown = harness.run(&["chat", MODEL, "--once", " "]);
    assert!(shown.contains("the message is empty"), "{shown}");
    let shown = harness.run(&["chat", MODEL, "--once", "x", "--temperature=-1"]);
    assert!(shown.contains("`temperature` must be at least 0"), "{shown}");
    // A port that nothing listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let shown =
        harness.run(&["chat", &format!("http://{free}/v1"), "--once", "x", "--tool", "none"]);
    assert!(shown.starts_with("exit status: 1"), "{shown}");
    assert!(shown.contains("can't be reached"), "{shown}");
    let shown = harness.run(&["chat", MODEL, "--step", "3", "--once", "x"]);
    assert!(shown.contains("no run at `built-in:quickstart`"), "{shown}");
}
