//! Values as Python writes them: `str`, `repr` and `json.dumps`.
//!
//! Templates are tested with Python by those who train models, so `{{ true }}` must be `True` and
//! `1e22 | tojson` must be `1e+22`. Invariant: the text equals Python's for every value that JSON can
//! hold.

use std::fmt::Write as _;

use minijinja::{
    Error, ErrorKind, Output, State, Value,
    value::{Kwargs, ValueKind},
};
use serde_json::Value as Json;

/// A JSON value for a template.
pub(super) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => {
            if let Some(integer) = number.as_i64() {
                Value::from(integer)
            } else if let Some(integer) = number.as_u64() {
                Value::from(integer)
            } else {
                Value::from(number.as_f64().unwrap_or(f64::NAN))
            }
        }
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(list) => list.iter().map(from_json).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (key.as_str(), from_json(value))))
        }
    }
}

/// Prints a value as `{{ … }}` does under Python.
pub(super) fn write(
    out: &mut Output<'_>,
    _: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&text_of(value)?).map_err(Error::from),
    }
}

/// The filter `string`.
pub(super) fn to_text(value: &Value) -> Result<String, Error> {
    text_of(value)
}

/// `str(value)`.
fn text_of(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    repr(value, &mut out)?;
    Ok(out)
}

fn repr(value: &Value, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number(value, out),
        ValueKind::String => repr_text(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr(&item, out)?;
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr(&key, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Text in quotes: single ones, unless it holds single ones only.
fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || (0x7F..0xA0).contains(&(c as u32)) => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn number(value: &Value, out: &mut String) {
    if value.is_integer() {
        out.push_str(&value.to_string());
    } else {
        match f64::try_from(value.clone()) {
            Ok(float) => out.push_str(&float_repr(float)),
            Err(_) => out.push_str(&value.to_string()),
        }
    }
}

/// `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
pub(crate) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = float.abs();
    if float != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = float.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// The filter `tojson` as transformers defines it: `json.dumps` without escaping of characters
/// outside ASCII, keys in their order.
#[expect(clippy::needless_pass_by_value, reason = "filters are given their arguments")]
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent = options.get::<Option<Value>>("indent")?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => spaces(usize::try_from(indent)?)?,
        }),
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (comma, colon) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some([comma, colon]) => (comma.clone(), colon.clone()),
        Some(_) => {
            let message = "tojson: `separators` should be two strings";
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    };
    let style = JsonStyle {
        escapes_non_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorts_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        comma,
        colon,
    };
    options.assert_all_used()?;
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(out)
}

/// More than anyone indents by; a stranger's template must not fill the memory.
const MOST_SPACES: usize = 256;

fn spaces(count: usize) -> Result<String, Error> {
    if count > MOST_SPACES {
        let message = format!("tojson: `indent` is {count}; at most {MOST_SPACES} is supported");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(" ".repeat(count))
}

/// The arguments of `json.dumps`.
struct JsonStyle {
    escapes_non_ascii: bool,
    sorts_keys: bool,
    indent: Option<String>,
    comma: String,
    colon: String,
}

impl JsonStyle {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => {
                let start = out.len();
                number(value, out);
                let python = match &out[start..] {
                    "nan" => "NaN",
                    "inf" => "Infinity",
                    "-inf" => "-Infinity",
                    _ => return Ok(()),
                };
                out.truncate(start);
                out.push_str(python);
            }
            ValueKind::String => self.text(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<_> = value.try_iter()?.map(|item| (None, item)).collect();
                self.container(('[', ']'), &items, depth, out)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    items.push((Some(text_of(&key)?), item));
                }
                if self.sorts_keys {
                    items.sort_by(|(left, _), (right, _)| left.cmp(right));
                }
                self.container(('{', '}'), &items, depth, out)?;
            }
            kind => {
                let message = format!("tojson: a value that is {kind} has no JSON form");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn container(
        &self,
        (open, close): (char, char),
        items: &[(Option<String>, Value)],
        depth: usize,
        out: &mut String,
    ) -> Result<(), Error> {
        out.push(open);
        for (index, (key, item)) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(&self.comma);
            }
            self.line(depth + 1, out);
            if let Some(key) = key {
                self.text(key, out);
                out.push_str(&self.colon);
            }
            self.write(item, depth + 1, out)?;
        }
        if !items.is_empty() {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 => push_unicode_escape(c, out),
                c if self.escapes_non_ascii && !c.is_ascii() => push_unicode_escape(c, out),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn push_unicode_escape(character: char, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}
