//! `rocstar quickstart`, `rollout` and `replay` as a person uses them, in a size that takes seconds:
//! what is learnt is not looked at, what is told and written down is.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use pretty_assertions::assert_eq;
use rocstar_record::episode::Group;
use rocstar_record::log;
use rocstar_record::run::{Ending, Reader, State};
use serde_json::Value;

use crate::harness::{Harness, show};

/// The built-in recipe made small.
const SMALL: [&str; 12] = [
    "threads=2",
    "stage.0.practice.count=96",
    "stage.0.sequences_per_step=16",
    "stage.0.optimizer.warm_up_steps=2",
    "stage.1.steps=2",
    "stage.1.tasks_per_step=3",
    "stage.1.practice.count=12",
    "stage.1.rollout.samples=4",
    "stage.1.rollout.response_tokens=96",
    "stage.1.selection.keep=2",
    "stage.1.engine.kv_bytes=33554432",
    "stage.1.evaluation.held_out_tasks=4",
];

fn small() -> Vec<&'static str> {
    SMALL.iter().flat_map(|assignment| ["--set", assignment]).collect()
}

fn quickstart(harness: &Harness, arguments: &[&str]) -> Output {
    let arguments = [&["quickstart", "--allow-degraded"], small().as_slice(), arguments].concat();
    harness.command(&arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", show(output)))
}

fn groups(run: &Path) -> Vec<Group> {
    let reader = Reader::open(run).unwrap();
    let steps = reader.episode_steps().unwrap();
    steps.into_iter().flat_map(|step| reader.groups(step).unwrap().map(Result::unwrap)).collect()
}

/// The result in both forms, and a second run beside the first.
#[test]
fn a_quickstart_tells_what_it_learnt_and_is_a_run_as_any_other() {
    let harness = Harness::new();
    let output = quickstart(&harness, &["--json", "--seed", "5"]);
    let result = json(&output);
    // So small a run may learn nothing; the status says so, and why.
    let learnt = result["learnt"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!learnt)), "{}", show(&output));
    let text = show(&output);
    assert_eq!(text.contains("it did not learn: accuracy"), !learnt, "{text}");
    assert_eq!((&result["steps"], &result["seed"]), (&8.into(), &5.into()));
    for key in ["accuracy_before", "accuracy_after"] {
        assert!((0.0..=1.0).contains(&result[key].as_f64().unwrap()), "{result}");
    }
    for key in ["tool_error_share_before", "tool_error_share_after", "seconds"] {
        assert!(result.get(key).is_some(), "{key} is missing in {result}");
    }
    assert_eq!(result["run_dir"], "runs/quickstart");
    assert_eq!(result["next"].as_array().unwrap().len(), 3);
    assert!(!result["episodes"].as_array().unwrap().is_empty(), "{result}");
    let run = harness.path().join("runs/quickstart");
    assert_eq!(Reader::open(&run).unwrap().state().unwrap(), State::Ended(Ending::Finished));
    let environment = Reader::open(&run).unwrap().environment().unwrap().unwrap();
    assert!(environment["sandbox"]["layers"].is_array(), "{environment}");

    let output = quickstart(&harness, &["--seed", "5"]);
    let text = show(&output);
    for part in ["problem  ", "verdict  ", "accuracy", "run directory: runs/quickstart-2"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(text.contains("waiting for tools"), "{text}");
    // The same seed makes the same episodes.
    let again = harness.path().join("runs/quickstart-2");
    let tokens = |run: &Path| -> Vec<Vec<u32>> {
        let groups = groups(run);
        groups.iter().flat_map(Group::episodes).map(|(one, _)| one.tokens.clone()).collect()
    };
    assert_eq!(tokens(&run), tokens(&again));
}

#[test]
fn a_run_is_replayed_as_it_was_and_a_changed_one_is_found_out() {
    let harness = Harness::new();
    let output = quickstart(&harness, &["--json"]);
    assert!(output.stdout.len() > 2, "{}", show(&output));
    let replay = |arguments: &[&str]| {
        let arguments = [&["replay", "runs/quickstart", "--allow-degraded"], arguments].concat();
        harness.command(&arguments).output().unwrap()
    };
    let output = replay(&["--json", "--selection", "mode=off"]);
    assert!(output.status.success(), "{}", show(&output));
    let report = json(&output);
    assert_eq!((&report["steps"], &report["episodes"]), (&serde_json::json!([7, 8]), &24.into()));
    assert_eq!(report["differences"], Value::Array(Vec::new()));
    assert_eq!(report["other_selection"]["selection"]["mode"], "off");

    let output = replay(&["--selection", "epsilom=1"]);
    assert!(show(&output).contains("did you mean `epsilon`?"), "{}", show(&output));
    let output = replay(&["--step", "3"]);
    assert!(show(&output).contains("it has those of steps 7 to 8"), "{}", show(&output));

    // A verdict and a choice that were not what came out.
    let run = harness.path().join("runs/quickstart");
    let mut changed =
        Reader::open(&run).unwrap().groups(7).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let first = &mut changed[0];
    let episode = first
        .kept
        .first_mut()
        .map(|kept| &mut kept.episode)
        .or_else(|| first.dropped.first_mut().map(|dropped| &mut dropped.episode))
        .unwrap();
    episode.verdict.explanation = "because".to_owned();
    let mut file = fs::File::create(run.join("episodes/step_000007.jsonl.zst")).unwrap();
    log::write(&mut file, &changed).unwrap();
    let output = replay(&["--step", "7"]);
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));
    assert!(show(&output).contains("the verdict"), "{}", show(&output));
}

