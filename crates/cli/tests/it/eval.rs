//! `rocstar eval` and `compare`: figures that can be made again, evaluations that go on where they
//! were, and what is refused.

use std::path::Path;
use std::process::{Child, Stdio};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::{Harness, announced, show};
use crate::quickstart;

const MODEL: &str = "built-in:quickstart";
/// A few problems of what the model was made for: with little room, and with more than it takes.
const SHORT: [&str; 9] = practice("60");
const ROOMY: [&str; 9] = practice("300");

const fn practice(tokens: &'static str) -> [&'static str; 9] {
    [
        "--suite",
        "practice",
        "--limit",
        "4",
        "--temperature",
        "1",
        "--response-tokens",
        tokens,
        "--json",
    ]
}

/// Runs an evaluation that must be complete, and gives its result.
fn evaluated(harness: &Harness, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["eval"].iter().chain(arguments).copied().collect();
    let output = harness.command(&all).output().unwrap();
    let shown = show(&output);
    assert!(output.status.success(), "{shown}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// What doesn't depend on when and where it was made.
fn figures(result: &Value) -> Value {
    let mut figures = result["figures"].clone();
    figures["problems_by_id"] = result["problems"].clone();
    figures
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_evaluation_grows_and_is_scored_again_and_compared() {
    let harness = Harness::new();
    let run = |more: &[&str]| {
        let all: Vec<&str> =
            [MODEL, "--no-tool"].iter().chain(&SHORT).chain(more).copied().collect();
        evaluated(&harness, &all)
    };
    let two = run(&["--samples", "2", "--out", "two"]);
    assert_eq!((&two["status"], &two["figures"]["attempts"]), (&"complete".into(), &8.into()));
    assert_eq!(two["protocol"]["settings"]["temperature"], 1.0);
    assert_eq!(two["protocol"]["model"]["place"]["sha256"].as_str().unwrap().len(), 64);
    let folder = harness.path().join("two");
    assert_eq!(json(&folder.join("result.json")), two);
    assert_eq!(json(&folder.join("protocol.json")), two["protocol"]);
    assert!(std::fs::read_to_string(folder.join("result.md")).unwrap().contains("avg@2"));

    // Growth makes what is missing; from the beginning it comes to the same.
    let grown = run(&["--samples", "3", "--out", "two", "--resume"]);
    let three = run(&["--samples", "3", "--out", "three"]);
    assert_eq!(figures(&grown), figures(&three));
    assert_eq!(grown["figures"]["attempts"], 12);

    let again = evaluated(&harness, &["rescore", "two", "--json"]);
    assert_eq!(figures(&again), figures(&three));

    let same = harness.command(&["compare", "two", "three", "--json"]).output().unwrap();
    let same: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!((&same["difference"], &same["p_value"]), (&0.0.into(), &1.0.into()));
    assert_eq!(same["warnings"], serde_json::json!([]));
    run(&["--samples", "2", "--top-p", "0.9", "--out", "other"]);
    let shown = harness.run(&["compare", "two", "other"]);
    assert!(shown.contains("warning: the protocols differ: "), "{shown}");
    assert!(shown.contains("95 % interval"), "{shown}");
}

#[test]
fn another_protocol_never_stands_beside_the_first() {
    let harness = Harness::new();
    let begin =
        [&["eval", MODEL, "--no-tool", "--samples", "1", "--out", "it"], &SHORT[..]].concat();
    let first = harness.run(&begin);
    assert!(first.starts_with("exit status: 0"), "{first}");
    let again = harness.run(&begin);
    assert!(again.starts_with("exit status: 2"), "{again}");
    assert!(again.contains("holds an evaluation already") && again.contains("--resume"), "{again}");
    let changed = [&begin[..], &["--resume", "--top-p", "0.9"]].concat();
    let changed = harness.run(&changed);
    assert!(changed.starts_with("exit status: 2"), "{changed}");
    assert!(changed.contains("settings.top_p: 1.0, now 0.9"), "{changed}");
    let mut fewer = [&begin[..], &["--resume"]].concat();
    let limit = fewer.iter().position(|word| *word == "4").unwrap();
    fewer[limit] = "2";
    let fewer = harness.run(&fewer);
    assert!(fewer.contains("suite.problems: 4, now 2"), "{fewer}");
}

#[test]
fn what_is_no_suite_is_refused_with_what_would_be() {
    let harness = Harness::new();
    let shown = harness.run(&["eval", MODEL, "--suite", "gsm9k"]);
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    assert!(shown.contains("no suite is called `gsm9k`; did you mean `gsm8k`?"), "{shown}");
    let shown = harness.run(&["eval", MODEL, "--suite", "math500"]);
    assert!(shown.contains("rocstar data fetch math500"), "{shown}");
    std::fs::write(
        harness.path().join("own.jsonl"),
        "{\"problem\": \"1+1\", \"answer\": \"2\"}\n{\"problem\": \"2+2\"}\n",
    )
    .unwrap();
    let shown = harness.run(&["eval", MODEL, "--suite", "own.jsonl"]);
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    assert!(shown.contains("own.jsonl:2: answer"), "{shown}");
    let shown = harness.run(&["eval", MODEL, "--suite", "practice", "--temperature=-1"]);
    assert!(shown.contains("`temperature` must be at least 0"), "{shown}");
    let shown = harness.run(&["eval", MODEL, "--suite", "arena-hard"]);
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    std::fs::create_dir(harness.path().join("gsm8k")).unwrap();
    std::fs::write(harness.path().join("gsm8k/train.jsonl"), "{\"problem\": \"1+1\"}\n").unwrap();
    let shown = harness.run(&["eval", MODEL, "--suite", "gsm8k/train.jsonl"]);
    assert!(shown.contains("gsm8k/train.jsonl:1: answer"), "{shown}");
    let shown = harness.run(&["eval", "http://127.0.0.1:9", "--best", "--suite", "practice"]);
    assert!(
        shown.contains("is a server") && shown.contains("only runs have checkpoints"),
        "{shown}"
    );
    let listed = harness.run(&["eval", "--list"]);
    assert!(listed.starts_with("exit status: 0") && listed.contains("aime25"), "{listed}");
}

#[test]
fn a_killed_evaluation_goes_on_where_it_was() {
    let harness = Harness::new();
    let all = [
        "eval",
        MODEL,
        "--no-tool",
        "--suite",
        "practice",
        "--limit",
        "40",
        "--samples",
        "8",
        "--response-tokens",
        "80",
        "--temperature",
        "1",
        "--json",
    ];
    let with = |more: &[&'static str]| [&all[..], more].concat();
    let mut process = harness
        .command(&with(&["--out", "killed"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let attempts = harness.path().join("killed/attempts.jsonl.zst");
    while std::fs::metadata(&attempts).map_or(0, |it| it.len()) == 0 {
        assert!(process.try_wait().unwrap().is_none(), "it ended before an attempt was kept");
        std::thread::yield_now();
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let resumed = evaluated(&harness, &with(&["--out", "killed", "--resume"])[1..]);
    let whole = evaluated(&harness, &with(&["--out", "whole"])[1..]);
    assert_eq!(resumed["status"], "complete");
    assert_eq!(figures(&resumed), figures(&whole));
}

/// `rocstar serve`, until it is dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts it; gives its address too.
    pub(crate) fn start(harness: &Harness) -> (Self, String) {
        let arguments = ["serve", "--model", MODEL, "--listen", "127.0.0.1:0", "--json"];
        let (process, announcement) = announced(harness.command(&arguments));
        (Self(process), announcement["url"].as_str().unwrap().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_model_and_a_server_of_it_give_the_same_figures() {
    let harness = quickstart::harness();
    let (_server, url) = Server::start(&harness);
    let with = [&["--max-turns", "4"], &quickstart::SANDBOX[..]].concat();
    let run = |target: &str, out: &str, settings: &[&[&str]]| {
        let own = [target, "--samples", "2", "--out", out];
        evaluated(&harness, &[&own[..], &settings.concat()].concat())
    };
    for (name, tool) in [("with", &with[..]), ("without", &["--no-tool"])] {
        let local = run(MODEL, &format!("local-{name}"), &[&ROOMY, tool]);
        let served = run(&url, &format!("served-{name}"), &[&ROOMY, tool]);
        assert_eq!(figures(&local), figures(&served), "{name} the tool");
        assert_eq!(served["protocol"]["model"]["place"]["server"], "rocstar");
        let calls = local["figures"]["calls_mean"].as_f64().unwrap();
        assert_eq!(calls > 0.0, name == "with", "{calls}");
    }
    // Only tokens say, between two turns, how many are left.
    let local = run(MODEL, "local-short", &[&SHORT, &with]);
    let tokenizer = local["protocol"]["model"]["place"]["path"].as_str().unwrap();
    let served = run(&url, "served-short", &[&SHORT, &with, &["--tokenizer", tokenizer]]);
    assert_eq!(figures(&local), figures(&served));
    assert!(local["figures"]["truncated_share"].as_f64().unwrap() > 0.0);
}
