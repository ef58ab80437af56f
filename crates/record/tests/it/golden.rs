//! The written form of a run is golden: what version 1 wrote is read, and written again it is the
//! same, byte for byte.
//!
//! A change of the written form must come with a new version and a new golden run; the old ones must
//! still be read. `ROCSTAR_REFRESH=1` writes the newest one.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use rocstar_record::episode::{Evaluated, Group};
use rocstar_record::run::{Ending, Reader, RunDirectory, State};
use serde_json::{Value, json};

use crate::support::{evaluated, groups};

const CONFIG: &str = "seed = 1\n\n[run]\nname = \"golden\"\n";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run_1")
}

fn environment() -> Value {
    json!({"rocstar": "0.1.0", "host": {"cores": 2}, "seed": 1})
}

fn metrics() -> [Value; 3] {
    [
        json!({"kind": "step", "step": 12, "stage": 0, "epoch": 1, "loss": 0.1,
               "learning_rate": 0.000_005, "gradient_norm": 1.25, "seconds": 0.5}),
        json!({"kind": "step", "step": 13, "stage": 1, "reward_mean": 0.625,
               "mismatch_max_ratio": null, "policy_tokens": 123_456_789_012_u64}),
        json!({"kind": "evaluation", "step": 13, "stage": 1, "accuracy": 1.0 / 3.0}),
    ]
}

fn events() -> [(&'static str, Value); 4] {
    [
        ("started", json!({"step": 0})),
        ("checkpoint", json!({"step": 13})),
        ("failed", json!({"error": "a \"quoted\"\nline"})),
        ("finished", json!({"step": 13})),
    ]
}

fn write(path: &Path) {
    let mut directory = RunDirectory::create(path, CONFIG).unwrap();
    directory.write_environment(&environment()).unwrap();
    for line in metrics() {
        directory.metric(&line).unwrap();
    }
    for (event, details) in events() {
        directory.event(event, details).unwrap();
    }
    directory.write_episodes(12, &groups()).unwrap();
    let numbers = json!({"accuracy": 0.25, "samples": 4});
    directory.write_evaluation("sums", 13, &numbers, &[evaluated()]).unwrap();
}

/// The text of a file; packed ones are unpacked, and the times of events are 0.
fn text(path: &Path) -> String {
    let mut bytes = fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "zst") {
        let packed = std::mem::take(&mut bytes);
        zstd::stream::read::Decoder::new(packed.as_slice())
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
    }
    let text = String::from_utf8(bytes).unwrap();
    if !path.ends_with("events.jsonl") {
        return text;
    }
    let lines = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event["unix_ms"] = json!(0);
        format!("{event}\n")
    });
    lines.collect()
}

const FILES: [&str; 7] = [
    "config.toml",
    "env.json",
    "metrics.jsonl",
    "events.jsonl",
    "episodes/step_000012.jsonl.zst",
    "eval/sums/step_000013.json",
    "eval/sums/step_000013.jsonl.zst",
];

#[test]
fn a_run_is_written_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run_1");
    write(&path);
    if std::env::var_os("ROCSTAR_REFRESH").is_some() {
        for name in FILES {
            let to = golden().join(name);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(path.join(name), to).unwrap();
        }
    }
    for name in FILES {
        assert_eq!(text(&path.join(name)), text(&golden().join(name)), "{name}");
    }
}

#[test]
fn a_run_of_version_1_is_read() {
    let reader = Reader::open(&golden()).unwrap();
    assert_eq!(reader.config().unwrap(), CONFIG);
    let expected = json!({"schema": 1, "rocstar": "0.1.0", "host": {"cores": 2}, "seed": 1});
    assert_eq!(reader.environment().unwrap(), Some(expected));
    let found: Vec<Value> = reader.metrics().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, metrics());
    let found: Vec<Value> = reader.events().unwrap().map(Result::unwrap).collect();
    let names = found.iter().map(|event| event["event"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), events().map(|(name, _)| name));
    assert_eq!(reader.state().unwrap(), State::Ended(Ending::Finished));
    assert_eq!(reader.episode_steps().unwrap(), [12]);
    let found: Vec<Group> = reader.groups(12).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, groups());
    assert_eq!(reader.evaluations().unwrap(), [("sums".to_owned(), vec![13])]);
    assert_eq!(reader.evaluation("sums", 13).unwrap()["accuracy"], json!(0.25));
    let found: Vec<Evaluated> = reader.evaluated("sums", 13).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [evaluated()]);
    assert_eq!(reader.checkpoint_steps().unwrap(), [0; 0]);
}

#[test]
fn what_is_read_is_written_the_same() {
    let episodes = text(&golden().join("episodes/step_000012.jsonl.zst"));
    for line in episodes.lines() {
        let group: Group = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&group).unwrap(), line);
    }
    for name in ["metrics.jsonl", "events.jsonl"] {
        let all = fs::read_to_string(golden().join(name)).unwrap();
        for line in all.lines() {
            assert_eq!(serde_json::from_str::<Value>(line).unwrap().to_string(), line);
        }
    }
}
