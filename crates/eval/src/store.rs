//! The folder of an evaluation: its protocol, every attempt as it ended, scores, and the result.
//!
//! ```text
//! evals/<name>/  protocol.json        what was asked of whom, and how
//!                attempts.jsonl.zst   attempts, a line each, in the order in which they ended
//!                scores.jsonl.zst     what each is worth; of several scores of one attempt the last
//!                result.json          figures, with the protocol they were made under
//!                result.md            the same for people
//!                lock                 held by the process that works on it
//! ```
//!
//! Invariants: one process at a time writes (a lock that the system gives back however the process
//! ends); an attempt that was kept is on the disk; attempts made under other protocols never stand
//! beside each other. A crash at any moment loses what was not kept yet, and tears at most the end of
//! a log, which the next opening cuts off.

mod error;
mod files;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rocstar_record::attempt::{Attempt, Score};
use rocstar_record::episode::TaskId;
use rocstar_record::log::{self, Log};
use rocstar_record::run::replace_file;
use serde::{Deserialize, Serialize};

use crate::protocol::Protocol;
use crate::report::EvalResult;

pub use error::StoreError;
use error::on_file;

const PROTOCOL: &str = "protocol.json";
const ATTEMPTS: &str = "attempts.jsonl.zst";
const SCORES: &str = "scores.jsonl.zst";
const RESULT: &str = "result.json";
const RESULT_TEXT: &str = "result.md";
const LOCK: &str = "lock";

/// Which attempt: the problem and the sample's number.
pub type AttemptId = (TaskId, u32);

/// What is in the folder of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// How the attempts were made.
    pub protocol: Protocol,
    /// Attempts.
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// Scores of them, as far as they were given.
    pub scores: BTreeMap<AttemptId, Score>,
    /// The result as it was last written; `None` where it never was, or was in another form.
    pub result: Option<EvalResult>,
}

/// The folder of an evaluation, locked for this process until it is dropped.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    saved: Saved,
    attempts: Log,
    scores: Log,
    /// Holds the lock.
    _lock: File,
}

/// A line of the scores.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Scored {
    problem: TaskId,
    sample: u32,
    score: Score,
}

impl Saved {
    /// What is in the folder at `path`; nothing is written, and who works on it is not disturbed.
    ///
    /// # Errors
    /// There is no evaluation, a file is damaged, or a newer rocstar wrote it.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let file = path.join(PROTOCOL);
        if !file.exists() {
            return Err(StoreError::NoEvaluation(path.to_owned()));
        }
        let protocol: Protocol = files::read_json(&file)?;
        if protocol.is_newer() {
            return Err(StoreError::Newer { path: file, found: protocol.schema });
        }
        let mut attempts = BTreeMap::new();
        let file = path.join(ATTEMPTS);
        for attempt in records::<Attempt>(&file)? {
            if attempt.schema > rocstar_record::attempt::SCHEMA_VERSION {
                return Err(StoreError::Newer { path: file, found: attempt.schema });
            }
            // The first stays: its score may be written already.
            attempts.entry((attempt.problem.clone(), attempt.sample)).or_insert(attempt);
        }
        let scores = records::<Scored>(&path.join(SCORES))?;
        let scores = scores.into_iter().map(|it| ((it.problem, it.sample), it.score)).collect();
        // What can't be read is made again from attempts and scores.
        let result = files::read_json(&path.join(RESULT)).ok();
        Ok(Self { protocol, attempts, scores, result })
    }
}

impl Store {
    /// Whether there is an evaluation at `path`.
    pub fn is_at(path: &Path) -> bool {
        path.join(PROTOCOL).exists()
    }

