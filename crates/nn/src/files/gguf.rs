//! GGUF files: one file with metadata, tokenizer and weights, as llama.cpp reads them.
//!
//! Versions 2 and 3, little-endian. [`Gguf::open`] reads and checks the header, and gives the
//! metadata; the weights become a model through [`super::load`].

mod header;
mod model;
mod value;

use std::path::{Path, PathBuf};

pub use header::{Damage, Header, TensorInfo, TensorType};
pub use value::{Array, Value};

use super::Error;
use super::map::Mapped;
use crate::config::ModelConfig;

pub(super) use model::{inspect, load};

/// An open GGUF file whose header holds together.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    mapped: Mapped,
    header: Header,
}

/// The tokenizer that a GGUF file carries, as it stands in the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerMetadata {
    /// Kind: `gpt2` is byte-level BPE.
    pub model: String,
    /// How text is split before the merges.
    pub pre: Option<String>,
    /// Text of each token, by id.
    pub tokens: Vec<String>,
    /// Kind of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty
    /// where the file doesn't say.
    pub token_types: Vec<i32>,
    /// Merges, most important first, each `left right`.
    pub merges: Vec<String>,
    /// Token that begins a text.
    pub begin_token: Option<u32>,
    /// Token that ends a generation.
    pub end_token: Option<u32>,
    /// Token for what can't be encoded.
    pub unknown_token: Option<u32>,
    /// Token that fills up.
    pub padding_token: Option<u32>,
    /// Texts begin with [`Self::begin_token`].
    pub add_begin_token: Option<bool>,
    /// Texts begin with a space.
    pub add_space_prefix: Option<bool>,
    /// The chat template.
    pub chat_template: Option<String>,
}

impl Gguf {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file can't be read, or its header contradicts itself or the file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mapped = Mapped::open(path)?;
        let header = Header::parse(mapped.bytes()).map_err(|damage| Error::Header {
            path: path.into(),
            field: damage.field,
            problem: damage.problem,
        })?;
        Ok(Self { path: path.into(), mapped, header })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a metadata key, such as `general.name`.
    pub fn metadata(&self, key: &str) -> Option<&Value> {
        self.header.metadata.get(key)
    }

    /// All weights, in the order of the header.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    /// The model's shape.
    ///
    /// # Errors
    /// An architecture or a feature that isn't supported, or a key that is missing or wrong.
    pub fn config(&self) -> Result<ModelConfig, Error> {
        model::config(self)
    }

    /// The tokenizer; `None` where the file has none.
    ///
    /// # Errors
    /// A key of the wrong type, or lists of different lengths.
    pub fn tokenizer(&self) -> Result<Option<TokenizerMetadata>, Error> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let Some(model) = self.text(&key("model"))? else { return Ok(None) };
        let tokens = self.texts(&key("tokens"))?.unwrap_or_default().to_vec();
        let token_types = self.integers(&key("token_type"))?.unwrap_or_default();
        let token_types = token_types.iter().map(|kind| i32::try_from(*kind));
        let token_types: Vec<i32> = token_types
            .collect::<Result<_, _>>()
            .map_err(|_| self.wrong(&key("token_type"), "holds a number that is no token type"))?;
        if !token_types.is_empty() && token_types.len() != tokens.len() {
            let problem = format!("has {} entries for {} tokens", token_types.len(), tokens.len());
            return Err(self.wrong(&key("token_type"), problem));
        }
        let token = |name: &str| self.token(&key(name), tokens.len());
        Ok(Some(TokenizerMetadata {
            model: model.to_owned(),
            pre: self.text(&key("pre"))?.map(str::to_owned),
            token_types,
            merges: self.texts(&key("merges"))?.unwrap_or_default().to_vec(),
            begin_token: token("bos_token_id")?,
            end_token: token("eos_token_id")?,
            unknown_token: token("unknown_token_id")?,
            padding_token: token("padding_token_id")?,
            add_begin_token: self.flag(&key("add_bos_token"))?,
            add_space_prefix: self.flag(&key("add_space_prefix"))?,
            chat_template: self.text("tokenizer.chat_template")?.map(str::to_owned),
            tokens,
        }))
    }

    /// An error about a metadata key.
    fn wrong(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::Field { path: self.path.clone(), field: key.into(), problem: problem.into() }
    }

    /// The value of `key` as `read` sees it; `None` where the key is absent.
    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.header.metadata.get(key) else { return Ok(None) };
        let read = read(value);
        read.map(Some)
            .ok_or_else(|| self.wrong(key, format!("is {}, expected {expected}", value.describe())))
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "text", Value::as_text)
    }

    fn texts(&self, key: &str) -> Result<Option<&[String]>, Error> {
        self.typed(key, "a list of texts", |value| match value {
            Value::Array(Array::Texts(texts)) => Some(texts.as_slice()),
            _ => None,
        })
    }

    fn integers(&self, key: &str) -> Result<Option<&[i64]>, Error> {
        self.typed(key, "a list of integers", |value| match value {
            Value::Array(Array::Integers(integers)) => Some(integers.as_slice()),
            _ => None,
        })
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number", Value::as_number)
    }

    /// A token id, within the vocabulary where there is one.
    fn token(&self, key: &str, vocabulary: usize) -> Result<Option<u32>, Error> {
        let Some(id) = self.typed(key, "a token", Value::as_integer)? else { return Ok(None) };
        match u32::try_from(id) {
            Ok(id) if vocabulary == 0 || (id as usize) < vocabulary => Ok(Some(id)),
            _ => Err(self.wrong(key, format!("is {id}, and there are {vocabulary} tokens"))),
        }
    }
}
