//! A request's body, taken apart field by field.
//!
//! Invariant: every field of a body is taken, known as harmless, known as unsupported, or refused by
//! name, with the nearest known one: a misspelt `temprature` must not quietly sample at 1. `null`
//! means absent everywhere, as OpenAI's clients use it. A field's text is parsed only once, straight
//! into its type, so memory stays in proportion to the body.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::{ApiError, Code};

/// Names at least this similar are worth a "did you mean".
const SIMILAR: f64 = 0.6;

/// The fields that were not taken yet.
#[derive(Debug)]
pub(super) struct Fields {
    left: HashMap<String, Box<RawValue>>,
    known: Vec<&'static str>,
}

impl Fields {
    /// Splits a JSON object.
    ///
    /// # Errors
    /// The body is no JSON object.
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let left = serde_json::from_slice(body).map_err(|error| {
            let message = format!("the body must be a JSON object: {error}");
            ApiError::new(Code::InvalidJson, message)
        })?;
        Ok(Self { left, known: Vec::new() })
    }

    /// Takes a field; absent and `null` are the same.
    ///
    /// # Errors
    /// The value has another type.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.known.push(name);
        match self.left.remove(name) {
            None => Ok(None),
            Some(raw) => parse(name, raw.get()),
        }
    }

    /// Takes a field that has to be there.
    ///
    /// # Errors
    /// It is absent or has another type.
    pub(super) fn require<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| ApiError::invalid(name, "is required"))
    }

    /// Takes fields that change nothing in what is generated.
    pub(super) fn accept_unused(&mut self, names: &[&'static str]) {
        for &name in names {
            self.known.push(name);
            self.left.remove(name);
        }
    }

    /// Takes a field that this server can't honour, unless its value asks for nothing.
    ///
    /// # Errors
    /// The value asks for something.
    pub(super) fn refuse_unless(
        &mut self,
        name: &'static str,
        asks_nothing: impl FnOnce(&serde_json::Value) -> bool,
    ) -> Result<(), ApiError> {
        match self.take::<serde_json::Value>(name)? {
            Some(value) if !asks_nothing(&value) => {
                Err(ApiError::unsupported(name, "is not supported with this value"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// A field is left that nobody knows.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        // The first by name: the same body is always refused in the same way.
        let Some(unknown) = self.left.into_keys().min() else { return Ok(()) };
        let similar = |name: &&str| strsim::normalized_damerau_levenshtein(&unknown, name);
        let nearest = self.known.iter().max_by(|a, b| similar(a).total_cmp(&similar(b)));
        let hint = match nearest.filter(|name| similar(name) >= SIMILAR) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        Err(ApiError {
            code: Code::UnknownField,
            message: format!("there is no field `{unknown}`{hint}"),
            param: Some(unknown),
        })
    }
}

fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<Option<T>, ApiError> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    // Read again, to find out where.
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize::<_, Option<T>>(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let param = match path.as_str() {
            "." => name.to_owned(),
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        };
        let inner = error.into_inner();
        let position = format!(" at line {} column {}", inner.line(), inner.column());
        let said = inner.to_string();
        let problem = said.strip_suffix(&position).unwrap_or(&said);
        ApiError::invalid(param, format_args!("can't be accepted: {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_record::message::Message;

    use super::*;

    fn read(body: &str) -> Fields {
        Fields::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn null_is_absent() {
        let mut fields = read(r#"{"a": null, "b": 1}"#);
        assert_eq!(fields.take::<u32>("a"), Ok(None));
        assert_eq!(fields.take::<u32>("b"), Ok(Some(1)));
        assert_eq!(fields.take::<u32>("c"), Ok(None));
        assert_eq!(fields.finish(), Ok(()));
    }

    #[test]
    fn the_place_of_a_wrong_value_is_named() {
        let mut fields = read(
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "robot", "content": ""}]}"#,
        );
        let error = fields.take::<Vec<Message>>("messages").unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[1].role"));
        assert!(error.message.contains("unknown variant `robot`"), "{}", error.message);
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_nearest() {
        let mut fields = read(r#"{"temprature": 1}"#);
        let _: Option<f32> = fields.take("temperature").unwrap();
        let error = fields.finish().unwrap_err();
        assert_eq!(error.message, "there is no field `temprature`; did you mean `temperature`?");
        assert_eq!(error.param.as_deref(), Some("temprature"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "[]", "{", "null", "{\"a\": }"] {
            assert_eq!(Fields::read(body.as_bytes()).unwrap_err().code, Code::InvalidJson);
        }
    }
}
