//! Questions with choices: a file of comma-separated values as published, or lines of JSON with the
//! same names.

use std::path::Path;
use std::sync::Arc;

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_rollout::rows::Place;
use serde_json::{Map, Value};

use super::files::{self, fault};
use super::known::Found;
use super::{DataPlaces, Known, Read, SuiteError};
use crate::gpqa::{GpqaError, GpqaQuestion};
use crate::problem::{Gold, Problem};

pub(super) fn read(known: &Known, places: &DataPlaces, seed: u64) -> Result<Read, SuiteError> {
    let Found { paths, folder } = known.find(places)?;
    let mut questions = Vec::new();
    let mut measured = Vec::new();
    for path in &paths {
        measured.push(files::data_file(path, folder.as_deref())?);
        questions.extend(of_file(path)?);
    }
    let problem = |(index, question): (usize, GpqaQuestion)| {
        let shuffled = question.shuffled(seed, index as u64);
        let letter = shuffled.letter;
        let task = Task {
            id: TaskId(format!("{}-{}", known.name, index + 1)),
            messages: vec![Message::text(Role::User, shuffled.text)],
            answer: letter.to_string(),
            functions: Vec::new(),
            meta: Map::new(),
        };
        let gold = Gold::Choice { letter, choices: shuffled.choices.len() };
        Problem { task: Arc::new(task), gold }
    };
    let problems = questions.into_iter().enumerate().map(problem).collect();
    Ok(Read { problems, files: measured, note: None })
}

fn of_file(path: &Path) -> Result<Vec<GpqaQuestion>, SuiteError> {
    let at = |error: GpqaError, row: usize| {
        fault(&Place { path: path.to_owned(), row }, &error.field, error.message)
    };
    if path.extension().is_some_and(|extension| extension == "csv") {
        let bytes = std::fs::read(path).map_err(|source| files::unreadable(path, source))?;
        return GpqaQuestion::read_csv(&bytes).map_err(|error| {
            let line = error.line as usize;
            at(error, line)
        });
    }
    let mut questions = Vec::new();
    files::each_row(path, |place, row| {
        let row = Value::Object(row);
        questions.push(GpqaQuestion::from_row(&row).map_err(|error| at(error, place.row))?);
        Ok(())
    })?;
    Ok(questions)
}
