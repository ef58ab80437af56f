//! The directory of a run: what it began with, its metrics and events, and who works on it.
//!
//! Invariant: one process at a time works on a run (a lock that the system gives back when the
//! process ends, however it ends), and every file is whole or absent: small files are renamed into
//! place, logs grow by whole lines and are cut back to their checkpoint when a run goes on.
//!
//! `config.toml` the resolved recipe; `env.json` where and with what it was started; `metrics.jsonl`
//! a line for each step and evaluation, the same for the same recipe except for times;
//! `events.jsonl` what happened to the run; `checkpoints/`, see [`crate::checkpoint`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use crate::checkpoint;
use crate::error::{Error, on_file};
use crate::recipe::Recipe;

const CONFIG: &str = "config.toml";
const ENVIRONMENT: &str = "env.json";
const METRICS: &str = "metrics.jsonl";
const EVENTS: &str = "events.jsonl";
const LOCK: &str = "lock";

/// The directory of a run, locked for this process until it is dropped.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    metrics: File,
    metrics_bytes: u64,
    events: File,
    /// Holds the lock.
    _lock: File,
}

impl RunDirectory {
    /// Begins a run: its directory must not hold one.
    ///
    /// # Errors
    /// There is a run already, another process works on it, or the directory can't be written.
    pub(crate) fn create(recipe: &Recipe) -> Result<Self, Error> {
        let path = recipe.run.folder.join(&recipe.run.name);
        fs::create_dir_all(&path).map_err(on_file("make", &path))?;
        let lock = lock(&path)?;
        // Checkpoints without a recipe are a run that lost it, not nothing.
        let checkpoints = path.join("checkpoints");
        let has_checkpoints = checkpoints.exists() && !checkpoint::list(&checkpoints)?.is_empty();
        if path.join(CONFIG).exists() || has_checkpoints {
            return Err(Error::RunExists(path));
        }
        // What a start that was ended before `config.toml` left.
        for name in [METRICS, EVENTS] {
            remove_if_there(&path.join(name))?;
        }
        write_whole(&path.join(CONFIG), recipe.to_toml()?.as_bytes())?;
        Self::with_lock(path, lock)
    }