#[test]
fn episodes_are_rolled_out_to_a_file() {
    let harness = Harness::new();
    let output = quickstart(&harness, &["--json"]);
    assert!(output.stdout.len() > 2, "{}", show(&output));
    let rollout = |arguments: &[&str]| {
        let arguments = [
            &[
                "rollout",
                "runs/quickstart/config.toml",
                "--model",
                "runs/quickstart/checkpoints/latest",
            ],
            ["--allow-degraded", "--tasks", "5", "--samples", "3"].as_slice(),
            arguments,
        ]
        .concat();
        harness.command(&arguments).output().unwrap()
    };
    let output = rollout(&["--out", "a.jsonl.zst", "--json"]);
    assert!(output.status.success(), "{}", show(&output));
    let summary = json(&output);
    assert_eq!((&summary["tasks"], &summary["rollouts"]), (&5.into(), &15.into()));
    let read = |name: &str| log::read::<Group>(&harness.path().join(name)).unwrap().records;
    let first = read("a.jsonl.zst");
    assert_eq!(first.len(), 5);
    assert!(first.iter().all(|group| group.check().is_ok() && group.episodes().count() == 3));
    // Fewer tasks are the same tasks.
    let output = rollout(&["--out", "b.jsonl.zst", "--tasks", "2"]);
    assert!(show(&output).contains("cannot be used multiple times"), "{}", show(&output));
    let text = show(&rollout(&["--out", "a.jsonl.zst"]));
    assert!(text.contains("a.jsonl.zst exists already"), "{text}");
}

#[test]
fn what_cannot_begin_leaves_nothing_behind() {
    let harness = Harness::new();
    let runs = harness.path().join("runs");
    // No such Python: before weights are read and a directory is made.
    let mut command = harness.command(&[&["quickstart"], small().as_slice()].concat());
    let output = command.env("ROCSTAR_PYTHON", "/no/such/python").output().unwrap();
    let text = show(&output);
    assert!(!output.status.success() && text.contains("`--python PATH`"), "{text}");
    let output = quickstart(&harness, &["--set", "stage.1.rollout.sampels=4"]);
    assert!(show(&output).contains("did you mean `samples`?"), "{}", show(&output));
    let output = quickstart(&harness, &["--set", "stage.1.engine.kv_bytes=1000000000000000"]);
    let text = show(&output);
    assert!(text.contains("of memory, and") && text.contains("kv_bytes"), "{text}");
    // Tasks without an answer, and a file that is not there.
    fs::write(harness.path().join("tasks.jsonl"), "{\"prompt\": \"1 + 1?\"}\n").unwrap();
    for (path, part) in [("tasks.jsonl", "tasks.jsonl"), ("no.jsonl", "no.jsonl")] {
        let recipe = format!(
            "model.shape = \"mini\"\nmodel.tokenizer = \"built-in:practice\"\nmodel.template = \
             \"rstar2\"\n[[stage]]\nkind = \"rl\"\nsteps = 1\ndata.paths = [\"{path}\"]\n"
        );
        fs::write(harness.path().join("recipe.toml"), recipe).unwrap();
        let output = harness.command(&["train", "recipe.toml"]).output().unwrap();
        let text = show(&output);
        assert!(!output.status.success() && text.contains(part), "{text}");
    }
    assert!(!runs.exists());
}

#[test]
fn an_interrupt_while_episodes_run_saves_and_the_run_goes_on() {
    let harness = Harness::new();
    let arguments = [&["quickstart", "--allow-degraded", "--json"], small().as_slice()].concat();
    let mut command = harness.command(&arguments);
    command.args(["--set", "stage.1.steps=60"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().starts_with("step 2/60")));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    let last = rest.last().unwrap();
    let command = last.strip_prefix("stopped; go on with: rocstar ").unwrap();
    assert_eq!(command, "train runs/quickstart/config.toml --allow-degraded --resume");
    let mut words: Vec<&str> = command.split(' ').collect();
    // The end is brought nearer: not by another recipe, which would be refused, but by a second stop.
    words.push("--dry-run");
    let output = harness.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let reader = Reader::open(&harness.path().join("runs/quickstart")).unwrap();
    assert_eq!(reader.state().unwrap(), State::Ended(Ending::Stopped));
    assert!(!reader.checkpoint_steps().unwrap().is_empty());
}
