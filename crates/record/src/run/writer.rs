//! Writing a run down.
//!
//! Invariant: a failed write leaves what was there before. What of it survives a power cut: files
//! that are written at once, and metrics up to the last [`RunDirectory::sync_metrics`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{Error, on_file};
use super::files::{Lines, PARTIAL, names, remove_if_there, sync_folder, write_whole};
use super::sandbox::SandboxFile;
use super::{
    CHECKPOINTS, CONFIG, ENVIRONMENT, EPISODES, EPISODES_END, EVALUATION_END, EVALUATIONS, EVENTS,
    LOCK, METRICS, SCHEMA_VERSION, TENSORBOARD, TOKENIZER, check_schema, episodes_path,
    evaluation_path, is_plain, step_of, steps, with_ending,
};
use crate::episode::{Evaluated, Group};
use crate::log;

/// How often the lock is tried, and the pause between.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The directory of a run, locked for this process until it is dropped.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    metrics: Lines,
    events: Lines,
    /// Holds the lock.
    _lock: File,
}

impl RunDirectory {
    /// Begins a run at `path`, which must not hold one; `config` is the text of its recipe.
    ///
    /// # Errors
    /// There is a run already, another process works on it, or the directory can't be written.
    pub fn create(path: &Path, config: &str) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(on_file("make", path))?;
        let lock = lock(path)?;
        // Checkpoints without a recipe are a run that lost it, not nothing.
        let has_checkpoints = !steps(&path.join(CHECKPOINTS), "")?.is_empty();
        if path.join(CONFIG).exists() || has_checkpoints {
            return Err(Error::Exists(path.to_owned()));
        }
        // What a start that was ended before `config.toml` left.
        for name in [METRICS, EVENTS] {
            remove_if_there(&path.join(name))?;
        }
        write_environment(path, &json!({}))?;
        write_whole(&path.join(CONFIG), |file| file.write_all(config.as_bytes()))?;
        Self::with_lock(path, lock)
    }

    /// Opens the directory of a run to go on with.
    ///
    /// # Errors
    /// There is no run, another process works on it, or a newer rocstar wrote it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.join(CONFIG).exists() {
            return Err(Error::NoRun(path.to_owned()));
        }
        let lock = lock(path)?;
        check_schema(path)?;
        Self::with_lock(path, lock)
    }

    fn with_lock(path: &Path, lock: File) -> Result<Self, Error> {
        let metrics = Lines::open(path.join(METRICS))?;
        let mut events = Lines::open(path.join(EVENTS))?;
        events.mend()?;
        for name in [CHECKPOINTS, EPISODES] {
            let folder = path.join(name);
            fs::create_dir_all(&folder).map_err(on_file("make", &folder))?;
        }
        sync_folder(path)?;
        Ok(Self { path: path.to_owned(), metrics, events, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where checkpoints are; the trainer's own.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Where TensorBoard's event files are; made by who writes them.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join(TENSORBOARD)
    }

    /// Where the state of the code environment is told.
    pub fn sandbox_file(&self) -> SandboxFile {
        SandboxFile::of(&self.path)
    }

    /// Where the tokenizer's files are; made by who writes them.
    pub fn tokenizer(&self) -> PathBuf {
        self.path.join(TOKENIZER)
    }

    /// The text of the recipe that the run began with.
    ///
    /// # Errors
    /// It can't be read.
    pub fn config(&self) -> Result<String, Error> {
        let path = self.path.join(CONFIG);
        fs::read_to_string(&path).map_err(on_file("read", &path))
    }

    /// Writes where and with what the run was started: an object, to which the layout's version is
    /// added.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write_environment(&self, environment: &Value) -> Result<(), Error> {
        write_environment(&self.path, environment)
    }

    /// Adds a line to the metrics. What is no finite number becomes `null` in it.
    ///
    /// # Errors
    /// The file can't be written; it then is as it was.
    pub fn metric(&mut self, line: &impl Serialize) -> Result<(), Error> {
        self.metrics.push(line)
    }

    /// Sees to it that the metrics are on the disk; says how many bytes they are.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sync_metrics(&self) -> Result<u64, Error> {
        self.metrics.sync()?;
        Ok(self.metrics.bytes())
    }

    /// Adds a line to the events: `event`, the time, and what else is told of it.
    ///
    /// # Errors
    /// The file can't be written; it then is as it was.
    pub fn event(&mut self, event: &str, details: Value) -> Result<(), Error> {
        let mut line = json!({ "event": event, "unix_ms": unix_ms() });
        if let (Value::Object(line), Value::Object(details)) = (&mut line, details) {
            line.extend(details);
        }
        self.events.push(&line)
    }

    /// Writes the episodes of a step, all groups in the order given: the file is whole or absent,
    /// and replaces one that is there. Gives its size in bytes.
    ///
    /// # Errors
    /// A group is of another step or its parts don't fit, or the file can't be written.
    pub fn write_episodes(&self, step: u64, groups: &[Group]) -> Result<u64, Error> {
        groups.iter().try_for_each(|group| check(step, group))?;
        let mut bytes = 0;
        write_whole(&episodes_path(&self.path, step), |file| {
            bytes = log::write(file, groups)?;
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes an evaluation of `suite` after `step`: its numbers, and its tasks in the order given.
    /// Each file is whole or absent; where the numbers are there, so are the tasks.
    ///
    /// # Errors
    /// The suite's name can't be a folder's, the parts of a task don't fit, or a file can't be
    /// written.
    pub fn write_evaluation(
        &self,
        suite: &str,
        step: u64,
        numbers: &impl Serialize,
        tasks: &[Evaluated],
    ) -> Result<(), Error> {
        let path = evaluation_path(&self.path, suite, step)?;
        for evaluated in tasks {
            let task = || evaluated.task.0.clone();
            evaluated.check().map_err(|source| Error::Group { step, task: task(), source })?;
        }
        let folder = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder).map_err(on_file("make", folder))?;
        write_whole(&with_ending(&path, EPISODES_END), |file| log::write(file, tasks).map(drop))?;
        write_whole(&with_ending(&path, EVALUATION_END), |file| {
            let mut text = serde_json::to_string_pretty(numbers)?;
            text.push('\n');
            file.write_all(text.as_bytes())
        })
    }

    /// Cuts the run back to where it was after `step`, when the metrics had `metrics_bytes`:
    /// forgets metrics, episodes and evaluations of later steps, and what a process that was ended
    /// left half written. Checkpoints are the trainer's to remove.
    ///
    /// # Errors
    /// The metrics are shorter than that, so somebody changed them, and nothing is removed then; or
    /// something can't be removed.
    pub fn cut_back(&mut self, step: u64, metrics_bytes: u64) -> Result<(), Error> {
        let found_bytes = self.metrics.bytes();
        if found_bytes < metrics_bytes {
            let (path, expected_bytes) = (self.metrics.path().to_owned(), metrics_bytes);
            return Err(Error::MetricsChanged { path, found_bytes, expected_bytes });
        }
        self.metrics.cut(metrics_bytes)?;
        remove_later(&self.path.join(EPISODES), EPISODES_END, step)?;
        let evaluations = self.path.join(EVALUATIONS);
        for suite in names(&evaluations)?.iter().filter(|name| is_plain(name)) {
            for ending in [EVALUATION_END, EPISODES_END] {
                remove_later(&evaluations.join(suite), ending, step)?;
            }
        }
        Ok(())
    }
}

/// Removes files of steps after `step`, and those that are half written.
fn remove_later(folder: &Path, ending: &str, step: u64) -> Result<(), Error> {
    for name in names(folder)? {
        let is_later = step_of(&name, ending).is_some_and(|found| found > step);
        if is_later || name.ends_with(PARTIAL) {
            remove_if_there(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Whether the group can be among the episodes of `step`, and be read again.
fn check(step: u64, group: &Group) -> Result<(), Error> {
    let task = group.task.0.clone();
    if group.step != step {
        return Err(Error::OtherStep { step, found: group.step, task });
    }
    group.check().map_err(|source| Error::Group { step, task, source })
}

fn write_environment(path: &Path, environment: &Value) -> Result<(), Error> {
    let mut all = Map::new();
    all.insert("schema".to_owned(), json!(SCHEMA_VERSION));
    if let Value::Object(environment) = environment {
        let given = environment.iter().filter(|(key, _)| *key != "schema");
        all.extend(given.map(|(key, value)| (key.clone(), value.clone())));
    }
    let text = format!("{:#}\n", Value::Object(all));
    write_whole(&path.join(ENVIRONMENT), |file| file.write_all(text.as_bytes()))
}

/// Takes the run's lock. Who only looks at the run may hold it for an instant, so that one refusal
/// means nothing yet.
fn lock(path: &Path) -> Result<File, Error> {
    let file_path = path.join(LOCK);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&file_path).map_err(on_file("open", &file_path))?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let owner = lock_owner(&mut file);
                return Err(Error::Locked { path: path.to_owned(), owner });
            }
            Err(TryLockError::Error(source)) => return Err(on_file("lock", &file_path)(source)),
        }
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(on_file("write", &file_path))?;
    Ok(file)
}

/// The process that holds the lock; it only helps messages.
pub(super) fn lock_owner(file: &mut File) -> Option<u32> {
    let mut owner = String::new();
    file.take(20).read_to_string(&mut owner).ok()?;
    owner.trim().parse().ok()
}

/// Milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn begun() -> (tempfile::TempDir, RunDirectory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(&folder.path().join("one"), "seed = 1\n").unwrap();
        (folder, directory)
    }

    fn events(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path.join(EVENTS)).unwrap();
        let event = |line| serde_json::from_str::<Value>(line).unwrap()["event"].to_string();
        text.lines().map(event).collect()
    }

    #[test]
    fn a_run_is_begun_once_and_by_one_process() {
        let (folder, directory) = begun();
        assert_eq!(directory.config().unwrap(), "seed = 1\n");
        let path = directory.path().to_owned();
        let error = RunDirectory::open(&path).unwrap_err();
        let owner = std::process::id();
        assert!(matches!(&error, Error::Locked { owner: Some(pid), .. } if *pid == owner));
        drop(directory);
        assert!(matches!(RunDirectory::create(&path, ""), Err(Error::Exists(_))));
        RunDirectory::open(&path).unwrap();
        assert!(matches!(RunDirectory::open(folder.path()), Err(Error::NoRun(_))));
        fs::remove_file(path.join(CONFIG)).unwrap();
        fs::create_dir(path.join("checkpoints/step_000003")).unwrap();
        assert!(matches!(RunDirectory::create(&path, ""), Err(Error::Exists(_))));
    }

    #[test]
    fn a_newer_layout_is_left_alone() {
        let (_folder, directory) = begun();
        let path = directory.path().to_owned();
        directory.write_environment(&json!({"host": "here", "schema": 7})).unwrap();
        drop(directory);
        let environment = fs::read_to_string(path.join(ENVIRONMENT)).unwrap();
        assert_eq!(environment, "{\n  \"schema\": 1,\n  \"host\": \"here\"\n}\n");
        RunDirectory::open(&path).unwrap();
        fs::write(path.join(ENVIRONMENT), "{\"schema\": 2}").unwrap();
        let error = RunDirectory::open(&path).unwrap_err();
        assert!(matches!(error, Error::NewerSchema { found: 2, known: 1, .. }), "{error}");
    }

    #[test]
    fn logs_are_cut_back_and_mended() {
        let (_folder, mut directory) = begun();
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
        directory.cut_back(1, bytes).unwrap();
        directory.metric(&json!({"step": 3})).unwrap();
        directory.event("again", json!({})).unwrap();
        let metrics = fs::read_to_string(path.join(METRICS)).unwrap();
        assert_eq!(metrics, "{\"step\":1}\n{\"step\":3}\n");
        assert_eq!(events(&path), ["\"saved\"", "\"again\""]);
        assert!(matches!(directory.cut_back(1, 1000), Err(Error::MetricsChanged { .. })));
    }

    /// The disk is full: `/dev/full` refuses every write.
    #[test]
    fn a_full_disk_costs_a_line_and_none_before_it() {
        if !Path::new("/dev/full").exists() {
            return println!("SKIP there is no /dev/full");
        }
        let (_folder, mut directory) = begun();
        let path = directory.path().to_owned();
        directory.metric(&json!({"step": 1})).unwrap();
        directory.event("saved", json!({})).unwrap();
        let full = || Lines::open("/dev/full".into()).unwrap();
        let metrics = std::mem::replace(&mut directory.metrics, full());
        let events_file = std::mem::replace(&mut directory.events, full());
        let metric = directory.metric(&json!({"step": 2})).unwrap_err();
        let event = directory.event("lost", json!({})).unwrap_err();
        for error in [metric, event] {
            let Error::File { action: "write", source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        }
        // There is room again.
        (directory.metrics, directory.events) = (metrics, events_file);
        directory.metric(&json!({"step": 2})).unwrap();
        directory.event("again", json!({})).unwrap();
        let metrics = fs::read_to_string(path.join(METRICS)).unwrap();
        assert_eq!(metrics, "{\"step\":1}\n{\"step\":2}\n");
        assert_eq!(events(&path), ["\"saved\"", "\"again\""]);
    }

    fn group(step: u64) -> Group {
        Group {
            schema: crate::episode::SCHEMA_VERSION,
            task: crate::episode::TaskId("sum".to_owned()),
            answer: "8".to_owned(),
            step,
            verdict: crate::episode::GroupVerdict::Dropped { why: "group_too_small".to_owned() },
            kept: Vec::new(),
            dropped: Vec::new(),
            lost: Vec::new(),
        }
    }

    #[test]
    fn files_of_later_steps_are_cut_off() {
        let (_folder, mut directory) = begun();
        for step in 1..=3 {
            directory.write_episodes(step, &[group(step), group(step)]).unwrap();
            directory.write_evaluation("aime-2024", step, &json!({}), &[]).unwrap();
        }
        let path = directory.path().to_owned();
        fs::write(path.join("episodes/step_000004.jsonl.zst.partial"), "half").unwrap();
        fs::write(path.join("episodes/notes.txt"), "a person's").unwrap();
        directory.cut_back(1, 0).unwrap();
        let episodes = path.join(EPISODES);
        assert_eq!(names(&episodes).unwrap(), ["notes.txt", "step_000001.jsonl.zst"]);
        let evaluations = names(&path.join("eval/aime-2024")).unwrap();
        assert_eq!(evaluations, ["step_000001.json", "step_000001.jsonl.zst"]);
        let read = log::read::<Group>(&episodes_path(&path, 1)).unwrap();
        assert_eq!(read.records, [group(1), group(1)]);
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let (_folder, directory) = begun();
        directory.write_episodes(1, &[group(1)]).unwrap();
        let error = directory.write_episodes(1, &[group(2)]).unwrap_err();
        assert!(matches!(error, Error::OtherStep { step: 1, found: 2, .. }), "{error}");
        let newer = Group { schema: 99, ..group(1) };
        assert!(matches!(directory.write_episodes(1, &[newer]), Err(Error::Group { .. })));
        assert_eq!(names(&directory.path().join(EPISODES)).unwrap(), ["step_000001.jsonl.zst"]);
        let error = directory.write_evaluation("../aime", 1, &json!({}), &[]).unwrap_err();
        assert!(matches!(error, Error::SuiteName(name) if name == "../aime"));
    }
}
