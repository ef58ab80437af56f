//! A run that is looked at: its reader, and what is kept of it between two looks.
//!
//! Invariant: what is kept is thrown away when the files that it came from are replaced, and is
//! bounded: metrics by [`crate::curves`], events by [`Events`], groups by `KEPT_STEPS` steps.

mod events;
mod records;
mod words;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rocstar_record::run::{Ending, Notes, Reader, State};
use serde::Serialize;

use crate::Error;
use crate::curves::Curves;
use crate::recipe::Recipe;
use crate::step::Step;
use crate::survey::Survey;
use crate::vocabulary::Vocabulary;

use words::Words;

pub use events::Events;
pub use records::{View, Views};

/// Steps whose groups are kept.
const KEPT_STEPS: usize = 3;
/// Numbers of a small curve.
const SPARK_POINTS: usize = 48;

/// A run.
#[derive(Debug)]
pub struct Run {
    name: String,
    reader: Reader,
    /// The files that were read when it was opened.
    opened: [Option<FileMark>; 2],
    curves: Mutex<Curves>,
    /// Numbers of the curves when they were last read.
    numbers: AtomicUsize,
    events: Mutex<Events>,
    recipe: Recipe,
    steps: Mutex<VecDeque<(Mark, Arc<Step>)>>,
    words: Mutex<Words>,
    survey: Mutex<Survey>,
}

/// What tells whether a file was replaced: its length, and when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMark {
    bytes: u64,
    written: Option<SystemTime>,
}

impl FileMark {
    /// `None` where there is no file.
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::symlink_metadata(path).ok()?;
        Some(Self { bytes: file.len(), written: file.modified().ok() })
    }
}

/// Which file a step was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    step: u64,
    file: FileMark,
}

/// A run as one of many.
#[derive(Debug, Serialize)]
pub struct Overview {
    /// Its name.
    pub name: String,
    /// `running`, `finished`, `stopped`, `failed`, `died`, `empty` or `unreadable`.
    pub state: &'static str,
    /// Kind of the last stage that has begun: `rl` or `sft`.
    pub kind: String,
    /// Stage of the last step, from 0, and how many there are.
    pub stage: (u64, usize),
    /// The last step.
    pub step: u64,
    /// All steps, where that is known.
    pub steps: Option<u64>,
    /// The newest numbers that matter most.
    pub headline: Vec<(String, f64)>,
    /// The course of the first of them.
    pub spark: Vec<f64>,
    /// When something was last written, in milliseconds since 1970.
    pub changed_ms: Option<u64>,
    /// What a person noted.
    pub notes: Notes,
    /// What can't be read.
    pub notices: Vec<String>,
}

impl Run {
    /// The run at `path`.
    ///
    /// # Errors
    /// There is none, a newer rocstar wrote it, or a folder of it is a link.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let opened = opened_files(path);
        let reader = Reader::open(path)?;
        refuse_links(path)?;
        let recipe = match reader.config() {
            Ok(text) => Recipe::read(&text),
            Err(error) => {
                let notices = vec![from_folder(&error.to_string(), path)];
                Recipe { notices, ..Recipe::default() }
            }
        };
        Ok(Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            reader,
            opened,
            curves: Mutex::default(),
            numbers: AtomicUsize::default(),
            events: Mutex::default(),
            recipe,
            steps: Mutex::default(),
            words: Mutex::default(),
            survey: Mutex::default(),
        })
    }

    /// Whether another run, or a newer rocstar's, may be there by now, which must be opened anew.
    pub(crate) fn is_replaced(&self) -> bool {
        self.opened != opened_files(self.reader.path())
    }

    /// Throws away what takes much memory and can be read again.
    pub(crate) fn rest(&self) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = Words::default();
        self.survey().forget();
    }

    /// Numbers of its curves that are kept.
    pub(crate) fn numbers(&self) -> usize {
        self.numbers.load(Ordering::Relaxed)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads its files.
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// What its recipe says.
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// A message without the path of the run's directory, which whoever looks at it knows.
    pub(crate) fn without_path(&self, message: &str) -> String {
        from_folder(message, self.reader.path())
    }

    /// Its metrics, read on to their end.
    ///
    /// # Errors
    /// They can't be read.
    pub fn curves(&self) -> Result<MutexGuard<'_, Curves>, Error> {
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        curves.read_on(&self.reader)?;
        self.numbers.store(curves.numbers(), Ordering::Relaxed);
        Ok(curves)
    }

    /// What is known of all steps at once; [`crate::survey::read_on`] makes it more.
    pub fn survey(&self) -> MutexGuard<'_, Survey> {
        self.survey.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The groups of a step.
    ///
    /// # Errors
    /// There are none, or they can't be read.
    pub fn step(&self, step: u64) -> Result<Arc<Step>, Error> {
        if !self.reader.episode_steps()?.contains(&step) {
            return Err(Error::missing(format!(
                "step {step} with episodes in run `{}`",
                self.name
            )));
        }
        let (bytes, written) = self.reader.episodes_mark(step)?;
        let mark = Mark { step, file: FileMark { bytes, written } };
        let kept = |steps: &VecDeque<(Mark, Arc<Step>)>| {
            steps.iter().find(|(known, _)| *known == mark).map(|(_, step)| Arc::clone(step))
        };
        if let Some(step) = kept(&self.steps.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(step);
        }
        let read = Arc::new(Step::read(self, step)?);
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|(known, _)| known.step != step);
        steps.truncate(KEPT_STEPS - 1);
        steps.push_front((mark, Arc::clone(&read)));
        Ok(read)
    }

    /// The vocabulary that was saved at the start or with the newest weights; an empty one where none was.
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        self.words().vocabulary()
    }

    /// Why a vocabulary that was saved can't be read.
    pub fn vocabulary_notice(&self) -> Option<String> {
        self.words().notice().map(|notice| self.without_path(notice))
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.read_on(&self.reader);
        words
    }

    /// `running`, `finished`, `stopped`, `failed`, `died` or `empty`.
    ///
    /// # Errors
    /// Lock or events can't be read.
    pub fn state(&self) -> Result<&'static str, Error> {
        let state = match self.reader.running()? {
            Some(running) => running,
            None => self.events()?.state(),
        };
        Ok(match state {
            State::Empty => "empty",
            State::Running { .. } => "running",
            State::Ended(Ending::Finished) => "finished",
            State::Ended(Ending::Stopped) => "stopped",
            State::Ended(Ending::Failed) => "failed",
            State::Died => "died",
        })
    }

    /// What happened, read on to its end.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn events(&self) -> Result<MutexGuard<'_, Events>, Error> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.read_on(&self.reader)?;
        Ok(events)
    }

    /// What can't be read of what happened, and of the vocabulary.
    ///
    /// # Errors
    /// The events can't be opened.
    pub fn notices(&self) -> Result<Vec<String>, Error> {
        let events = self.events()?;
        let all = events.notices().map(|notice| self.without_path(&notice.to_string()));
        Ok(all.chain(self.vocabulary_notice()).collect())
    }

    /// The run as one of many. What can't be read of it is among its notices.
    pub fn overview(&self, changed: Option<SystemTime>) -> Overview {
        let mut notices = self.recipe.notices.clone();
        let mut told = |error: &Error| notices.push(self.without_path(&error.to_string()));
        let state = self.state().unwrap_or_else(|error| {
            told(&error);
            "unreadable"
        });
        let notes = self.reader.notes().map(Option::unwrap_or_default).unwrap_or_else(|error| {
            told(&error.into());
            Notes::default()
        });
        let mut overview = Overview {
            name: self.name.clone(),
            state,
            kind: String::new(),
            stage: (0, self.recipe.stages.len()),
            step: 0,
            steps: self.recipe.steps(),
            headline: Vec::new(),
            spark: Vec::new(),
            changed_ms: changed.and_then(unix_ms),
            notes,
            notices: Vec::new(),
        };
        match self.curves() {
            Ok(curves) => {
                overview.with(&curves);
                notices.extend(curves.notices());
            }
            Err(error) => told(&error),
        }
        overview.notices = notices;
        overview
    }
}

