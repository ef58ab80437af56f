//! A run that is looked at: its reader, and what is kept of it between two looks.
//!
//! Invariant: what is kept is thrown away when the files that it came from are replaced, and is
//! bounded: metrics by [`crate::curves`], groups by [`KEPT_STEPS`] steps.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rocstar_record::run::{Ending, Notes, Reader, State};
use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::curves::Curves;
use crate::recipe::Recipe;
use crate::step::Step;
use crate::survey::Survey;
use crate::vocabulary::Vocabulary;

/// Steps whose groups are kept.
const KEPT_STEPS: usize = 3;
/// The last events that are shown.
const SHOWN_EVENTS: usize = 100;
/// Numbers of a small curve.
const SPARK_POINTS: usize = 48;

/// A run.
#[derive(Debug)]
pub struct Run {
    name: String,
    reader: Reader,
    curves: Mutex<Curves>,
    recipe: Recipe,
    steps: Mutex<VecDeque<(Mark, Arc<Step>)>>,
    vocabulary: Mutex<Option<Arc<Vocabulary>>>,
    survey: Mutex<Survey>,
}

/// Which file a step was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    step: u64,
    bytes: u64,
    written: Option<SystemTime>,
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
        let reader = Reader::open(path)?;
        refuse_links(path)?;
        let recipe = match reader.config() {
            Ok(text) => Recipe::read(&text),
            Err(error) => Recipe { notices: vec![error.to_string()], ..Recipe::default() },
        };
        Ok(Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            reader,
            curves: Mutex::default(),
            recipe,
            steps: Mutex::default(),
            vocabulary: Mutex::default(),
            survey: Mutex::default(),
        })
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
        message.replace(&format!("{}/", self.reader.path().display()), "")
    }

    /// Its metrics, read on to their end.
    ///
    /// # Errors
    /// They can't be read.
    pub fn curves(&self) -> Result<MutexGuard<'_, Curves>, Error> {
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        curves.read_on(&self.reader)?;
        Ok(curves)
    }

    /// What is known of all steps at once; [`Survey::read_on`] makes it more.
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
        let mark = Mark { step, bytes, written };
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

    /// The vocabulary that was saved with the newest weights; none is known before they are saved.
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        let mut kept = self.vocabulary.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vocabulary) = &*kept {
            return Arc::clone(vocabulary);
        }
        match self.read_vocabulary() {
            Some(vocabulary) => Arc::clone(kept.insert(Arc::new(vocabulary))),
            None => Arc::default(),
        }
    }

    fn read_vocabulary(&self) -> Option<Vocabulary> {
        let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|it| it.is_dir());
        let steps = self.reader.checkpoint_steps().ok()?;
        let saved = steps.iter().rev().map(|step| self.reader.checkpoint(*step));
        let folders = std::iter::once(self.reader.tokenizer()).chain(saved);
        let mut folders =
            folders.filter(|folder| is_folder(folder) && folder.parent().is_some_and(is_folder));
        folders.find_map(|folder| Vocabulary::read(&folder.join("tokenizer.json")).ok())
    }

    /// `running`, `finished`, `stopped`, `failed`, `died` or `empty`.
    ///
    /// # Errors
    /// Lock or events can't be read.
    pub fn state(&self) -> Result<&'static str, Error> {
        Ok(match self.reader.state()? {
            State::Empty => "empty",
            State::Running { .. } => "running",
            State::Ended(Ending::Finished) => "finished",
            State::Ended(Ending::Stopped) => "stopped",
            State::Ended(Ending::Failed) => "failed",
            State::Died => "died",
        })
    }

    /// The last events, the newest last, and what of them can't be read.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn events(&self) -> Result<(Vec<Value>, Vec<String>), Error> {
        let (mut events, mut notices) = (VecDeque::new(), Vec::new());
        for line in self.reader.events()? {
            match line {
                Ok(event) => {
                    events.truncate(SHOWN_EVENTS);
                    if events.len() >= SHOWN_EVENTS {
                        events.pop_front();
                    }
                    events.push_back(event);
                }
                Err(notice) if notices.len() < 20 => {
                    notices.push(self.without_path(&notice.to_string()));
                }
                Err(_) => {}
            }
        }
        Ok((events.into(), notices))
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

impl Overview {
    /// A run that can't be opened.
    pub fn unreadable(name: &str, changed: Option<SystemTime>, error: &Error) -> Self {
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
            notices: vec![error.to_string()],
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
