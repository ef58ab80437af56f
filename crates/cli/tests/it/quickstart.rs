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
const SMALL: [&str; 9] = [
    "threads=2",
    "stage.0.steps=2",
    "stage.0.tasks_per_step=3",
    "stage.0.practice.count=12",
    "stage.0.rollout.samples=4",
    "stage.0.rollout.response_tokens=96",
    "stage.0.selection.keep=2",
    "stage.0.engine.kv_bytes=33554432",
    "stage.0.evaluation.held_out_tasks=4",
];

/// Fewer interpreters to warm, and no layer that this host may lack.
pub(crate) const SANDBOX: [&str; 3] = ["--sandbox-config", "sandbox.toml", "--allow-degraded"];

/// A folder with the code environment's configuration.
pub(crate) fn harness() -> Harness {
    let harness = Harness::new();
    let config = "[service.jail]\nscientific = false\n";
    fs::write(harness.path().join("sandbox.toml"), config).unwrap();
    harness
}

fn small() -> Vec<&'static str> {
    SMALL.iter().flat_map(|assignment| ["--set", assignment]).collect()
}

pub(crate) fn quickstart(harness: &Harness, arguments: &[&str]) -> Output {
    let arguments = [&["quickstart"], &SANDBOX[..], small().as_slice(), arguments].concat();
    harness.command(&arguments).output().unwrap()
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", show(output)))
}

pub(crate) fn groups(run: &Path) -> Vec<Group> {
    let reader = Reader::open(run).unwrap();
    let steps = reader.episode_steps().unwrap();
    steps.into_iter().flat_map(|step| reader.groups(step).unwrap().map(Result::unwrap)).collect()
}

fn tokens(groups: &[Group]) -> Vec<&[u32]> {
    groups.iter().flat_map(Group::episodes).map(|(one, _)| one.tokens.as_slice()).collect()
}

/// The result in both forms, and a second run beside the first.
#[test]
fn a_quickstart_tells_what_it_learnt_and_is_a_run_as_any_other() {
    let harness = harness();
    let output = quickstart(&harness, &["--json", "--seed", "5"]);
    let result = json(&output);
    // So small a run may learn nothing; the status says so, and why.
    let learnt = result["learnt"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!learnt)), "{}", show(&output));
    let text = show(&output);
    assert_eq!(text.contains("it did not learn: accuracy"), !learnt, "{text}");
    assert_eq!(result["seed"], 5);
    assert_eq!(result["steps"], 2);
    for key in ["accuracy_before", "accuracy_after"] {
        assert!((0.0..=1.0).contains(&result[key].as_f64().unwrap()), "{result}");
    }
    for key in ["tool_error_share_before", "tool_error_share_after", "seconds"] {
        assert!(result.get(key).is_some(), "{key} is missing in {result}");
    }
    assert_eq!(result["run_dir"], "runs/quickstart");
    assert_eq!(result["next"].as_array().unwrap().len(), 4);
    assert_eq!(result["next"][0], "rocstar dash runs");
    assert!(!result["episodes"].as_array().unwrap().is_empty(), "{result}");
    let run = harness.path().join("runs/quickstart");
    assert_eq!(Reader::open(&run).unwrap().state().unwrap(), State::Ended(Ending::Finished));
    let environment = Reader::open(&run).unwrap().environment().unwrap().unwrap();
    assert!(environment["sandbox"]["layers"].is_array(), "{environment}");
    // What the code environment did is told to the end.
    let sandbox = Reader::open(&run).unwrap().sandbox().unwrap().unwrap();
    assert!(sandbox.answered > 0 && sandbox.running + sandbox.waiting == 0, "{sandbox:?}");
    assert!(sandbox.slots > 0 && sandbox.layers.values().any(|holds| *holds), "{sandbox:?}");

    let output = quickstart(&harness, &["--seed", "5"]);
    let text = show(&output);
    for part in ["problem  ", "verdict  ", "accuracy", "run directory: runs/quickstart-2"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(text.contains("waiting for tools"), "{text}");
    // The same seed makes the same episodes.
    let again = harness.path().join("runs/quickstart-2");
    assert_eq!(tokens(&groups(&run)), tokens(&groups(&again)));
}

#[test]
fn a_run_is_replayed_and_its_model_rolled_out() {
    let harness = harness();
    let output = quickstart(&harness, &["--json"]);
    assert!(output.stdout.len() > 2, "{}", show(&output));
    replays_as_it_was_and_a_changed_one_is_found_out(&harness);
    rolls_out_to_a_file(&harness);
}

