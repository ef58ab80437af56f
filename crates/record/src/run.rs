//! The directory of a run: the one place where training, evaluation, dashboard, report and Python
//! meet.
//!
//! ```text
//! runs/<name>/  config.toml                     the recipe that the run began with
//!               env.json                        the layout's version; where and with what it started
//!               metrics.jsonl                   a line for each step and evaluation
//!               events.jsonl                    what happened to the run
//!               episodes/step_000123.jsonl.zst  the step's groups, a line each, kept and dropped
//!               eval/<suite>/step_000123.json   an evaluation in numbers
//!               eval/<suite>/step_000123.jsonl.zst  its tasks with their episodes, a line each
//!               checkpoints/step_000123/        the trainer's, see there
//!               tokenizer/                      `tokenizer.json` of the model, from the start
//!               tb/                             TensorBoard's event files
//!               sandbox.json                    what the code environment does, while the run works
//!               notes.json                      what a person noted
//!               lock                            held by the process that works on the run
//! ```
//!
//! Invariant: one process at a time works on a run (a lock that the system gives back when the
//! process ends, however it ends), and every file is whole or absent: files that are written at once
//! are renamed into place, logs grow by whole lines and are cut back when a run goes on from an
//! earlier step.
//!
//! A run that was stopped or killed and went on holds, byte for byte, what one that wasn't holds:
//! `config.toml`, every line of `metrics.jsonl`, every group of `episodes/` and every evaluation,
//! except what is measured on the way: numbers that the registry says are
//! ([`crate::metric::Metric::is_measured`]), and `timing`, `wall_us`, `cpu_us` and `memory_bytes` of
//! episodes. `events.jsonl`, `env.json`, `sandbox.json` and `tb/` tell the story of the
//! processes, so they differ.

mod error;
mod files;
mod lines;
mod notes;
mod reader;
mod sandbox;
mod writer;
mod written;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use error::Error;
pub use files::replace_file;
pub use lines::{JsonLines, LinePlace, Notice, Problem};
pub use notes::Notes;
pub use reader::{Ending, Reader, State};
pub use sandbox::{Durations, MOST_MOMENTS, Moment, SandboxFile, SandboxState};
pub use writer::RunDirectory;
pub use written::Written;

/// Version of the layout. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// Largest recipe and description of the environment that are read.
const MAX_SMALL_FILE_BYTES: u64 = 16 << 20;

const CONFIG: &str = "config.toml";
const ENVIRONMENT: &str = "env.json";
const METRICS: &str = "metrics.jsonl";
const EVENTS: &str = "events.jsonl";
const LOCK: &str = "lock";
const EPISODES: &str = "episodes";
const EVALUATIONS: &str = "eval";
const CHECKPOINTS: &str = "checkpoints";
const TENSORBOARD: &str = "tb";
const TOKENIZER: &str = "tokenizer";
const EPISODES_END: &str = ".jsonl.zst";
const EVALUATION_END: &str = ".json";

/// What a step's file or folder is called, without its ending.
fn step_name(step: u64) -> String {
    format!("step_{step:06}")
}

/// The step of a file or folder that is called as [`step_name`] would call it, and no other way.
fn step_of(name: &str, ending: &str) -> Option<u64> {
    let name = name.strip_suffix(ending)?;
    let step = name.strip_prefix("step_")?.parse().ok()?;
    (step_name(step) == name).then_some(step)
}

/// Steps of the entries of `folder` whose names end so, the earliest first; none where there is no
/// folder.
fn steps(folder: &Path, ending: &str) -> Result<Vec<u64>, Error> {
    let names = files::names(folder)?;
    let mut all: Vec<u64> = names.iter().filter_map(|name| step_of(name, ending)).collect();
    all.sort_unstable();
    Ok(all)
}

/// Whether a name may be a folder's: letters, digits, `_`, `-` and inner dots.
pub fn is_plain(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(fits)
}

/// Where an evaluation of `suite` after `step` is in the run at `path`, without its ending.
fn evaluation_path(path: &Path, suite: &str, step: u64) -> Result<PathBuf, Error> {
    if !is_plain(suite) {
        return Err(Error::SuiteName(suite.to_owned()));
    }
    Ok(path.join(EVALUATIONS).join(suite).join(step_name(step)))
}

/// The path with something behind its name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Where the episodes of `step` are in the run at `path`.
fn episodes_path(path: &Path, step: u64) -> PathBuf {
    path.join(EPISODES).join(step_name(step) + EPISODES_END)
}

/// What `env.json` says; `None` where it is not there.
fn read_environment(path: &Path) -> Result<Option<Value>, Error> {
    let path = path.join(ENVIRONMENT);
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_ordinary(&path, MAX_SMALL_FILE_BYTES)?;
    let environment = serde_json::from_slice(&text).map_err(io::Error::from);
    environment.map(Some).map_err(error::on_file("read", &path))
}

/// Whether the layout is one that is known here. A run whose `env.json` is not there, or says nothing
/// of it, is of the first.
fn check_schema(path: &Path) -> Result<(), Error> {
    let environment = read_environment(path)?.unwrap_or_default();
    match environment.get("schema").and_then(Value::as_u64) {
        Some(found) if found > u64::from(SCHEMA_VERSION) => {
            let path = path.join(ENVIRONMENT);
            Err(Error::NewerSchema { path, found, known: SCHEMA_VERSION })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_one_name_each() {
        assert_eq!(step_name(7), "step_000007");
        assert_eq!(step_of("step_000007.json", ".json"), Some(7));
        assert_eq!(step_of("step_1234567", ""), Some(1_234_567));
        for name in ["step_7.json", "step_+00007.json", "step_0000007.json", "step_000007.partial"]
        {
            assert_eq!(step_of(name, ".json"), None, "{name}");
        }
    }

    #[test]
    fn names_of_suites_lead_nowhere_else() {
        assert!(["aime-2024", "math_500", "gpqa.diamond"].into_iter().all(is_plain));
        assert!(!["", ".", "..", ".hidden", "a/b", "a\\b", "ä"].into_iter().any(is_plain));
    }
}
