//! `rocstar config`: a recipe with its origins, the meaning of keys, the schema, and every recipe of the
//! repository.

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::Harness;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn said(arguments: &[&str]) -> String {
    Harness::new().run(arguments)
}

#[test]
fn a_value_has_its_origin() {
    let harness = Harness::new();
    std::fs::write(harness.path().join("a.toml"), "seed = 1\nmodel.path = \"m\"\n").unwrap();
    let second = "seed = 2\n\n[[stage]]\nkind = \"sft\"\nsteps = 3\nsequences_per_step = 2\n\
                  data.paths = [\"x.jsonl\"]\n";
    std::fs::write(harness.path().join("b.toml"), second).unwrap();
    let arguments = ["config", "show", "a.toml", "b.toml", "--set", "stage.0.steps=9"];
    let output = harness.command(&arguments).env("ROCSTAR_TRAIN__THREADS", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "seed = 2  # b.toml:1\n",
        "path = \"m\"  # a.toml:2\n",
        "threads = 1  # environment ROCSTAR_TRAIN__THREADS\n",
        "steps = 9  # --set\n",
        "sequence_tokens = 1024\n",
        "paths = [\"x.jsonl\"]  # b.toml:7\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_key_is_explained() {
    let text = said(&["config", "explain", "stage.rl.selection.mode"]);
    assert!(text.contains("default: \"paper\"\n"), "{text}");
    assert!(text.contains("released  As the published code does it"), "{text}");
    let both = said(&["config", "explain", "stage.0.optimizer.beta2"]);
    assert!(both.contains("stage.sft.optimizer.beta2\n"), "{both}");
    assert!(both.contains("stage.rl.optimizer.beta2\n"), "{both}");
}

#[test]
fn an_unknown_key_has_its_nearest() {
    let text = said(&["config", "explain", "selection.epsilon"]);
    assert!(text.starts_with("exit status: 2"), "{text}");
    assert!(text.contains("`stage.rl.selection.epsilon`"), "{text}");
    let text = said(&["config", "explain", "stage.rl.optimizer.learning_rat"]);
    assert!(text.contains("did you mean `stage.rl.optimizer.learning_rate`?"), "{text}");
}

#[test]
fn the_schema_is_one() {
    let output = Harness::new().command(&["config", "schema"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["title"], "Recipe");
    assert_eq!(schema["properties"]["seed"]["default"], 1);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("null"));
}

/// `docs/recipes.md` is what the types say.
#[test]
fn the_reference_of_recipes_is_current() {
    let output = Harness::new().command(&["config", "explain", "--markdown"]).output().unwrap();
    let written = std::fs::read_to_string(repository().join("docs/recipes.md")).unwrap_or_default();
    assert_eq!(
        written,
        String::from_utf8(output.stdout).unwrap(),
        "refresh it: cargo run -p rocstar -- config explain --markdown > docs/recipes.md"
    );
}

/// Every recipe reads, and can work once its data have a place.
#[test]
fn every_recipe_of_the_repository_can_work() {
    for entry in std::fs::read_dir(repository().join("recipes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let path = path.to_str().unwrap();
        // A part of a recipe lies over a whole one.
        let base = path.replace("-lora.toml", ".toml");
        let files = if base == path { vec![path] } else { vec![base.as_str(), path] };
        let arguments = [&["config", "show", "--json"], files.as_slice()].concat();
        let output = Harness::new().command(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let shown: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{path}: {error}"));
        let problems = shown["problems"].as_array().unwrap().iter().filter_map(Value::as_str);
        let rest: Vec<&str> =
            problems.filter(|problem| !problem.contains("data.paths` is missing")).collect();
        assert_eq!(rest, Vec::<&str>::new(), "{path}");
    }
}
