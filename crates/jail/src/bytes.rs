//! Bytes in JSON: a plain string for text, `{"base64": "…"}` for anything.
//!
//! Invariant: reading back what was written gives the same bytes; valid UTF-8 is written as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "a string, or an object {\"base64\": \"…\"}")]
enum Wire {
    Text(String),
    Encoded(Encoded),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Wire {
    fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Encoded(Encoded { base64: STANDARD.encode(bytes) }),
        }
    }

    fn into_bytes<E: serde::de::Error>(self) -> Result<Vec<u8>, E> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Encoded(encoded) => STANDARD
                .decode(&encoded.base64)
                .map_err(|error| E::custom(format_args!("invalid base64: {error}"))),
        }
    }
}

/// For a field of type `Vec<u8>`.
pub(crate) mod required {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Wire};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        Wire::from_bytes(bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        Wire::deserialize(deserializer)?.into_bytes()
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
        bytes.as_deref().map(Wire::from_bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<Wire>::deserialize(deserializer)?.map(Wire::into_bytes).transpose()
    }
}
