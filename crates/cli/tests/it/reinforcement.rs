//! Runs of reinforcement learning seen from outside while and after they run: metrics that are served,
//! tools that a checkpoint names, sessions and refilled groups that are replayed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::show;
use crate::quickstart::{SANDBOX, groups, harness, json, quickstart};

#[test]
fn sessions_and_refilled_groups_are_replayed() {
    let harness = harness();
    let more = [
        "--set",
        "stage.0.rollout.tool=session",
        "--set",
        "stage.0.refill_tasks_per_step=8",
        "--set",
        // A session is described in words that the model doesn't know: it seldom calls one.
        "stage.0.rollout.samples=16",
        "--set",
        "stage.0.rollout.temperature=1.3",
        "--set",
        "stage.0.selection.keep=16",
    ];
    let output = quickstart(&harness, &[&more[..], &["--json"]].concat());
    let run_dir = json(&output)["run_dir"].clone();
    let run = harness.path().join(run_dir.as_str().unwrap());
    // Groups that are all wrong are left out: more tasks take their place.
    let all = groups(&run);
    assert!(all.len() > 6, "{} groups in two steps of 3 tasks", all.len());
    assert!(all.iter().flat_map(|group| group.episodes()).any(|(it, _)| it.calls().count() > 0));
    let replay = [&["replay", "runs/quickstart", "--json"], &SANDBOX[..]].concat();
    let output = harness.command(&replay).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let report = json(&output);
    assert_eq!(report["groups"], json!(all.len()));
    for key in ["differences", "choice_differences"] {
        assert_eq!(report[key], Value::Array(Vec::new()));
    }
}

#[test]
fn a_checkpoint_names_the_tools_of_its_training_and_serving_tells_of_them() {
    let harness = harness();
    let output = quickstart(&harness, &["--json"]);
    assert!(output.stdout.len() > 2, "{}", show(&output));
    let latest = harness.path().join("runs/quickstart/checkpoints/latest");
    let tools = std::fs::read(latest.join("tools.json")).unwrap();
    let tools: Value = serde_json::from_slice(&tools).unwrap();
    assert_eq!(tools[0]["type"], "function");
    assert_eq!(tools[0]["function"]["name"], "python_code_with_standard_io");
    let convert = ["model", "convert", "runs/quickstart/checkpoints/latest", "copy"];
    let text = harness.run(&convert);
    assert!(harness.path().join("copy/tools.json").exists(), "{text}");
    let serve = ["serve", "--model", "copy", "--listen", "127.0.0.1:0", "--stop-with-input"];
    let output = harness.command(&serve).stdin(Stdio::null()).output().unwrap();
    assert!(show(&output).contains("copy/tools.json: send them as `tools`"), "{}", show(&output));
}

#[test]
fn the_latest_metrics_are_served_while_a_run_works() {
    let harness = harness();
    let begun = quickstart(&harness, &["--run", "begun", "--json"]);
    assert!(begun.stdout.len() > 2, "{}", show(&begun));
    let train = ["train", "runs/begun/config.toml", "--run", "seen", "--metrics-address"];
    let output = harness.command(&[&train[..], &["0.0.0.0:0"]].concat()).output().unwrap();
    let text = show(&output);
    assert!(text.contains("other machines can reach 0.0.0.0:0"), "{text}");
    assert!(!harness.path().join("runs/seen").exists());
    let more = ["127.0.0.1:0", "--set", "stage.0.steps=50"];
    let mut command = harness.command(&[&train[..], &more, &SANDBOX[..]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| {
        let url = line.strip_prefix("metrics:   http://")?;
        url.strip_suffix("/metrics").map(str::to_owned)
    });
    assert!(lines.any(|line| line.contains("step 1/50")));
    let mut connection = TcpStream::connect(address.unwrap()).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for part in [
        "200 OK",
        "text/plain; version=0.0.4",
        "rocstar_train_accuracy{run=\"seen\"}",
        "rocstar_train_evaluation_accuracy{run=\"seen\"}",
    ] {
        assert!(answer.contains(part), "{part} is missing in {answer}");
    }
}