    /// Begins an evaluation at `path`, which must not hold one.
    ///
    /// # Errors
    /// There is one already, or the folder can't be written.
    pub fn create(path: &Path, protocol: &Protocol) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(on_file("make", path))?;
        let lock = files::lock(path, LOCK)?;
        if Self::is_at(path) {
            return Err(StoreError::Exists(path.to_owned()));
        }
        // What a start that was ended before the protocol was written left.
        for name in [ATTEMPTS, SCORES] {
            files::remove_if_there(&path.join(name))?;
        }
        files::write_json(&path.join(PROTOCOL), protocol)?;
        let saved = Saved {
            protocol: protocol.clone(),
            attempts: BTreeMap::new(),
            scores: BTreeMap::new(),
            result: None,
        };
        Self::with_lock(path, saved, lock)
    }

    /// Goes on with the evaluation at `path` under `protocol`, which may want more samples or
    /// problems than before.
    ///
    /// # Errors
    /// There is none, its protocol is another, another process works on it, or a file is damaged.
    pub fn resume(path: &Path, protocol: &Protocol) -> Result<Self, StoreError> {
        let mut store = Self::open(path)?;
        let differences = store.saved.protocol.hindrances(protocol);
        if !differences.is_empty() {
            return Err(StoreError::ProtocolChanged { path: path.to_owned(), differences });
        }
        if store.saved.protocol != *protocol {
            files::write_json(&path.join(PROTOCOL), protocol)?;
            store.saved.protocol = protocol.clone();
        }
        Ok(store)
    }

    /// Opens the evaluation at `path` as it is.
    ///
    /// # Errors
    /// There is none, another process works on it, or a file is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !Self::is_at(path) {
            return Err(StoreError::NoEvaluation(path.to_owned()));
        }
        let lock = files::lock(path, LOCK)?;
        Self::with_lock(path, Saved::read(path)?, lock)
    }

    fn with_lock(path: &Path, saved: Saved, lock: File) -> Result<Self, StoreError> {
        let open = |name: &str| {
            let file = path.join(name);
            Log::open(&file).map_err(on_file("open", &file))
        };
        let (attempts, scores) = (open(ATTEMPTS)?, open(SCORES)?);
        Ok(Self { path: path.to_owned(), saved, attempts, scores, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it.
    pub const fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Keeps attempts; they are on the disk when this returns. One that is there already stays.
    ///
    /// # Errors
    /// The disk refuses; none of them is kept then.
    pub fn keep_attempts(&mut self, attempts: Vec<Attempt>) -> Result<(), StoreError> {
        let id = |attempt: &Attempt| (attempt.problem.clone(), attempt.sample);
        let is_new = |attempt: &Attempt| !self.saved.attempts.contains_key(&id(attempt));
        let attempts: Vec<Attempt> = attempts.into_iter().filter(is_new).collect();
        let on_attempts = || on_file("write", &self.path.join(ATTEMPTS));
        for attempt in &attempts {
            self.attempts.push(attempt).map_err(on_attempts())?;
        }
        self.attempts.commit().map_err(on_attempts())?;
        self.saved.attempts.extend(attempts.into_iter().map(|attempt| (id(&attempt), attempt)));
        Ok(())
    }

    /// Keeps scores, in place of those that are there.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep_scores(&mut self, scores: Vec<(AttemptId, Score)>) -> Result<(), StoreError> {
        let on_scores = || on_file("write", &self.path.join(SCORES));
        for ((problem, sample), score) in &scores {
            let (problem, score) = (problem.clone(), score.clone());
            let line = Scored { problem, sample: *sample, score };
            self.scores.push(&line).map_err(on_scores())?;
        }
        self.scores.commit().map_err(on_scores())?;
        self.saved.scores.extend(scores);
        Ok(())
    }

    /// Writes the result, whole or not at all.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write_result(&mut self, result: EvalResult) -> Result<(), StoreError> {
        files::write_json(&self.path.join(RESULT), &result)?;
        replace_file(&self.path.join(RESULT_TEXT), result.to_markdown().as_bytes())?;
        self.saved.result = Some(result);
        Ok(())
    }
}

/// Records of a log's whole frames; none where there is no file.
fn records<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, StoreError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    Ok(log::read(path).map_err(on_file("read", path))?.records)
}
