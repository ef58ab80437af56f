//! Conversations from files: what each row must hold, and what is wrong where it doesn't.
//!
//! Invariant: a [`Conversation`] can be learnt from. It ends with the assistant, no assistant's turn
//! is empty, and nothing that a row says about training (such as a message's weight) was ignored.
//! A fault names file, row and field, and stops the run before anything slow.

use std::path::PathBuf;

use rocstar_record::message::{Message, Role, ToolSpec};
use rocstar_rollout::practice;
use rocstar_rollout::rows::{self, Columns, Next, Row};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Place};
use crate::recipe::{DataOptions, PracticeOptions};

/// A finished conversation to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its messages; the last is the assistant's.
    pub messages: Vec<Message>,
    /// Tools that the assistant may call.
    pub tools: Vec<ToolSpec>,
    /// Where it was read.
    pub place: Place,
}

/// Reads the conversations of `paths`, file after file, at most `limit` of them.
///
/// # Errors
/// A file can't be read, or one of its rows is no conversation to learn from.
pub fn read(
    paths: &[PathBuf],
    options: &DataOptions,
    limit: Option<usize>,
) -> Result<Vec<Conversation>, Error> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for path in paths {
        let wanted = limit - all.len();
        let mut taken = 0;
        if wanted == 0 {
            break;
        }
        rows::each::<Error>(path, Columns::Named(&columns(options)), &mut |place, row| {
            all.push(conversation(row, options, place)?);
            taken += 1;
            Ok(if taken == wanted { Next::Stop } else { Next::More })
        })?;
    }
    Ok(all)
}

/// Conversations that are made up.
pub fn practice(options: &PracticeOptions) -> Vec<Conversation> {
    let all = practice::demonstrations(options.count, options.seed).into_iter().enumerate();
    let place = |row| Place { path: "practice".into(), row: row + 1 };
    all.map(|(row, one)| Conversation {
        messages: one.messages,
        tools: one.tools,
        place: place(row),
    })
    .collect()
}

/// The fields that the options name.
fn columns(options: &DataOptions) -> Vec<&str> {
    let pair = [&options.prompt_field, &options.completion_field].into_iter().flatten();
    let named = [&options.messages_field, &options.tools_field].into_iter().chain(pair);
    named.map(String::as_str).collect()
}

fn conversation(
    mut fields: Row,
    options: &DataOptions,
    place: Place,
) -> Result<Conversation, Error> {
    let fault =
        |field: String, problem: String| Error::Row { place: place.clone(), field, problem };
    let mut messages = match (&options.prompt_field, &options.completion_field) {
        (Some(prompt), Some(completion)) => {
            let mut messages =
                side(&mut fields, prompt, Role::User).map_err(|(f, p)| fault(f, p))?;
            let answer = side(&mut fields, completion, Role::Assistant);
            messages.extend(answer.map_err(|(f, p)| fault(f, p))?);
            messages
        }
        _ => {
            let field = &options.messages_field;
            let value =
                fields.remove(field).ok_or_else(|| fault(field.clone(), missing(&fields)))?;
            messages(field, value).map_err(|(field, problem)| fault(field, problem))?
        }
    };
    if let Some(system) = &options.system
        && messages.first().is_none_or(|first| first.role != Role::System)
    {
        messages.insert(0, Message::text(Role::System, system));
    }
    let tools = match fields.remove(&options.tools_field) {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => list(&options.tools_field, value).map_err(|(f, p)| fault(f, p))?,
    };
    check(&messages).map_err(|(index, problem)| {
        let field = index.map_or_else(
            || options.messages_field.clone(),
            |index| format!("{}[{index}]", options.messages_field),
        );
        fault(field, problem)
    })?;
    Ok(Conversation { messages, tools, place })
}

/// A field and what is wrong with it.
type Fault = (String, String);

/// One side of a pair of prompt and completion: a text, or messages.
fn side(fields: &mut Row, field: &str, role: Role) -> Result<Vec<Message>, Fault> {
    match fields.remove(field) {
        None => Err((field.to_owned(), missing(fields))),
        Some(Value::String(text)) => Ok(vec![Message::text(role, text)]),
        Some(value) => messages(field, value),
    }
}

fn missing(fields: &Row) -> String {
    let names: Vec<String> = fields.keys().map(|name| format!("`{name}`")).collect();
    format!("is missing; the row has {}", names.join(", "))
}

fn messages(field: &str, value: Value) -> Result<Vec<Message>, Fault> {
    let elements = elements(field, value)?;
    for (index, element) in elements.iter().enumerate() {
        refuse_unknown_training(element)
            .map_err(|(inner, problem)| (format!("{field}[{index}].{inner}"), problem))?;
    }
    typed(field, elements)
}

/// What says how to train on a message must not be passed over.
fn refuse_unknown_training(message: &Value) -> Result<(), Fault> {
    let fault = |field: &str, problem: &str| Err((field.to_owned(), problem.to_owned()));
    if message.get("weight").is_some_and(|weight| weight.as_f64() != Some(1.0) && !weight.is_null())
    {
        return fault("weight", "weights of messages other than 1 are not supported");
    }
    if message.get("function_call").is_some_and(|call| !call.is_null()) {
        return fault("function_call", "is not supported; write `tool_calls`");
    }
    if message.get("from").is_some() && message.get("role").is_none() {
        return fault(
            "role",
            "is missing; `from` and `value` are not read: rename them to `role` and `content`",
        );
    }
    Ok(())
}

fn list<T: DeserializeOwned>(field: &str, value: Value) -> Result<Vec<T>, Fault> {
    typed(field, elements(field, value)?)
}

/// The elements of a list, which may be written as a JSON text.
fn elements(field: &str, value: Value) -> Result<Vec<Value>, Fault> {
    let value = match value {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            (field.to_owned(), format!("is a text, and not the JSON of a list: {error}"))
        })?,
        other => other,
    };
    match value {
        Value::Array(elements) => Ok(elements),
        other => Err((field.to_owned(), format!("must be a list, is {}", kind(&other)))),
    }
}

fn typed<T: DeserializeOwned>(field: &str, elements: Vec<Value>) -> Result<Vec<T>, Fault> {
    let element = |(index, element)| {
        serde_json::from_value(element)
            .map_err(|error| (format!("{field}[{index}]"), error.to_string()))
    };
    elements.into_iter().enumerate().map(element).collect()
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn check(messages: &[Message]) -> Result<(), (Option<usize>, String)> {
    let Some(last) = messages.last() else { return Err((None, "is empty".to_owned())) };
    if last.role != Role::Assistant {
        let problem = "the last message must be the assistant's, to be learnt from";
        return Err((Some(messages.len() - 1), problem.to_owned()));
    }
    for (index, message) in messages.iter().enumerate() {
        let silent = message.content.is_empty()
            && message.tool_calls.is_empty()
            && message.reasoning_content.as_ref().is_none_or(String::is_empty);
        if message.role == Role::Assistant && silent {
            let problem = "the assistant's message has no text and no tool calls";
            return Err((Some(index), problem.to_owned()));
        }
        if message.role != Role::Assistant && !message.tool_calls.is_empty() {
            return Err((Some(index), "only the assistant makes tool calls".to_owned()));
        }
    }
    Ok(())
}
