//! Reading a run, whoever wrote it and however it ended: what is whole is read, the rest is told.
//!
//! Invariant: nothing is written but a person's notes, the process that works on the run is not
//! disturbed, memory is bounded whatever the files hold, and no path is ever made from what a file
//! says.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{Error, on_file};
use super::files::{names, open_ordinary, read_ordinary};
use super::lines::{JsonLines, LinePlace};
use super::notes::{self, Notes};
use super::sandbox::{self, SandboxState};
use super::writer::lock_owner;
use super::written::Written;
use super::{
    CHECKPOINTS, CONFIG, EPISODES, EPISODES_END, EVALUATION_END, EVALUATIONS, EVENTS, LOCK,
    MAX_SMALL_FILE_BYTES, METRICS, TOKENIZER, check_schema, episodes_path, evaluation_path,
    is_plain, read_environment, step_name, steps, with_ending,
};
use crate::episode::{Evaluated, Group};
use crate::log::Records;

/// A run that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    path: PathBuf,
}

/// Whether somebody works on a run, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing has happened yet.
    Empty,
    /// A process works on it.
    Running {
        /// Which, where it could be told.
        process: Option<u32>,
    },
    /// The last process that worked on it came to an end of its own.
    Ended(Ending),
    /// The last process that worked on it was killed, or the machine went down.
    Died,
}

impl State {
    /// The state after an event, where nobody works on the run.
    #[must_use]
    pub fn after(self, event: &Value) -> Self {
        match event.get("event").and_then(Value::as_str) {
            Some("started" | "resumed") => Self::Died,
            Some("finished") => Self::Ended(Ending::Finished),
            Some("stopped") => Self::Ended(Ending::Stopped),
            Some("failed") => Self::Ended(Ending::Failed),
            _ => self,
        }
    }
}

/// How a process left a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every stage is done.
    Finished,
    /// It was asked to stop.
    Stopped,
    /// It could not go on.
    Failed,
}

