//! `rocstar train` as a person uses it: a tiny new model, data made here, runs that are stopped,
//! killed and gone on with.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Map, Value, json};

use crate::harness::{Harness, show};

const RECIPE: &str = "threads = 2\nmodel.shape = \"tiny\"\nmodel.tokenizer = \"tokenizer\"\n\
    model.template = \"chatml\"\ncheckpoint.every_steps = 4\n\n[[stage]]\nkind = \"sft\"\n\
    epochs = 8\nsequences_per_step = 4\nsequence_tokens = 128\ntokens_per_micro_batch = 256\n\n\
    [stage.data]\npaths = [\"data.jsonl\"]\n\n[stage.evaluation]\npaths = [\"data.jsonl\"]\n\
    every_steps = 12\n\n[stage.optimizer]\nlearning_rate = 3e-3\nwarm_up_steps = 4\n";

/// A folder with a recipe, a tokenizer and data.
struct Training {
    harness: Harness,
}

impl Training {
    fn new() -> Self {
        let harness = Harness::new();
        let path = harness.path();
        fs::create_dir(path.join("tokenizer")).unwrap();
        fs::write(path.join("tokenizer/tokenizer.json"), tokenizer().to_string()).unwrap();
        fs::write(path.join("recipe.toml"), RECIPE).unwrap();
        let rows: Vec<String> = (0..12).map(|number| conversation(number).to_string()).collect();
        fs::write(path.join("data.jsonl"), rows.join("\n")).unwrap();
        Self { harness }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.harness.command(&[&["train", "recipe.toml"], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a run that tells its events on standard output.
    fn start(&self, arguments: &[&str]) -> (Child, impl Iterator<Item = Value> + use<>) {
        let mut command = self.command(arguments);
        let mut child =
            command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map_while(|line| serde_json::from_str(&line.ok()?).ok()))
    }

    fn folder(&self, run: &str) -> PathBuf {
        self.harness.path().join("runs").join(run)
    }

    /// The metrics, without what differs from run to run.
    fn metrics(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder(run).join("metrics.jsonl")).unwrap();
        let line = |line: &str| {
            let mut line: Map<String, Value> = serde_json::from_str(line).unwrap();
            line.retain(|key, _| key != "seconds" && key != "tokens_per_s");
            Value::Object(line)
        };
        text.lines().map(line).collect()
    }

    /// Weights and moments of the last checkpoint.
    fn weights(&self, run: &str) -> [Vec<u8>; 2] {
        let latest = self.folder(run).join("checkpoints/latest");
        ["model.safetensors", "state/optimizer.bin"]
            .map(|name| fs::read(latest.join(name)).unwrap())
    }
}

fn conversation(number: usize) -> Value {
    json!({ "messages": [
        { "role": "user", "content": format!("What comes after {number}?") },
        { "role": "assistant", "content": format!("After {number} comes {}.", number + 1) },
    ]})
}

/// Every byte is a token; then come ChatML's control tokens.
fn tokenizer() -> Value {
    let mut next = 0x100;
    let letters = (0..256_u32).map(|byte| {
        let letter = if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            byte
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(letter).unwrap().to_string()
    });
    let vocabulary: Map<String, Value> =
        letters.enumerate().map(|(id, letter)| (letter, id.into())).collect();
    let control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    let added: Vec<Value> = control
        .iter()
        .zip(256..)
        .map(|(text, id)| {
            json!({ "id": id, "content": text, "special": true, "single_word": false,
                                  "lstrip": false, "rstrip": false, "normalized": false })
        })
        .collect();
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                        "use_regex": true });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": { "type": "BPE", "dropout": null, "unk_token": null,
                   "continuing_subword_prefix": null, "end_of_word_suffix": null,
                   "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                   "vocab": vocabulary, "merges": [] },
    })
}

