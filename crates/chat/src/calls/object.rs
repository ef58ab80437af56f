//! A JSON object as a call: which keys it must have, and none beside them.

use rocstar_record::message::{Arguments, ToolCall};
use serde_json::{Map, Value};

use super::failure::{FailureKind, Fault};

/// The keys of a format's object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    /// The key of the arguments; the name's is always `name`.
    pub(super) arguments: &'static str,
    /// Whether `"type": "function"` may stand beside them.
    pub(super) allows_type: bool,
}

/// The call that `object` is.
pub(super) fn call(mut object: Map<String, Value>, keys: Keys) -> Result<ToolCall, Fault> {
    let name = match object.shift_remove("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        Some(other) => {
            let found = kind(&other);
            let message = format!("`name` must be the tool's name as a string, found {found}");
            return Err(Fault::new(FailureKind::BadName, message));
        }
        None => return Err(Fault::new(FailureKind::MissingName, "the key `name` is missing")),
    };
    let key = keys.arguments;
    let arguments = match object.shift_remove(key) {
        Some(Value::Object(arguments)) => arguments,
        Some(Value::String(_)) => {
            let message = format!("`{key}` is a string; write the object itself, without quotes");
            return Err(Fault::new(FailureKind::ArgumentsNotAnObject, message));
        }
        Some(other) => {
            let message = format!("`{key}` must be an object, found {}", kind(&other));
            return Err(Fault::new(FailureKind::ArgumentsNotAnObject, message));
        }
        None => {
            let message = format!("the key `{key}` is missing; without arguments it is `{{}}`");
            return Err(Fault::new(FailureKind::MissingArguments, message));
        }
    };
    let is_function = object.get("type").and_then(Value::as_str) == Some("function");
    if keys.allows_type && is_function {
        object.shift_remove("type");
    }
    if let Some(other) = object.keys().next() {
        let message = format!("a call has the keys `name` and `{key}`, not `{other}`");
        return Err(Fault::new(FailureKind::UnknownKey, message));
    }
    Ok(ToolCall { id: None, name, arguments: Arguments::Object(arguments) })
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty string",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