impl Reader {
    /// The run at `path`.
    ///
    /// # Errors
    /// There is no run, or a newer rocstar wrote it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.join(CONFIG).exists() {
            return Err(Error::NoRun(path.to_owned()));
        }
        check_schema(path)?;
        Ok(Self { path: path.to_owned() })
    }

    /// The run's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text of the recipe that the run began with.
    ///
    /// # Errors
    /// It can't be read, or is no text.
    pub fn config(&self) -> Result<String, Error> {
        let path = self.path.join(CONFIG);
        let text = read_ordinary(&path, MAX_SMALL_FILE_BYTES)?;
        String::from_utf8(text).map_err(io::Error::other).map_err(on_file("read", &path))
    }

    /// Where and with what the run was started; `None` where that was never written.
    ///
    /// # Errors
    /// It can't be read.
    pub fn environment(&self) -> Result<Option<Value>, Error> {
        read_environment(&self.path)
    }

    /// The lines of the metrics, in order.
    ///
    /// # Errors
    /// The file can't be opened. What is wrong with a line is the line's own value.
    pub fn metrics(&self) -> Result<JsonLines, Error> {
        JsonLines::open(&self.path.join(METRICS))
    }

    /// The lines of the metrics behind `place`; `None` where the line before it is not there, since the
    /// run went on from an earlier step.
    ///
    /// # Errors
    /// The file can't be opened. What is wrong with a line is the line's own value.
    pub fn metrics_behind(&self, place: &LinePlace) -> Result<Option<JsonLines>, Error> {
        JsonLines::open_at(&self.path.join(METRICS), place)
    }

    /// The lines of the events, in order.
    ///
    /// # Errors
    /// The file can't be opened. What is wrong with a line is the line's own value.
    pub fn events(&self) -> Result<JsonLines, Error> {
        JsonLines::open(&self.path.join(EVENTS))
    }

    /// The lines of the events behind `place`, as [`Self::metrics_behind`].
    ///
    /// # Errors
    /// The file can't be opened. What is wrong with a line is the line's own value.
    pub fn events_behind(&self, place: &LinePlace) -> Result<Option<JsonLines>, Error> {
        JsonLines::open_at(&self.path.join(EVENTS), place)
    }

    /// Steps whose episodes are there, the earliest first.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn episode_steps(&self) -> Result<Vec<u64>, Error> {
        steps(&self.path.join(EPISODES), EPISODES_END)
    }

    /// The groups of a step, in their order.
    ///
    /// # Errors
    /// There are none of this step, or the file can't be opened.
    pub fn groups(&self, step: u64) -> Result<Written<Group>, Error> {
        Written::open(episodes_path(&self.path, step), step)
    }

    /// How large the episodes of a step are, and when they were written: what tells whether they
    /// were replaced.
    ///
    /// # Errors
    /// There are none of this step.
    pub fn episodes_mark(&self, step: u64) -> Result<(u64, Option<SystemTime>), Error> {
        let path = episodes_path(&self.path, step);
        let file = std::fs::symlink_metadata(&path).map_err(on_file("read", &path))?;
        Ok((file.len(), file.modified().ok()))
    }

    /// What a person noted of the run; `None` where that is nothing.
    ///
    /// # Errors
    /// It can't be read, or is no note.
    pub fn notes(&self) -> Result<Option<Notes>, Error> {
        notes::read(&self.path)
    }

    /// Writes down what a person notes of the run, whole or not at all.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write_notes(&self, notes: &Notes) -> Result<(), Error> {
        notes::write(&self.path, notes)
    }

    /// The groups of a step as another view of them, `T`, which may read a part of what is there.
    /// Nothing is checked: whoever trusts a field looks at `schema` too.
    ///
    /// # Errors
    /// There are none of this step, or the file can't be opened.
    pub fn groups_as<T: DeserializeOwned>(&self, step: u64) -> Result<Records<T>, Error> {
        records(&episodes_path(&self.path, step))
    }

    /// Suites that were evaluated, each with its steps, the earliest first.
    ///
    /// # Errors
    /// A folder can't be read.
    pub fn evaluations(&self) -> Result<Vec<(String, Vec<u64>)>, Error> {
        let folder = self.path.join(EVALUATIONS);
        let suites = names(&folder)?.into_iter().filter(|name| is_plain(name));
        let suites = suites.filter(|name| folder.join(name).is_dir());
        suites.map(|name| Ok((name.clone(), steps(&folder.join(name), EVALUATION_END)?))).collect()
    }

    /// The numbers of the evaluation of `suite` after `step`.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn evaluation(&self, suite: &str, step: u64) -> Result<Value, Error> {
        let path = with_ending(&evaluation_path(&self.path, suite, step)?, EVALUATION_END);
        let text = read_ordinary(&path, MAX_SMALL_FILE_BYTES)?;
        let evaluation = serde_json::from_slice(&text).map_err(io::Error::from);
        evaluation.map_err(on_file("read", &path))
    }

    /// The tasks of the evaluation of `suite` after `step`, in their order.
    ///
    /// # Errors
    /// There are none, or the file can't be opened.
    pub fn evaluated(&self, suite: &str, step: u64) -> Result<Written<Evaluated>, Error> {
        let path = evaluation_path(&self.path, suite, step)?;
        Written::open(with_ending(&path, EPISODES_END), step)
    }

    /// The tasks of the evaluation of `suite` after `step` as another view of them, as
    /// [`Self::groups_as`].
    ///
    /// # Errors
    /// There are none, or the file can't be opened.
    pub fn evaluated_as<T: DeserializeOwned>(
        &self,
        suite: &str,
        step: u64,
    ) -> Result<Records<T>, Error> {
        let path = evaluation_path(&self.path, suite, step)?;
        records(&with_ending(&path, EPISODES_END))
    }

    /// Steps whose checkpoints are there, the earliest first.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn checkpoint_steps(&self) -> Result<Vec<u64>, Error> {
        steps(&self.path.join(CHECKPOINTS), "")
    }

    /// Where the checkpoint of `step` is.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.path.join(CHECKPOINTS).join(step_name(step))
    }

    /// Where the tokenizer's files are, where they were saved.
    pub fn tokenizer(&self) -> PathBuf {
        self.path.join(TOKENIZER)
    }

    /// What the code environment does, or did when the run was last worked on; `None` where it has none.
    ///
    /// # Errors
    /// It can't be read, or a newer rocstar wrote it.
    pub fn sandbox(&self) -> Result<Option<SandboxState>, Error> {
        sandbox::read(&self.path)
    }

    /// When that was written.
    pub fn sandbox_mark(&self) -> Option<SystemTime> {
        sandbox::mark(&self.path)
    }

    /// Whether somebody works on the run, and how it ended.
    ///
    /// # Errors
    /// The lock or the events can't be read.
    pub fn state(&self) -> Result<State, Error> {
        if let Some(running) = self.running()? {
            return Ok(running);
        }
        Ok(self.events()?.flatten().fold(State::Empty, |state, event| state.after(&event)))
    }

    /// [`State::Running`], where somebody works on the run: looks whether the lock is held, by taking it
    /// together with others for an instant; a process that begins in that instant tries again.
    ///
    /// # Errors
    /// The lock can't be read.
    pub fn running(&self) -> Result<Option<State>, Error> {
        let path = self.path.join(LOCK);
        if !path.exists() {
            return Ok(None);
        }
        let mut file: File = open_ordinary(&path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                Ok(Some(State::Running { process: lock_owner(&mut file) }))
            }
            Err(TryLockError::Error(source)) => Err(on_file("lock", &path)(source)),
        }
    }
}

/// The records of an ordinary file.
fn records<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, Error> {
    open_ordinary(path)?;
    Records::open(path).map_err(on_file("read", path))
}
