//! Values written the way Python writes them, as JSON or as Python literals.
//!
//! Templates were made, and models trained, with `json.dumps`: a space follows each comma and colon,
//! and a float is `1e+16`.

use serde_json::{Map, Value};

use crate::template::python::float_repr;

/// Which words stand for the three values that the notations write differently.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notation {
    Json,
    Python,
}

/// Appends `value` to `text`.
pub(super) fn write(value: &Value, notation: Notation, text: &mut String) {
    match (value, notation) {
        (Value::Null, Notation::Python) => text.push_str("None"),
        (Value::Bool(true), Notation::Python) => text.push_str("True"),
        (Value::Bool(false), Notation::Python) => text.push_str("False"),
        (Value::Number(number), _) if number.is_f64() => {
            text.push_str(&number.as_f64().map_or_else(|| number.to_string(), float_repr));
        }
        // JSON's integers, strings and escapes mean the same in Python.
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {
            text.push_str(&value.to_string());
        }
        (Value::Array(values), _) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                write(value, notation, text);
            }
            text.push(']');
        }
        (Value::Object(map), _) => write_object(map, notation, text),
    }
}

/// Appends an object.
pub(super) fn write_object(map: &Map<String, Value>, notation: Notation, text: &mut String) {
    text.push('{');
    for (index, (key, value)) in map.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { ", " });
        write_string(key, text);
        text.push_str(": ");
        write(value, notation, text);
    }
    text.push('}');
}

/// Appends `string` in double quotes.
pub(super) fn write_string(string: &str, text: &mut String) {
    text.push_str(&Value::from(string).to_string());
}