fn replays_as_it_was_and_a_changed_one_is_found_out(harness: &Harness) {
    let replay = |arguments: &[&str]| {
        let arguments = [&["replay", "runs/quickstart"], &SANDBOX[..], arguments].concat();
        harness.command(&arguments).output().unwrap()
    };
    let output = replay(&["--json", "--selection", "mode=off"]);
    assert!(output.status.success(), "{}", show(&output));
    let report = json(&output);
    let run = harness.path().join("runs/quickstart");
    let steps = Reader::open(&run).unwrap().episode_steps().unwrap();
    assert_eq!(report["steps"], serde_json::json!(steps));
    assert_eq!(report["episodes"], 24);
    assert_eq!(report["differences"], Value::Array(Vec::new()));
    assert_eq!(report["other_selection"]["selection"]["mode"], "off");

    let output = replay(&["--selection", "epsilom=1"]);
    assert!(show(&output).contains("did you mean `epsilon`?"), "{}", show(&output));
    let output = replay(&["--step", "3"]);
    let expected = format!("it has those of steps {} to {}", steps[0], steps[1]);
    assert!(show(&output).contains(&expected), "{}", show(&output));

    // A verdict and a choice that were not what came out.
    let run = harness.path().join("runs/quickstart");
    let mut changed = Reader::open(&run)
        .unwrap()
        .groups(steps[0])
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let first = &mut changed[0];
    let episode = first
        .kept
        .first_mut()
        .map(|kept| &mut kept.episode)
        .or_else(|| first.dropped.first_mut().map(|dropped| &mut dropped.episode))
        .unwrap();
    episode.verdict.explanation = "because".to_owned();
    let step = steps[0];
    let mut file =
        fs::File::create(run.join(format!("episodes/step_{step:06}.jsonl.zst"))).unwrap();
    log::write(&mut file, &changed).unwrap();
    let output = replay(&["--step", &step.to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));
    assert!(show(&output).contains("the verdict"), "{}", show(&output));
}

fn rolls_out_to_a_file(harness: &Harness) {
    let rollout = |arguments: &[&str]| {
        let config = "runs/quickstart/config.toml";
        let model = ["--model", "runs/quickstart/checkpoints/latest"];
        let arguments = [&["rollout", config], &model[..], &SANDBOX[..], arguments].concat();
        harness.command(&arguments).output().unwrap()
    };
    let output = rollout(&["--tasks", "5", "--samples", "3", "--out", "five.jsonl.zst", "--json"]);
    assert!(output.status.success(), "{}", show(&output));
    let summary = json(&output);
    assert_eq!((&summary["tasks"], &summary["rollouts"]), (&5.into(), &15.into()));
    let read = |name: &str| log::read::<Group>(&harness.path().join(name)).unwrap().records;
    let five = read("five.jsonl.zst");
    assert_eq!(five.len(), 5);
    assert!(five.iter().all(|group| group.check().is_ok() && group.episodes().count() == 3));
    // The file is made again as a run is, with its recipe beside it.
    let replay = |arguments: &[&str]| {
        let arguments = [&["replay", "five.jsonl.zst"], &SANDBOX[..], arguments].concat();
        harness.command(&arguments).output().unwrap()
    };
    let recipe = ["--recipe", "runs/quickstart/config.toml"];
    let output = replay(&[&recipe[..], &["--json", "--selection", "mode=off"]].concat());
    assert!(output.status.success(), "{}", show(&output));
    let report = json(&output);
    assert_eq!((&report["groups"], &report["episodes"]), (&5.into(), &15.into()));
    assert_eq!(report["choice_differences"], Value::Array(Vec::new()));
    assert!(show(&replay(&[])).contains("`--recipe FILE`"));
    let of_run = ["replay", "runs/quickstart", "--seed", "3"];
    let text = show(&harness.command(&of_run).output().unwrap());
    assert!(text.contains("runs/quickstart is no file"), "{text}");
    // Fewer tasks are the first of them, with the same tokens.
    let output = rollout(&["--tasks", "2", "--samples", "3", "--out", "two.jsonl.zst"]);
    assert!(show(&output).contains("tokens of a response"), "{}", show(&output));
    assert_eq!(tokens(&read("two.jsonl.zst")), tokens(&five[..2]));
    let text = show(&rollout(&["--out", "two.jsonl.zst"]));
    assert!(text.contains("two.jsonl.zst exists already"), "{text}");
}

