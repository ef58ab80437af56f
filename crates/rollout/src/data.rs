//! Tasks from files: what is read, what is left out, and why.
//!
//! Invariant: each row ends in exactly one place of [`Counts`]. A row that can't be a task stops
//! everything, with file, row and field, before any work; nothing is left out but by a setting.

mod contamination;
mod reader;

use std::collections::HashSet;
use std::path::PathBuf;

use rocstar_record::draw::{Key, Purpose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rows::{self, Columns, Place, RowsError};
use crate::task::Task;
use reader::Reader;

/// Where tasks come from, and which of them are used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaskOptions {
    /// Files of `.jsonl` or `.parquet`.
    pub paths: Vec<PathBuf>,
    /// Which fields a row has; the keys below say otherwise, one by one.
    pub layout: Layout,
    /// Field with the problem: a text, or a list of messages. `a.b` is field `b` within `a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem_field: Option<String>,
    /// Field with the right answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_field: Option<String>,
    /// Field with the task's identity; where a row has none, or where this is empty, its file and
    /// number are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_field: Option<String>,
    /// A system message for problems that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Only rows whose fields have certain values; all of these must hold.
    pub only: Vec<Only>,
    /// Only rows whose answer is an integer, as the paper has it.
    pub integer_answers_only: bool,
    /// Evaluation sets: a task that shares eight words in a row with a problem of theirs is left out.
    pub decontaminate: Vec<PathBuf>,
    /// Use at most this many tasks, from the first on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Longest prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<usize>,
    /// What happens to a task with a longer one.
    pub longer_prompts: Longer,
}

/// Names of a row's fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `problem`, `answer`, `id`.
    #[default]
    Plain,
    /// verl's: `prompt`, a list of messages, `reward_model.ground_truth`, `extra_info.index`.
    Verl,
}

/// A condition on a field of a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Only {
    /// The field; `a.b` is field `b` within `a`.
    pub field: String,
    /// It has one of these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Vec<Value>>,
    /// It is a number, at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// It is a number, at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// What happens to a task whose prompt is too long. Each is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Longer {
    /// The run does not start.
    #[default]
    Error,
    /// It is left out.
    Drop,
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Rows that were read.
    pub rows: usize,
    /// Tasks that they gave.
    pub used: usize,
    /// Left out by a condition of `only`.
    pub filtered: usize,
    /// Left out since their answer is no integer.
    pub not_integer: usize,
    /// Left out since another task has the same problem.
    pub duplicates: usize,
    /// Left out since an evaluation set has the problem too.
    pub contaminated: usize,
    /// Left out since their prompt is too long.
    pub too_long: usize,
}

/// Tasks, each with its place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tasks {
    /// The tasks, in the files' order.
    pub tasks: Vec<Task>,
    /// Where each was read.
    pub places: Vec<Place>,
    /// What became of the rows.
    pub counts: Counts,
}

/// Why tasks can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The settings.
    #[error("the data's settings can't work: {}", .0.join("; "))]
    Options(Vec<String>),
    /// A file.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A row that is no task.
    #[error("{place}: {field}: {problem}")]
    Row {
        /// Where.
        place: Place,
        /// Which field.
        field: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// No task is left.
    #[error("there are no tasks: {0}")]
    Nothing(String),
}

/// Reads the tasks.
///
/// # Errors
/// A file can't be read, a row is no task, or no row is left.
pub fn read(options: &TaskOptions) -> Result<Tasks, DataError> {
    let problems = options.validate();
    if !problems.is_empty() {
        return Err(DataError::Options(problems));
    }
    let mut reader = Reader::new(options)?;
    for path in &options.paths {
        rows::each(path, Columns::All, &mut |place, row| reader.take(place, row))?;
    }
    let Reader { tasks, .. } = reader;
    if tasks.tasks.is_empty() {
        return Err(DataError::Nothing(tasks.counts.to_string()));
    }
    Ok(tasks)
}