fn kill(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_new_model_learns_and_the_folder_is_a_model() {
    let training = Training::new();
    let output = training.run(&[]);
    assert!(output.status.success(), "{}", show(&output));
    let metrics = training.metrics("recipe");
    let losses = |kind: &str| -> Vec<f64> {
        let of_kind = metrics.iter().filter(|line| line["kind"] == kind);
        of_kind.map(|line| line["loss"].as_f64().unwrap()).collect()
    };
    let (steps, evaluations) = (losses("step"), losses("evaluation"));
    assert_eq!((steps.len(), evaluations.len()), (24, 3));
    assert!(steps[0] > 5.0 && steps[23] < 1.5, "{steps:?}");
    assert!(evaluations[2] < evaluations[0] / 3.0, "{evaluations:?}");
    // The last line is where the model is.
    let folder = String::from_utf8(output.stdout).unwrap();
    assert!(folder.trim_end().ends_with("runs/recipe/checkpoints/step_000024"), "{folder}");
    let config = rocstar_nn::files::load(Path::new(folder.trim_end())).unwrap().config;
    assert_eq!((config.vocabulary_size, config.end_tokens), (259, vec![258]));
}

#[test]
fn a_killed_run_goes_on_as_if_it_had_not_been() {
    let training = Training::new();
    assert!(training.run(&["--run", "whole"]).status.success());
    // Killed at three moments: before a checkpoint, after one, and while one is written.
    let moments: [&dyn Fn(&Value) -> bool; 3] = [
        &|event| event["event"] == "step" && event["step"] == 2,
        &|event| event["event"] == "step" && event["step"] == 6,
        &|event| event["event"] == "step" && event["step"] == 16,
    ];
    for (index, moment) in moments.into_iter().enumerate() {
        let resume = if index > 0 { &["--resume"][..] } else { &[] };
        let arguments = [&["--run", "killed"], resume].concat();
        let (mut child, mut events) = training.start(&arguments);
        assert!(events.any(|event| moment(&event)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = training.run(&["--run", "killed", "--resume"]);
    assert!(output.status.success(), "{}", show(&output));
    assert_eq!(training.metrics("killed"), training.metrics("whole"));
    assert!(training.weights("killed") == training.weights("whole"), "weights or moments differ");
}

#[test]
fn an_interrupt_saves_and_says_how_to_go_on() {
    let training = Training::new();
    assert!(training.run(&["--run", "whole"]).status.success());
    let (child, mut events) = training.start(&["--run", "a b"]);
    assert!(events.any(|event| event["event"] == "step" && event["step"] == 2));
    kill(&child, rustix::process::Signal::INT);
    // What is left of the events ends with the process.
    let saved = events.filter(|event| event["event"] == "checkpoint").last().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let command = "go on with: rocstar train recipe.toml --run 'a b' --resume\n";
    assert!(text.ends_with(command), "{text}");
    assert!(saved["step"].as_u64().unwrap() >= 2, "{saved}");
    let output = training.run(&["--run", "a b", "--resume"]);
    assert!(output.status.success(), "{}", show(&output));
    assert_eq!(training.metrics("a b"), training.metrics("whole"));
    assert!(training.weights("a b") == training.weights("whole"), "weights or moments differ");
}

#[test]
fn two_processes_cannot_work_on_one_run() {
    let training = Training::new();
    let (mut child, mut events) = training.start(&["--run", "one", "--set", "stage.0.epochs=1000"]);
    assert!(events.any(|event| event["event"] == "checkpoint"));
    let output = training.run(&["--run", "one", "--resume", "--set", "stage.0.epochs=1000"]);
    child.kill().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let text = show(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("another process ({pid}) works on the run runs/one")), "{text}");
}

/// Files may be no larger than a checkpoint's: as on a full disk, the write fails.
#[test]
fn a_checkpoint_that_cannot_be_written_fails_cleanly() {
    let training = Training::new();
    let shell = format!(
        "trap '' XFSZ; ulimit -f 20000; exec {} train recipe.toml",
        env!("CARGO_BIN_EXE_rocstar")
    );
    let mut command = training.command(&[]);
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    command = Command::new("sh");
    command.args(["-c", &shell]).current_dir(training.harness.path()).env_clear().envs(environment);
    let output = command.output().unwrap();
    let text = show(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("File too large"), "{text}");
    let left: Vec<_> =
        fs::read_dir(training.folder("recipe").join("checkpoints")).unwrap().collect();
    assert_eq!(left.len(), 0, "{left:?}");
    let output = training.run(&["--resume"]);
    assert!(output.status.success(), "{}", show(&output));
}

#[test]
fn a_run_is_not_begun_twice_and_not_changed() {
    let training = Training::new();
    assert!(training.run(&["--set", "stage.0.epochs=1"]).status.success());
    assert_snapshot!("begun_twice", show(&training.run(&["--set", "stage.0.epochs=1"])));
    assert_snapshot!("changed", show(&training.run(&["--resume"])));
}

#[test]
fn faults_of_recipes_have_their_place() {
    let training = Training::new();
    let write = |text: &str| fs::write(training.harness.path().join("recipe.toml"), text).unwrap();
    write(&RECIPE.replace("learning_rate", "learning_rat"));
    assert_snapshot!("unknown_key", show(&training.run(&[])));
    write(&RECIPE.replace("epochs = 8", "epochs = 0").replace("\"data.jsonl\"", ""));
    assert_snapshot!("cannot_work", show(&training.run(&[])));
    write(RECIPE);
    assert_snapshot!("wrong_assignment", show(&training.run(&["--set", "stage.1.epochs=2"])));
    fs::write(training.harness.path().join("data.jsonl"), "{\"messages\": []}\n").unwrap();
    assert_snapshot!("wrong_row", show(&training.run(&[])));
    assert!(!training.folder("recipe").exists());
}

#[test]
fn later_layers_win_and_the_resolved_recipe_gives_the_same() {
    let training = Training::new();
    let path = training.harness.path();
    fs::write(path.join("two.toml"), "seed = 2\ncheckpoint.keep_last = 5\n").unwrap();
    let mut command = training.command(&["two.toml", "--dry-run"]);
    command
        .args(["--set", "stage.0.optimizer.beta2=0.9"])
        .env("ROCSTAR_TRAIN__SEED", "3")
        .env("ROCSTAR_TRAIN__STAGE__0__SEQUENCES_PER_STEP", "6");
    let first = command.output().unwrap();
    let text = show(&first);
    for line in ["seed = 3", "keep_last = 5", "beta2 = 0.9", "sequences_per_step = 6"] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("memory:   about ") && text.contains("time:     about "), "{text}");
    fs::write(path.join("resolved.toml"), &first.stdout).unwrap();
    let again =
        training.harness.command(&["train", "resolved.toml", "--dry-run"]).output().unwrap();
    assert_eq!(String::from_utf8(again.stdout), String::from_utf8(first.stdout));
    assert!(!training.folder("recipe").exists());
}

/// The recipes that come with rocstar can be read; only the data is missing.
#[test]
fn the_recipes_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_str().unwrap();
        if name.contains("sft-") {
            let base = name.replace("-lora.toml", ".toml");
            let text = Harness::new().run(&["train", &base, name, "--dry-run"]);
            let expected = "error: the recipe can't work: `stage.0.data.paths` is missing";
            assert!(text.contains(expected), "{name}: {text}");
        }
    }
}
