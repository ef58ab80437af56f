//! Problems whose answer is a value: the layouts in which the hub and folders of one's own have them.
//!
//! A problem is called `problem` or `question`; its answer is `answer`, which in GSM8K's own layout
//! is a solution whose last line is `#### ` and the value.

use std::sync::Arc;

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_rollout::rows::{Place, Row};
use rocstar_verify::Extraction;
use serde_json::Value;

use super::files::{self, Identities, fault};
use super::known::Found;
use super::{DataPlaces, Known, Read, SuiteError};
use crate::problem::{Gold, Problem};

const PROBLEM_FIELDS: [&str; 2] = ["problem", "question"];
const ID_FIELDS: [&str; 3] = ["id", "unique_id", "problem_idx"];
/// Begins the value at the end of a solution.
const VALUE_MARK: &str = "####";

pub(super) fn read(
    known: &Known,
    places: &DataPlaces,
    extraction: Extraction,
) -> Result<Read, SuiteError> {
    let Found { paths, folder } = known.find(places)?;
    let mut identities = Identities::default();
    let mut problems = Vec::new();
    let mut measured = Vec::new();
    for path in &paths {
        measured.push(files::data_file(path, folder.as_deref())?);
        files::each_row(path, |place, row| {
            let number = problems.len() + 1;
            problems.push(problem(known.name, number, &place, row, extraction, &mut identities)?);
            Ok(())
        })?;
    }
    Ok(Read { problems, files: measured, note: None })
}

fn problem(
    suite: &str,
    number: usize,
    place: &Place,
    mut row: Row,
    extraction: Extraction,
    identities: &mut Identities,
) -> Result<Problem, SuiteError> {
    let field = PROBLEM_FIELDS.into_iter().find(|field| row.contains_key(*field));
    let field = field.ok_or_else(|| {
        let names: Vec<String> = row.keys().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        fault(place, "problem", format!("is missing, and so is `question`; the row has {names}"))
    })?;
    let text = match row.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
        _ => return Err(fault(place, field, "must be a text that is not blank")),
    };
    let answer = answer(&row).map_err(|problem| fault(place, "answer", problem))?;
    let id_field = ID_FIELDS.into_iter().find(|field| row.contains_key(*field)).unwrap_or("id");
    let id = match row.get(id_field) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => format!("{suite}-{number}"),
        None | Some(Value::Null) => format!("{suite}-{number}"),
        Some(_) => return Err(fault(place, id_field, "must be a text or a number")),
    };
    let id = identities.take(TaskId(id), place, id_field)?;
    for told in [field, "answer", "solution"] {
        row.remove(told);
    }
    let messages = vec![Message::text(Role::User, text)];
    let task = Task { id, messages, answer: answer.clone(), functions: Vec::new(), meta: row };
    Ok(Problem { task: Arc::new(task), gold: Gold::Math { answer, extraction } })
}

fn answer(row: &Row) -> Result<String, &'static str> {
    let answer = match row.get("answer") {
        Some(Value::Number(number)) => return Ok(number.to_string()),
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => return Err("is missing: a problem needs the right answer"),
        Some(_) => return Err("must be a text or a number"),
    };
    let value = match answer.rsplit_once(VALUE_MARK) {
        // Thousands are separated there: `#### 1,000`.
        Some((_, value)) => value.trim().replace(',', ""),
        None => answer.trim().to_owned(),
    };
    if value.is_empty() { Err("is blank: a problem needs the right answer") } else { Ok(value) }
}
