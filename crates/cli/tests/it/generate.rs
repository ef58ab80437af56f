//! `rocstar generate`: answers on standard output.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::{Harness, show};
use crate::tiny_model;

fn with_model() -> Harness {
    let harness = Harness::new();
    tiny_model::save(&harness.path().join("model"));
    harness
}

/// The lines of `--json`.
fn answers(harness: &Harness, more: &[&str]) -> Vec<Value> {
    let mut command = harness.command(&["generate", "--model", "model", "--json"]);
    let output = command.args(more).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_answers_each_alone() {
    let harness = with_model();
    let options = ["--prompt", "ab", "--seed", "7", "--max-new-tokens", "12"];
    let both = answers(&harness, &[&options[..], &["--n", "2"]].concat());
    assert_eq!(both.len(), 2);
    assert_ne!(both[0]["token_ids"], both[1]["token_ids"]);
    assert_eq!(answers(&harness, &options)[0]["token_ids"], both[0]["token_ids"]);
    let count = both[0]["token_ids"].as_array().unwrap().len();
    assert_eq!(both[0]["sampling_logprobs"].as_array().unwrap().len(), count);
    assert_eq!((&both[0]["seed"], &both[0]["prompt_tokens"]), (&Value::from(7), &Value::from(2)));
}

#[test]
fn tokens_are_printed_one_a_line() {
    let harness = with_model();
    let options = ["--prompt", "ab", "--seed", "7", "--max-new-tokens", "5", "--ignore-end"];
    let expected = answers(&harness, &options);
    let mut command = harness.command(&["generate", "--model", "model", "--tokens"]);
    let output = command.args(options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(expected[0]["token_ids"], serde_json::json!(printed));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("5 new tokens in ") && said.contains(" a second"), "{said}");
}

#[test]
fn the_prompt_comes_from_standard_input_or_a_file() {
    let harness = with_model();
    let options = ["--temperature", "0", "--max-new-tokens", "6", "--json"];
    let expected = answers(&harness, &[&options[..4], &["--prompt", "abc"]].concat());
    std::fs::write(harness.path().join("prompt.txt"), "abc").unwrap();
    let from_file = answers(&harness, &[&options[..4], &["--prompt-file", "prompt.txt"]].concat());
    // The seed is another one each time; at temperature 0 it changes nothing.
    assert_eq!(from_file[0]["token_ids"], expected[0]["token_ids"]);
    let mut command = harness.command(&["generate", "--model", "model"]);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"abc").unwrap();
    let output = process.wait_with_output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["token_ids"], expected[0]["token_ids"]);
}

#[test]
fn wrong_use_is_told() {
    let harness = with_model();
    for (arguments, expected) in [
        (&["--prompt", ""][..], "the prompt is empty"),
        (&["--prompt-file", "missing.txt"], "can't read the prompt"),
        (&["--prompt", "a", "--temperature", "-1"], "unexpected argument"),
        (&["--prompt", "a", "--temperature=-1"], "`temperature` is -1"),
        (&["--prompt", "a", "--system", "b"], "--chat"),
    ] {
        let mut command = harness.command(&["generate", "--model", "model"]);
        let output = command.args(arguments).output().unwrap();
        let text = show(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    let text = harness.run(&["generate", "--model", "model", "--prompt", "a", "--chat"]);
    assert!(text.contains("no chat template"), "{text}");
}

/// SmolLM2-135M-Instruct, if it is on this machine.
fn smollm2() -> Option<PathBuf> {
    let fetched = || {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
        let folder = cache.join("rocstar/models/smollm2-135m-instruct");
        Some(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"))
    };
    let path = std::env::var_os("ROCSTAR_SMOLLM2").map(PathBuf::from).or_else(fetched)?;
    path.exists().then_some(path)
}

#[test]
fn a_real_model_answers_sensibly() {
    let Some(path) = smollm2() else {
        println!("SKIP SmolLM2 is not here; `rocstar model fetch smollm2-135m-instruct` gets it");
        return;
    };
    let harness = Harness::new();
    let mut command = harness.command(&["generate", "--chat", "--temperature", "0"]);
    command.args(["--prompt", "What is the capital of France?", "--max-new-tokens", "20"]);
    let output = command.arg("--model").arg(path).output().unwrap();
    let text = show(&output);
    assert!(output.status.success() && text.contains("Paris"), "{text}");
}
