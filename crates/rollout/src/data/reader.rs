//! Rows to tasks: names of fields, what must be there, and who is left out first.

use std::collections::HashMap;

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use serde_json::Value;

use super::contamination::Known;
use super::{DataError, Layout, Only, TaskOptions, Tasks};
use crate::rows::{Next, Place, Row};
use crate::task::Task;

/// The names of a row's fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'o> {
    pub(super) problem: &'o str,
    answer: &'o str,
    /// `None` where file and row are the identity.
    id: Option<&'o str>,
}

impl TaskOptions {
    pub(super) fn names(&self) -> Names<'_> {
        let (problem, answer, id) = match self.layout {
            Layout::Plain => ("problem", "answer", "id"),
            Layout::Verl => ("prompt", "reward_model.ground_truth", "extra_info.index"),
        };
        let id = self.id_field.as_deref().unwrap_or(id);
        Names {
            problem: self.problem_field.as_deref().unwrap_or(problem),
            answer: self.answer_field.as_deref().unwrap_or(answer),
            id: (!id.is_empty()).then_some(id),
        }
    }
}

/// Tasks as they are read.
pub(super) struct Reader<'o> {
    options: &'o TaskOptions,
    known: Known,
    /// Where each identity was found.
    ids: HashMap<TaskId, Place>,
    /// Problems that are there already, by their words.
    problems: HashMap<String, Place>,
    pub(super) tasks: Tasks,
}

impl<'o> Reader<'o> {
    pub(super) fn new(options: &'o TaskOptions) -> Result<Self, DataError> {
        Ok(Self {
            options,
            known: Known::read(&options.decontaminate, options.names().problem)?,
            ids: HashMap::new(),
            problems: HashMap::new(),
            tasks: Tasks::default(),
        })
    }

    /// The next row.
    pub(super) fn take(&mut self, place: Place, row: Row) -> Result<Next, DataError> {
        if self.options.limit.is_some_and(|limit| self.tasks.tasks.len() >= limit) {
            return Ok(Next::Stop);
        }
        self.tasks.counts.rows += 1;
        if let Some(task) = self.task(&place, row)? {
            self.tasks.counts.used += 1;
            self.tasks.tasks.push(task);
            self.tasks.places.push(place);
        }
        Ok(Next::More)
    }

    /// The row's task; `None` where it is left out, which is counted.
    fn task(&mut self, place: &Place, mut row: Row) -> Result<Option<Task>, DataError> {
        let names = self.options.names();
        let fault = |field: &str, problem: String| DataError::Row {
            place: place.clone(),
            field: field.to_owned(),
            problem,
        };
        let messages = messages(&row, names.problem, self.options.system.as_deref())
            .map_err(|problem| fault(names.problem, problem))?;
        let answer = answer(&row, names.answer).map_err(|problem| fault(names.answer, problem))?;
        let id = identity(&row, names.id, place)
            .map_err(|problem| fault(names.id.unwrap_or_default(), problem))?;
        if let Some(first) = self.ids.insert(id.clone(), place.clone()) {
            let problem = format!(
                "`{}` is the identity of {first} too: make them differ, or set `id_field` to \
                 another field, or to \"\" to count rows",
                id.0
            );
            return Err(fault(names.id.unwrap_or("the row's number"), problem));
        }
        let counts = &mut self.tasks.counts;
        if !self.options.only.iter().all(|only| holds(only, &row)) {
            counts.filtered += 1;
            return Ok(None);
        }
        if self.options.integer_answers_only && !is_integer(&answer) {
            counts.not_integer += 1;
            return Ok(None);
        }
        let text = text_of(&messages);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.problems.insert(words, place.clone()).is_some() {
            counts.duplicates += 1;
            return Ok(None);
        }
        if self.known.shares_words_with(&text) {
            counts.contaminated += 1;
            return Ok(None);
        }
        remove(&mut row, names.problem);
        remove(&mut row, names.answer);
        Ok(Some(Task { id, messages, answer, functions: Vec::new(), meta: row }))
    }
}

/// A field of a row; `a.b` is field `b` within `a`, unless there is a field `a.b`.
pub(super) fn field<'row>(row: &'row Row, path: &str) -> Option<&'row Value> {
    if let Some(value) = row.get(path) {
        return Some(value);
    }
    let (outer, inner) = path.split_once('.')?;
    field(row.get(outer)?.as_object()?, inner)
}

fn remove(row: &mut Row, path: &str) {
    if row.remove(path).is_none()
        && let Some((outer, inner)) = path.split_once('.')
        && let Some(within) = row.get_mut(outer).and_then(Value::as_object_mut)
    {
        remove(within, inner);
    }
}

fn missing(row: &Row) -> String {
    let names: Vec<String> = row.keys().map(|name| format!("`{name}`")).collect();
    format!("is missing; the row has {}", names.join(", "))
}

/// What the policy is shown.
pub(super) fn messages(
    row: &Row,
    path: &str,
    system: Option<&str>,
) -> Result<Vec<Message>, String> {
    let mut messages = match field(row, path) {
        None | Some(Value::Null) => return Err(missing(row)),
        Some(Value::String(text)) => vec![Message::text(Role::User, text)],
        Some(list @ Value::Array(_)) => serde_json::from_value::<Vec<Message>>(list.clone())
            .map_err(|error| format!("must be a list of messages: {error}"))?,
        Some(_) => return Err("must be a text or a list of messages".to_owned()),
    };
    match messages.last() {
        None => return Err("is empty: there is no problem".to_owned()),
        Some(last) if last.role != Role::User => {
            return Err("must end with a message of the user, to be answered".to_owned());
        }
        Some(last) if last.content.trim().is_empty() => {
            return Err("is empty: there is no problem".to_owned());
        }
        Some(_) => {}
    }
    if let Some(system) = system
        && messages.first().is_none_or(|first| first.role != Role::System)
    {
        messages.insert(0, Message::text(Role::System, system));
    }
    Ok(messages)
}

fn answer(row: &Row, path: &str) -> Result<String, String> {
    match field(row, path) {
        None | Some(Value::Null) => Err(missing(row)),
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err("is empty: a task needs the right answer; remove the row".to_owned())
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err("must be a text or a number".to_owned()),
    }
}

fn identity(row: &Row, path: Option<&str>, place: &Place) -> Result<TaskId, String> {
    match path.and_then(|path| field(row, path)) {
        None | Some(Value::Null) => {
            let name = place.path.file_name().unwrap_or(place.path.as_os_str());
            Ok(TaskId(format!("{}:{}", name.display(), place.row)))
        }
        Some(Value::String(text)) if text.is_empty() => Err("is empty".to_owned()),
        Some(Value::String(text)) => Ok(TaskId(text.clone())),
        Some(Value::Number(number)) => Ok(TaskId(number.to_string())),
        Some(_) => Err("must be a text or a number".to_owned()),
    }
}

fn holds(only: &Only, row: &Row) -> bool {
    let value = field(row, &only.field);
    let number = value.and_then(Value::as_f64);
    only.equals.as_ref().is_none_or(|values| value.is_some_and(|it| values.contains(it)))
        && only.at_least.is_none_or(|least| number.is_some_and(|number| number >= least))
        && only.at_most.is_none_or(|most| number.is_some_and(|number| number <= most))
}

/// Digits, perhaps with a sign.
fn is_integer(answer: &str) -> bool {
    let digits = answer.trim().trim_start_matches(['-', '+']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text of a problem, without instructions.
pub(super) fn text_of(messages: &[Message]) -> String {
    let shown = messages.iter().filter(|message| message.role != Role::System);
    shown.map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}
