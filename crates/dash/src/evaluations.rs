//! A run's evaluations: suites by step, and which problems each step solved.
//!
//! Invariant: an evaluation that can't be read costs only itself, and is told.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::run::Run;
use crate::sketch::{EpisodeSketch, EvaluatedSketch};

/// Steps of a suite that the matrix of its problems shows, the newest and the first.
const MATRIX_STEPS: usize = 8;
/// Problems of a matrix.
const MOST_TASKS: usize = 5_000;

/// A suite with its evaluations.
#[derive(Debug, Serialize)]
pub struct Suite {
    name: String,
    evaluations: Vec<Evaluation>,
}

/// An evaluation in numbers.
#[derive(Debug, Serialize)]
struct Evaluation {
    step: u64,
    numbers: BTreeMap<String, f64>,
}

/// All suites, and what can't be read of them.
///
/// # Errors
/// The folder of evaluations can't be read.
pub fn suites(run: &Run) -> Result<(Vec<Suite>, Vec<String>), Error> {
    let mut notices = Vec::new();
    let mut suites = Vec::new();
    for (name, steps) in run.reader().evaluations()? {
        let mut evaluations = Vec::new();
        for step in steps {
            match run.reader().evaluation(&name, step) {
                Ok(Value::Object(all)) => {
                    let numbers = all.into_iter();
                    let numbers = numbers.filter_map(|(name, it)| Some((name, it.as_f64()?)));
                    evaluations.push(Evaluation { step, numbers: numbers.collect() });
                }
                Ok(_) => notices.push(format!("eval/{name}: step {step}: no object")),
                Err(error) => notices.push(run.without_path(&error.to_string())),
            }
        }
        suites.push(Suite { name, evaluations });
    }
    Ok((suites, notices))
}

/// Which problems of a suite were solved at which step.
#[derive(Debug, Serialize)]
pub struct Matrix {
    steps: Vec<u64>,
    tasks: Vec<Row>,
    notices: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Row {
    task: String,
    answer: String,
    problem: String,
    /// For each step: its number within the evaluation, right answers, samples.
    cells: Vec<Option<(usize, usize, usize)>>,
}

/// The matrix of `suite`: the first evaluation and the newest.
///
/// # Errors
/// There is no such suite.
pub fn matrix(run: &Run, suite: &str) -> Result<Matrix, Error> {
    let all = run.reader().evaluations()?;
    let (_, steps) = all
        .into_iter()
        .find(|(name, _)| name == suite)
        .ok_or_else(|| Error::missing(format!("suite `{suite}` in run `{}`", run.name())))?;
    let newest = steps.len().saturating_sub(MATRIX_STEPS - 1).max(1).min(steps.len());
    let steps: Vec<u64> =
        steps.iter().take(1).chain(steps.get(newest..).unwrap_or_default()).copied().collect();
    let mut matrix = Matrix { steps, tasks: Vec::new(), notices: Vec::new() };
    let mut rows = BTreeMap::new();
    for column in 0..matrix.steps.len() {
        if let Err(error) = matrix.add_step(run, suite, column, &mut rows) {
            matrix.notices.push(run.without_path(&error.to_string()));
        }
    }
    matrix.tasks = rows.into_values().collect();
    Ok(matrix)
}

impl Matrix {
    /// Reads the evaluation of a column into `rows`, which go by the task's name.
    fn add_step(
        &mut self,
        run: &Run,
        suite: &str,
        column: usize,
        rows: &mut BTreeMap<String, Row>,
    ) -> Result<(), Error> {
        let vocabulary = run.vocabulary();
        let records = run.evaluated::<EvaluatedSketch>(suite, self.steps[column])?;
        for (number, record) in records.enumerate() {
            let task = match record {
                Ok(mut task) => {
                    task.shorten();
                    task
                }
                Err(error) => {
                    self.notices.push(error.to_string());
                    continue;
                }
            };
            if rows.len() >= MOST_TASKS && !rows.contains_key(&task.task.0) {
                continue;
            }
            let row = rows.entry(task.task.0.clone()).or_insert_with(|| {
                let problem = task.episodes.first().map(EpisodeSketch::problem).unwrap_or_default();
                Row {
                    task: task.task.0.clone(),
                    answer: task.answer.clone(),
                    problem: vocabulary.text(problem).trim().chars().take(160).collect(),
                    cells: vec![None; self.steps.len()],
                }
            });
            let right = task.episodes.iter().filter(|episode| episode.is_right()).count();
            row.cells[column] = Some((number, right, task.episodes.len()));
        }
        Ok(())
    }
}