    /// Opens the directory of a run to go on with.
    ///
    /// # Errors
    /// There is no run, or another process works on it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if !path.join(CONFIG).exists() {
            return Err(Error::NoRun(path.to_owned()));
        }
        let lock = lock(path)?;
        Self::with_lock(path.to_owned(), lock)
    }

    fn with_lock(path: PathBuf, lock: File) -> Result<Self, Error> {
        let open = |name| {
            let path = path.join(name);
            OpenOptions::new().create(true).append(true).open(&path).map_err(on_file("open", &path))
        };
        let (metrics, events) = (open(METRICS)?, open(EVENTS)?);
        let checkpoints = path.join("checkpoints");
        fs::create_dir_all(&checkpoints).map_err(on_file("make", &checkpoints))?;
        let metrics_bytes = length(&metrics, &path.join(METRICS))?;
        let mut directory = Self { path, metrics, metrics_bytes, events, _lock: lock };
        directory.mend_events()?;
        Ok(directory)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where checkpoints are.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The recipe that the run began with.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn recipe(&self) -> Result<Recipe, Error> {
        let path = self.path.join(CONFIG);
        let text = fs::read_to_string(&path).map_err(on_file("read", &path))?;
        Ok(Recipe::from_toml(&text).map_err(crate::recipe::RecipeError::from)?)
    }

    /// Writes where and with what the run was started.
    ///
    /// # Errors
    /// The directory can't be written.
    pub(crate) fn write_environment(&self, environment: &Value) -> Result<(), Error> {
        write_whole(&self.path.join(ENVIRONMENT), format!("{environment:#}\n").as_bytes())
    }

    /// Adds a line to the metrics.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn metric(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let path = self.path.join(METRICS);
        self.metrics_bytes += append(&mut self.metrics, &path, line)?;
        Ok(())
    }

    /// Sees to it that the metrics are on the disk; says how many bytes they are.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn sync_metrics(&self) -> Result<u64, Error> {
        self.metrics.sync_data().map_err(on_file("write", &self.path.join(METRICS)))?;
        Ok(self.metrics_bytes)
    }

    /// Cuts the metrics back to what they were at a checkpoint: lines of later steps, and a line
    /// that was torn when the process was killed.
    ///
    /// # Errors
    /// The file is shorter than that, so somebody changed it, or can't be written.
    pub(crate) fn cut_metrics(&mut self, bytes: u64) -> Result<(), Error> {
        let path = self.path.join(METRICS);
        if self.metrics_bytes < bytes {
            let (found_bytes, expected_bytes) = (self.metrics_bytes, bytes);
            return Err(Error::MetricsChanged { path, found_bytes, expected_bytes });
        }
        self.metrics.set_len(bytes).map_err(on_file("cut", &path))?;
        self.metrics_bytes = bytes;
        Ok(())
    }

    /// Adds a line to the events: `event`, the time, and what else is told of it.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn event(&mut self, event: &str, details: Value) -> Result<(), Error> {
        let mut line = json!({ "event": event, "unix_ms": unix_ms() });
        if let (Value::Object(line), Value::Object(details)) = (&mut line, details) {
            line.extend(details);
        }
        append(&mut self.events, &self.path.join(EVENTS), &line)?;
        Ok(())
    }

    /// A torn last line of the events is ended, so that the next line stands alone.
    fn mend_events(&mut self) -> Result<(), Error> {
        let path = self.path.join(EVENTS);
        let text = fs::read(&path).map_err(on_file("read", &path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        self.events.set_len(whole as u64).map_err(on_file("cut", &path))
    }
}

/// Milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn lock(path: &Path) -> Result<File, Error> {
    let file_path = path.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file_path)
        .map_err(on_file("open", &file_path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // Who it is only helps the message.
            let _ = file.read_to_string(&mut owner);
            return Err(Error::Locked { path: path.to_owned(), owner: owner.trim().parse().ok() });
        }
        Err(TryLockError::Error(source)) => return Err(on_file("lock", &file_path)(source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(on_file("write", &file_path))?;
    Ok(file)
}

fn length(file: &File, path: &Path) -> Result<u64, Error> {
    Ok(file.metadata().map_err(on_file("read", path))?.len())
}

/// One write a line, so that a kill tears at most the last.
fn append(file: &mut File, path: &Path, line: &impl Serialize) -> Result<u64, Error> {
    let mut bytes = serde_json::to_vec(line)
        .map_err(|error| on_file("write", path)(std::io::Error::other(error)))?;
    bytes.push(b'\n');
    file.write_all(&bytes).map_err(on_file("write", path))?;
    Ok(bytes.len() as u64)
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(on_file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Writes a file under another name, to the disk, and renames it into place.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let partial = path.with_extension("partial");
    let write = || {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(on_file("write", path))?;
    sync_folder(path.parent().unwrap_or_else(|| Path::new(".")))
}

/// Sees to it that the names in a folder are on the disk.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(on_file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(folder: &Path) -> Recipe {
        let mut recipe = Recipe::default();
        recipe.run.folder = folder.to_owned();
        recipe.run.name = "one".to_owned();
        recipe
    }

    #[test]
    fn a_run_is_begun_once_and_by_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = recipe(folder.path());
        let directory = RunDirectory::create(&recipe).unwrap();
        assert_eq!(directory.recipe().unwrap(), recipe);
        let path = directory.path().to_owned();
        let error = RunDirectory::open(&path).unwrap_err();
        let owner = std::process::id();
        assert!(matches!(&error, Error::Locked { owner: Some(pid), .. } if *pid == owner));
        drop(directory);
        assert!(matches!(RunDirectory::create(&recipe), Err(Error::RunExists(_))));
        RunDirectory::open(&path).unwrap();
        assert!(matches!(RunDirectory::open(folder.path()), Err(Error::NoRun(_))));
    }

    #[test]
    fn logs_are_cut_back_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::create(&recipe(folder.path())).unwrap();
        directory.metric(&json!({"step": 1})).unwrap();
        let bytes = directory.sync_metrics().unwrap();
        directory.metric(&json!({"step": 2})).unwrap();
        directory.event("saved", json!({"step": 1})).unwrap();
        let path = directory.path().to_owned();
        drop(directory);
        for name in [METRICS, EVENTS] {
            let mut file = OpenOptions::new().append(true).open(path.join(name)).unwrap();
            file.write_all(b"{\"torn").unwrap();
        }
        let mut directory = RunDirectory::open(&path).unwrap();
        directory.cut_metrics(bytes).unwrap();
        directory.metric(&json!({"step": 3})).unwrap();
        directory.event("again", json!({})).unwrap();
        let metrics = fs::read_to_string(path.join(METRICS)).unwrap();
        assert_eq!(metrics, "{\"step\":1}\n{\"step\":3}\n");
        let events = fs::read_to_string(path.join(EVENTS)).unwrap();
        let names: Vec<String> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].to_string())
            .collect();
        assert_eq!(names, ["\"saved\"", "\"again\""]);
        assert!(matches!(directory.cut_metrics(1000), Err(Error::MetricsChanged { .. })));
    }
}
