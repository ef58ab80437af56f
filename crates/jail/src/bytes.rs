//! Bytes in JSON: a plain string for text, `{"base64": "…"}` for anything.
//!
//! Invariant: reading back what was written gives the same bytes; valid UTF-8 is written as text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The JSON form. Read by hand: an untagged enumeration would hold everything twice, as a tree.
struct Wire(Vec<u8>);

impl Serialize for Wire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WireVisitor)
    }
}

struct WireVisitor;

impl<'de> Visitor<'de> for WireVisitor {
    type Value = Wire;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or an object {\"base64\": \"…\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Wire, E> {
        Ok(Wire(text.as_bytes().to_vec()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Wire, E> {
        Ok(Wire(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Wire, A::Error> {
        let mut bytes = None;
        while let Some(key) = map.next_key::<String>()? {
            if key != "base64" {
                return Err(de::Error::unknown_field(&key, &["base64"]));
            }
            if bytes.is_some() {
                return Err(de::Error::duplicate_field("base64"));
            }
            let text: String = map.next_value()?;
            let decoded = STANDARD
                .decode(&text)
                .map_err(|error| de::Error::custom(format_args!("invalid base64: {error}")))?;
            bytes = Some(decoded);
        }
        bytes.map(Wire).ok_or_else(|| de::Error::missing_field("base64"))
    }
}

/// For a field of type `Vec<u8>`.
pub(crate) mod required {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Wire};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        Wire(bytes.to_vec()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        Ok(Wire::deserialize(deserializer)?.0)
    }
}

/// For a field of type `Option<Vec<u8>>`.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Wire};

    #[expect(clippy::ref_option, reason = "serde's `with` passes a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.clone().map(Wire).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Wire>::deserialize(deserializer)?.map(|wire| wire.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::InputFile;

    fn read(json: &str) -> Result<InputFile, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn text_and_bytes_are_read() {
        let content = |json| read(json).map(|file| file.content);
        assert_eq!(content(r#"{"path": "a", "content": "\u00e9"}"#), Ok("é".as_bytes().to_vec()));
        assert_eq!(content(r#"{"path": "a", "content": {"base64": "/w=="}}"#), Ok(vec![0xff]));
        for (json, problem) in [
            (r#"{"path": "a", "content": {"base64": "?"}}"#, "invalid base64"),
            (r#"{"path": "a", "content": {"base65": ""}}"#, "unknown field `base65`"),
            (r#"{"path": "a", "content": {}}"#, "missing field `base64`"),
            (r#"{"path": "a", "content": 7}"#, "a string, or an object"),
        ] {
            let error = content(json).expect_err(json);
            assert!(error.contains(problem), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(content in prop::collection::vec(any::<u8>(), 0..40)) {
            let file = InputFile { path: "a".to_owned(), content };
            let json = serde_json::to_string(&file).expect("valid JSON");
            prop_assert_eq!(read(&json), Ok(file));
        }
    }
}