impl TaskOptions {
    /// Every problem of the values; none if they can work. Each names its key in backquotes first.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut unless = |good: bool, problem: &str| {
            if !good {
                problems.push(problem.to_owned());
            }
        };
        unless(!self.paths.is_empty(), "`paths` is missing: files of `.jsonl` or `.parquet`");
        unless(self.limit != Some(0), "`limit` must be at least 1");
        unless(self.prompt_tokens != Some(0), "`prompt_tokens` must be at least 1");
        unless(self.problem_field.as_deref() != Some(""), "`problem_field` is empty");
        unless(self.answer_field.as_deref() != Some(""), "`answer_field` is empty");
        for only in &self.only {
            unless(!only.field.is_empty(), "`only.field` is missing");
            let any = only.equals.is_some() || only.at_least.is_some() || only.at_most.is_some();
            unless(any, "`only.equals` is missing (or `at_least`, or `at_most`)");
        }
        problems
    }
}

impl Tasks {
    /// Sees to it that no prompt is longer than the options say. `prompt_tokens` measures.
    ///
    /// # Errors
    /// A prompt that is too long where that is an error, or a measure that fails.
    pub fn fit<E: From<DataError>>(
        &mut self,
        options: &TaskOptions,
        prompt_tokens: &dyn Fn(&Task) -> Result<usize, E>,
    ) -> Result<(), E> {
        let Some(most) = options.prompt_tokens else { return Ok(()) };
        let all = std::mem::take(&mut self.tasks).into_iter().zip(std::mem::take(&mut self.places));
        for (task, place) in all {
            let tokens = prompt_tokens(&task)?;
            if tokens <= most {
                self.tasks.push(task);
                self.places.push(place);
            } else if options.longer_prompts == Longer::Drop {
                self.counts.too_long += 1;
                self.counts.used -= 1;
            } else {
                let field = options.names().problem.to_owned();
                let problem = format!(
                    "makes a prompt of {tokens} tokens, `prompt_tokens` is {most}: raise it, or set \
                     `longer_prompts = \"drop\"`"
                );
                return Err(DataError::Row { place, field, problem }.into());
            }
        }
        if self.tasks.is_empty() {
            return Err(DataError::Nothing(self.counts.to_string()).into());
        }
        Ok(())
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "of {} rows {} are used", self.rows, self.used)?;
        let reasons = [
            (self.filtered, "are left out by `only`"),
            (self.not_integer, "have an answer that is no integer"),
            (self.duplicates, "have a problem that is there already"),
            (self.contaminated, "share eight words in a row with an evaluation set"),
            (self.too_long, "have a prompt that is too long"),
        ];
        reasons
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, reason)| write!(formatter, ", {count} {reason}"))
    }
}

/// How many tasks are held out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HeldOut {
    /// This many, or all that there are.
    Tasks(usize),
    /// This share of them, from 0 to 1, rounded down.
    Share(f64),
}

/// Divides tasks into those to learn from and those held out, drawn by the seed. Both keep their
/// order.
pub fn split(tasks: Vec<Task>, held_out: HeldOut, seed: u64) -> (Vec<Task>, Vec<Task>) {
    let count = match held_out {
        HeldOut::Tasks(count) => count.min(tasks.len()),
        HeldOut::Share(share) => (tasks.len() as f64 * share.clamp(0.0, 1.0)) as usize,
    };
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    Key::new(seed, Purpose::Evaluation).at(0).shuffle(&mut order);
    let chosen: HashSet<usize> = order.into_iter().take(count).collect();
    let (held, learnt): (Vec<_>, Vec<_>) =
        tasks.into_iter().enumerate().partition(|(index, _)| chosen.contains(index));
    let plain = |numbered: Vec<(usize, Task)>| numbered.into_iter().map(|(_, task)| task).collect();
    (plain(learnt), plain(held))
}
