//! The peers' way with request bodies: pydantic's lax conversions, and its error form.
//!
//! Both peers are FastAPI services, and their clients rely on what pydantic lets through (a number
//! as a string, unknown fields) and on the shape of its refusals: HTTP 422 with
//! `{"detail": [{"type", "loc", "msg", "input"}]}`. Invariant: only the first problem of a body is
//! reported, where pydantic lists all; what is wrong with it is named as pydantic names it.

use std::fmt;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::error::HttpError;
use super::parse::{self, Problem, Step};

/// Bodies up to this size are looked into again to echo the input that was wrong.
const ECHO_BODY_BYTES: usize = 64 << 10;

/// A refusal in the peers' form: a status and `{"detail": …}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) detail: Value,
    pub(super) retry_after_s: Option<u64>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: impl Into<Value>) -> Self {
        Self { status, detail: detail.into(), retry_after_s: None }
    }
}

impl From<HttpError> for Refusal {
    fn from(error: HttpError) -> Self {
        let retry_after_s = error.retry_after_s;
        Self { status: error.code.status(), detail: error.message.into(), retry_after_s }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = axum::Json(json!({ "detail": self.detail }));
        let mut response = (self.status, body).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A model from a body.
pub(super) fn model<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    if body.is_empty() {
        let detail = json!([{
            "type": "missing", "loc": ["body"], "msg": "Field required", "input": null,
        }]);
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    parse::from_json(body).map_err(|problem| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, json!([describe(&problem, body)]))
    })
}

fn describe(problem: &Problem, body: &[u8]) -> Value {
    if !problem.is_json {
        let offset = offset_of(body, problem.line, problem.column);
        return json!({
            "type": "json_invalid",
            "loc": ["body", offset],
            "msg": "JSON decode error",
            "input": {},
            "ctx": { "error": problem.message },
        });
    }
    let (kind, message) = name(&problem.message);
    // A missing field's input is the object that lacks it.
    let at = match kind {
        "missing" => problem.path.split_last().map_or(&[][..], |(_, parents)| parents),
        _ => &problem.path[..],
    };
    let steps = problem.path.iter().map(|step| match step {
        Step::Key(key) => json!(key),
        Step::Index(index) => json!(index),
    });
    let location: Vec<Value> = std::iter::once(json!("body")).chain(steps).collect();
    let mut detail =
        json!({ "type": kind, "loc": location, "msg": message, "input": input(body, at) });
    if let ("literal_error", Some(expected)) = (kind, message.strip_prefix("Input should be ")) {
        detail["ctx"] = json!({ "expected": expected });
    }
    detail
}

fn offset_of(body: &[u8], line: usize, column: usize) -> usize {
    let lines = body.split(|&byte| byte == b'\n').take(line.saturating_sub(1));
    lines.map(|line| line.len() + 1).sum::<usize>() + column.saturating_sub(1)
}

fn input(body: &[u8], path: &[Step]) -> Value {
    if body.len() > ECHO_BODY_BYTES {
        return Value::Null;
    }
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    let found = path.iter().try_fold(&whole, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    });
    found.cloned().unwrap_or_default()
}

/// Pydantic's name and words for what serde says.
fn name(message: &str) -> (&str, &str) {
    if let Some((kind, words)) = message.split_once(SEPARATOR) {
        return (kind, words);
    }
    if message.starts_with("missing field") {
        return ("missing", "Field required");
    }
    if message.contains("surrogate") || message.contains("end of hex escape") {
        let words = "Input should be a valid string, unable to parse raw data as a unicode string";
        return ("string_unicode", words);
    }
    match message.rsplit_once("expected ").map(|(_, expected)| expected) {
        Some("a string") => ("string_type", "Input should be a valid string"),
        Some("a boolean") => ("bool_type", "Input should be a valid boolean"),
        Some("a sequence") => ("list_type", "Input should be a valid list"),
        Some("a map") => ("dict_type", "Input should be a valid dictionary"),
        Some(expected) if expected.starts_with("struct ") => (
            "model_attributes_type",
            "Input should be a valid dictionary or object to extract fields from",
        ),
        Some(_) | None => ("value_error", message),
    }
}