/// What was read of a run when it was opened: its recipe, and the version of its layout.
fn opened_files(run: &Path) -> [Option<FileMark>; 2] {
    ["config.toml", "env.json"].map(|name| FileMark::of(&run.join(name)))
}

/// A directory may come from anywhere, and a link in it may lead anywhere: `episodes` and `eval` must be
/// its own. Files that are links are refused by the reader.
fn refuse_links(run: &Path) -> Result<(), Error> {
    let evaluations = run.join("eval");
    let folders = [run.join("episodes"), evaluations.clone()];
    let is_link =
        |path: &std::path::PathBuf| std::fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let suites = || std::fs::read_dir(evaluations).into_iter().flatten().flatten();
    let mut suites = std::iter::once_with(suites).flatten().map(|entry| entry.path());
    match folders.into_iter().find(is_link).or_else(|| suites.find(is_link)) {
        Some(link) => {
            let name = link.strip_prefix(run).unwrap_or(&link).to_string_lossy().into_owned();
            Err(Error::Link(name))
        }
        None => Ok(()),
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

/// A message with paths as they are from `folder`: where that lies on the machine is nobody's business.
pub(crate) fn from_folder(message: &str, folder: &Path) -> String {
    message.replace(&format!("{}/", folder.display()), "")
}

impl Overview {
    /// A run that can't be opened.
    pub fn unreadable(name: &str, changed: Option<SystemTime>, notice: String) -> Self {
        Self {
            name: name.to_owned(),
            state: "unreadable",
            kind: String::new(),
            stage: (0, 0),
            step: 0,
            steps: None,
            headline: Vec::new(),
            spark: Vec::new(),
            changed_ms: changed.and_then(unix_ms),
            notes: Notes::default(),
            notices: vec![notice],
        }
    }

    fn with(&mut self, curves: &Curves) {
        self.step = curves.last_step().unwrap_or(0);
        let Some(kind) = curves.main_kind() else { return };
        self.kind = kind.split('_').next().unwrap_or(kind).to_owned();
        let Some(rows) = curves.rows(kind) else { return };
        self.stage.0 = rows.last("stage").unwrap_or(0.0) as u64;
        let names: &[&str] = match self.kind.as_str() {
            "rl" => &["accuracy", "reward_mean", "tool_error_share_right", "response_tokens_mean"],
            _ => &["loss", "learning_rate", "tokens_per_s"],
        };
        let numbers = names.iter().filter_map(|name| Some(((*name).to_owned(), rows.last(name)?)));
        self.headline = numbers.collect();
        let held_out = curves.rows("rl_evaluation").and_then(|rows| rows.last("accuracy"));
        self.headline.extend(held_out.map(|value| ("held_out_accuracy".to_owned(), value)));
        self.spark = rows.thinned(names[0], SPARK_POINTS);
    }
}