#[test]
fn what_cannot_begin_leaves_nothing_behind() {
    let harness = harness();
    let runs = harness.path().join("runs");
    // No such Python: before weights are read and a directory is made.
    let mut command = harness.command(&[&["quickstart"], small().as_slice()].concat());
    let output = command.env("ROCSTAR_PYTHON", "/no/such/python").output().unwrap();
    let text = show(&output);
    assert!(!output.status.success() && text.contains("`--python PATH`"), "{text}");
    let output = quickstart(&harness, &["--set", "stage.0.rollout.sampels=4"]);
    assert!(show(&output).contains("did you mean `samples`?"), "{}", show(&output));
    let output = quickstart(&harness, &["--set", "stage.0.engine.kv_bytes=1000000000000000"]);
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
    let harness = harness();
    let arguments = [&["quickstart", "--json"], &SANDBOX[..], small().as_slice()].concat();
    let mut command = harness.command(&arguments);
    command.args(["--set", "stage.0.steps=20"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().starts_with("step 2/20")));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    let last = rest.last().unwrap();
    let command = last.strip_prefix("stopped; go on with: rocstar ").unwrap();
    let expected = "train runs/quickstart/config.toml --sandbox-config sandbox.toml \
                    --allow-degraded --resume";
    assert_eq!(command, expected);
    let reader = Reader::open(&harness.path().join("runs/quickstart")).unwrap();
    assert_eq!(reader.state().unwrap(), State::Ended(Ending::Stopped));
    let saved = *reader.checkpoint_steps().unwrap().last().unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    let output = harness.command(&words).output().unwrap();
    let text = show(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("going on after step {saved}\n")), "{text}");
    // The report of the whole run, as a quickstart that was not stopped tells it; standard output has
    // the checkpoint alone.
    for part in ["held-out problems", "20 steps, 240 rollouts", "next:\n  rocstar dash"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with("checkpoints/step_000020\n") && stdout.lines().count() == 1);
}

/// What a run leaves, without what is measured: metrics, episodes, weights and moments.
type Left = (Vec<Value>, Vec<Group>, [Vec<u8>; 2]);

fn left(run: &Path) -> Left {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let is_measured =
        |name: &str| rocstar_record::metric::find(name).is_some_and(|it| it.is_measured);
    let line = |line: &str| {
        let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        line.retain(|name, _| !is_measured(name));
        Value::Object(line)
    };
    let mut groups = groups(run);
    for group in &mut groups {
        let kept = group.kept.iter_mut().map(|kept| &mut kept.episode);
        for episode in kept.chain(group.dropped.iter_mut().map(|dropped| &mut dropped.episode)) {
            episode.timing = rocstar_record::episode::Timing::default();
            for call in episode.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
                (call.wall_us, call.cpu_us, call.memory_bytes) = (0, 0, None);
            }
        }
    }
    let latest = run.join("checkpoints/latest");
    let files = ["model.safetensors", "state/optimizer.bin"];
    (
        text.lines().map(line).collect(),
        groups,
        files.map(|name| fs::read(latest.join(name)).unwrap()),
    )
}

/// Killed in the first rollouts, between two checkpoints while episodes run, and right after one.
#[test]
fn a_run_that_is_killed_at_any_moment_goes_on_as_if_it_had_not_been() {
    let harness = harness();
    let more = ["--set", "stage.0.steps=4", "--set", "checkpoint.every_steps=2"];
    let whole = quickstart(&harness, &[&more[..], &["--run", "whole"]].concat());
    let runs = harness.path().join("runs");
    let whole_left = left(&runs.join("whole"));
    assert!(whole_left.1.len() >= 12, "{}", show(&whole));
    let begin = [&["quickstart"], &SANDBOX[..], &small(), &more, &["--run", "killed"]].concat();
    let go_on = [&["train", "runs/killed/config.toml"], &SANDBOX[..], &["--resume"]].concat();
    for (arguments, moment) in [(&begin, "held out"), (&go_on, "step 1/4"), (&go_on, "step 3/4")] {
        let mut command = harness.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut lines = std::io::BufRead::lines(stderr).map(Result::unwrap);
        assert!(lines.any(|line| line.contains(moment)), "{moment}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = harness.command(&go_on).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let killed_left = left(&runs.join("killed"));
    assert_eq!(killed_left.0, whole_left.0);
    assert_eq!(killed_left.1, whole_left.1);
    assert!(killed_left.2 == whole_left.2, "weights or moments differ");
}
