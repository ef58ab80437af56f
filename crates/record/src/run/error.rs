//! What can be wrong with a run's directory.

use std::io;
use std::path::{Path, PathBuf};

use crate::episode::Misfit;

/// What can be wrong with a run's directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder can't be used.
    #[error("can't {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The run is there already.
    #[error("the run {} exists already", .0.display())]
    Exists(PathBuf),
    /// There is no run.
    #[error("{} is no run: it has no `config.toml`", .0.display())]
    NoRun(PathBuf),
    /// Another process works on the run.
    #[error("another process{} works on the run {}", owner.map(|pid| format!(" ({pid})")).unwrap_or_default(), path.display())]
    Locked {
        /// The run.
        path: PathBuf,
        /// The process, where it could be told.
        owner: Option<u32>,
    },
    /// The metrics don't reach as far as the checkpoint that the run goes on from.
    #[error(
        "{}: {found_bytes} bytes, and the checkpoint was saved at {expected_bytes}: the file was \
         changed",
        path.display()
    )]
    MetricsChanged {
        /// The file.
        path: PathBuf,
        /// Its length.
        found_bytes: u64,
        /// Its length when the checkpoint was saved.
        expected_bytes: u64,
    },
    /// A newer rocstar wrote it.
    #[error(
        "{}: `schema` is {found}, newer than {known}: use a newer rocstar",
        path.display()
    )]
    NewerSchema {
        /// The file that says so.
        path: PathBuf,
        /// The writer's version.
        found: u64,
        /// The newest version that is known here.
        known: u32,
    },
    /// A suite's name that can't be a folder's.
    #[error(
        "`{0}` can't name an evaluation suite: up to 100 letters, digits, `_`, `-` and dots, the \
         first no dot"
    )]
    SuiteName(String),
    /// A group that can't be written, as it could not be read again.
    #[error("step {step}, task {task}: {source}")]
    Group {
        /// The step.
        step: u64,
        /// The task.
        task: String,
        /// What doesn't fit.
        source: Misfit,
    },
    /// A group of another step.
    #[error("task {task} is of step {found}, and the episodes of step {step} are written")]
    OtherStep {
        /// The step that is written.
        step: u64,
        /// The group's.
        found: u64,
        /// The task.
        task: String,
    },
}

/// For `map_err`: names the file that an input or output error is about.
pub(super) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
