//! What the code environment of a run does, as the process that works on the run last saw it.
//!
//! Invariant: the file only tells: nothing that a run does depends on it, and going on from an earlier
//! step leaves it alone. It is whole or absent, but not brought to the disk, since a second later it is
//! another one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::SCHEMA_VERSION;
use super::error::{Error, on_file};
use super::files::{PARTIAL, read_ordinary, remove_if_there};

const SANDBOX: &str = "sandbox.json";
/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// Moments that are kept.
pub const MOST_MOMENTS: usize = 120;

/// A code environment at one moment, and in the minutes before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxState {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// When that was, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Programs that can be alive at once, sessions included.
    pub slots: u64,
    /// Of these, running now.
    pub running: u64,
    /// Calls that wait now.
    pub waiting: u64,
    /// Programs that can run at full priority at once.
    pub turns: u64,
    /// Of these, taken now.
    pub turns_taken: u64,
    /// Sessions that are open now.
    pub sessions: u64,
    /// Calls so far that were taken in.
    pub accepted: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, given up.
    pub cancelled: u64,
    /// Requests so far that were turned away.
    pub refused: u64,
    /// Calls that ran, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Upper bounds of the buckets of both distributions, in microseconds; the last bucket has none.
    pub bounds_us: Vec<u64>,
    /// How long calls ran.
    pub run_time: Durations,
    /// How long calls waited before they ran.
    pub queue_wait: Durations,
    /// Layers of isolation, and whether each is in force.
    pub layers: BTreeMap<String, bool>,
    /// A layer that is required is missing.
    pub degraded: bool,
    /// The last moments, the newest last.
    pub recent: Vec<Moment>,
}

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// Calls in each bucket.
    pub counts: Vec<u64>,
    /// Sum, in microseconds.
    pub sum_us: u64,
}

/// A few numbers of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// Calls answered so far.
    pub answered: u64,
    /// Calls that run.
    pub running: u64,
    /// Calls that wait.
    pub waiting: u64,
}

impl Default for SandboxState {
    fn default() -> Self {
        Self {
            schema: SCHEMA_VERSION,
            unix_ms: 0,
            slots: 0,
            running: 0,
            waiting: 0,
            turns: 0,
            turns_taken: 0,
            sessions: 0,
            accepted: 0,
            answered: 0,
            cancelled: 0,
            refused: 0,
            outcomes: BTreeMap::new(),
            bounds_us: Vec::new(),
            run_time: Durations::default(),
            queue_wait: Durations::default(),
            layers: BTreeMap::new(),
            degraded: false,
            recent: Vec::new(),
        }
    }
}

/// Where the state of a run's code environment is written.
#[derive(Debug, Clone)]
pub struct SandboxFile {
    path: PathBuf,
}

impl SandboxFile {
    pub(super) fn of(run: &Path) -> Self {
        Self { path: run.join(SANDBOX) }
    }

    /// Replaces what is there.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write(&self, state: &SandboxState) -> Result<(), Error> {
        let partial = self.path.with_file_name(format!("{SANDBOX}{PARTIAL}"));
        let text = serde_json::to_vec(state).map_err(io::Error::from);
        remove_if_there(&partial)?;
        let written = text.and_then(|text| File::create_new(&partial)?.write_all(&text));
        let written = written.and_then(|()| fs::rename(&partial, &self.path));
        written.map_err(on_file("write", &self.path))
    }
}

/// What is there; `None` where nothing was written.
pub(super) fn read(run: &Path) -> Result<Option<SandboxState>, Error> {
    let path = run.join(SANDBOX);
    if !path.exists() {
        return Ok(None);
    }
    let text = read_ordinary(&path, MAX_BYTES)?;
    let state: SandboxState =
        serde_json::from_slice(&text).map_err(io::Error::from).map_err(on_file("read", &path))?;
    if state.schema > SCHEMA_VERSION {
        let found = u64::from(state.schema);
        return Err(Error::NewerSchema { path, found, known: SCHEMA_VERSION });
    }
    Ok(Some(state))
}

/// When it was last written; `None` where it never was.
pub(super) fn mark(run: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(run.join(SANDBOX)).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_replaces_the_one_before() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!((read(run.path()).unwrap(), mark(run.path())), (None, None));
        let file = SandboxFile::of(run.path());
        file.write(&SandboxState::default()).unwrap();
        let state = SandboxState {
            running: 3,
            outcomes: BTreeMap::from([("ok".to_owned(), 7)]),
            recent: vec![Moment { unix_ms: 1, answered: 7, running: 3, waiting: 0 }],
            ..SandboxState::default()
        };
        file.write(&state).unwrap();
        assert_eq!(read(run.path()).unwrap(), Some(state));
        assert!(mark(run.path()).is_some());
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        fs::write(&file.path, r#"{"schema": 9}"#).unwrap();
        assert!(matches!(read(run.path()), Err(Error::NewerSchema { found: 9, .. })));
    }
}