/// Stands between pydantic's name and words in the messages that this module raises itself.
const SEPARATOR: &str = "\u{1f}";

/// An error that keeps pydantic's name for it.
pub(super) fn error<E: Error>(kind: &str, words: impl fmt::Display) -> E {
    E::custom(format_args!("{kind}{SEPARATOR}{words}"))
}

/// `float`: numbers, booleans, and text that holds a number.
pub(super) fn float<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    struct Float;

    impl Visitor<'_> for Float {
        type Value = f64;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a number")
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
            Ok(value)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
            Ok(value as f64)
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
            Ok(value as f64)
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<f64, E> {
            Ok(f64::from(u8::from(value)))
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<f64, E> {
            value.trim().parse().map_err(|_| {
                let words = "Input should be a valid number, unable to parse string as a number";
                error("float_parsing", words)
            })
        }
    }

    deserializer
        .deserialize_any(Float)
        .map_err(|problem| named_or(problem, "float_type", "Input should be a valid number"))
}

/// `int`: whole numbers, also as floats, booleans and text.
pub(super) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    struct Integer;

    impl Visitor<'_> for Integer {
        type Value = i64;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a whole number")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<i64, E> {
            Ok(value)
        }

        // Nothing here distinguishes numbers above this: they all mean "very much".
        fn visit_u64<E: Error>(self, value: u64) -> Result<i64, E> {
            Ok(i64::try_from(value).unwrap_or(i64::MAX))
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<i64, E> {
            if value.fract() == 0.0 {
                Ok(value as i64)
            } else {
                let words = "Input should be a valid integer, got a number with a fractional part";
                Err(error("int_from_float", words))
            }
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<i64, E> {
            Ok(i64::from(value))
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<i64, E> {
            value.trim().parse().map_err(|_| {
                let words = "Input should be a valid integer, unable to parse string as an integer";
                error("int_parsing", words)
            })
        }
    }

    deserializer
        .deserialize_any(Integer)
        .map_err(|problem| named_or(problem, "int_type", "Input should be a valid integer"))
}

/// Keeps an error that is already named, and names any other.
fn named_or<E: Error>(problem: E, kind: &str, words: &str) -> E {
    if problem.to_string().contains(SEPARATOR) { problem } else { error(kind, words) }
}

/// `Optional[float]`.
pub(super) fn optional_float<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    struct Lax(#[serde(deserialize_with = "float")] f64);
    Ok(Option::<Lax>::deserialize(deserializer)?.map(|lax| lax.0))
}

/// One of the words that a `Literal[…]` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Word(pub(super) &'static str);

/// `Literal[…]`: one of the given words.
pub(super) fn literal<'de, D: Deserializer<'de>>(
    deserializer: D,
    allowed: &'static [&'static str],
) -> Result<Word, D::Error> {
    struct OneOf(&'static [&'static str]);

    impl Visitor<'_> for OneOf {
        type Value = Word;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a known word")
        }

        fn visit_str<E: Error>(self, given: &str) -> Result<Word, E> {
            let found = self.0.iter().find(|&&word| word == given);
            found.map(|&word| Word(word)).ok_or_else(|| E::custom("unknown word"))
        }
    }

    deserializer.deserialize_any(OneOf(allowed)).map_err(|_| {
        let quoted: Vec<String> = allowed.iter().map(|word| format!("'{word}'")).collect();
        let words = match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        };
        error("literal_error", format_args!("Input should be {words}"))
    })
}

/// The refusal for a request that FastAPI would not have taken for JSON.
pub(super) fn require_json(headers: &axum::http::HeaderMap) -> Result<(), Refusal> {
    // FastAPI reads a body without a declared type as JSON.
    if !headers.contains_key(header::CONTENT_TYPE) {
        return Ok(());
    }
    super::body::require_json(headers).map_err(Refusal::from)
}
