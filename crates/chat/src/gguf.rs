//! Tokenizers that come inside GGUF metadata, turned into the JSON form of the `tokenizers` crate.
//!
//! One form means one way of encoding: what a GGUF file holds and what a Hugging Face folder holds
//! meet in [`crate::Tokenizer::from_json`]'s path, and saving needs no second writer. Invariant:
//! every token keeps its id, control tokens are special and user-defined ones are added tokens, and
//! what can't be represented is an error that names the metadata key. Only byte-level BPE (the model
//! `gpt2` of GGUF) is read.

mod pre_tokenizer;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, FieldProblem},
    tokenizer::bytes,
};

/// The tokenizer's part of a GGUF file's metadata, as it stands there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufTokenizer {
    /// `tokenizer.ggml.model`; only `gpt2` (byte-level BPE) can be used.
    pub model: String,
    /// `tokenizer.ggml.pre`: which rule splits text into words.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`, by id.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`, by id; empty where the file has none.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.merges`, the first merge first.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`.
    pub begin_token: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub end_token: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown_token: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding_token: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_begin_token: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

/// Where errors say that a field is.
pub(crate) const ORIGIN: &str = "GGUF metadata";

/// GGUF's numbers for kinds of tokens.
mod token_type {
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const UNUSED: i32 = 5;
}

impl GgufTokenizer {
    /// As the value of a tokenizer.json.
    pub(crate) fn to_tokenizer_json(&self) -> Result<Value, Error> {
        if self.model != "gpt2" {
            let problem =
                FieldProblem::Unknown { found: self.model.clone(), known: "`gpt2`".to_owned() };
            return Err(field("model", problem));
        }
        let pre = pre_tokenizer::by_name(self.pre.as_deref())?;
        let vocabulary = self.vocabulary()?;
        let merges = self.merge_pairs(&vocabulary)?;
        let add_prefix_space = self.add_space_prefix.unwrap_or(false);
        let ids: Map<String, Value> =
            self.tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
        Ok(json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added_tokens(),
            "normalizer": pre.normalizer.map(|kind| json!({"type": kind})),
            "pre_tokenizer": pre.value(add_prefix_space),
            "post_processor": null,
            "decoder": byte_level(add_prefix_space),
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": false,
                "byte_fallback": false,
                "ignore_merges": pre.ignore_merges,
                "vocab": ids,
                "merges": merges,
            },
        }))
    }

    /// As the value of a tokenizer_config.json.
    pub(crate) fn to_config_json(&self) -> Result<Map<String, Value>, Error> {
        let mut config = Map::new();
        let named = [
            ("bos_token", "bos_token_id", self.begin_token),
            ("eos_token", "eos_token_id", self.end_token),
            ("unk_token", "unknown_token_id", self.unknown_token),
            ("pad_token", "padding_token_id", self.padding_token),
        ];
        for (name, key, id) in named {
            let Some(id) = id else { continue };
            let token = self.tokens.get(id as usize).ok_or_else(|| {
                let vocabulary_size = self.tokens.len();
                field(key, FieldProblem::BeyondVocabulary { id: id.into(), vocabulary_size })
            })?;
            config.insert(name.to_owned(), token.clone().into());
        }
        if let Some(add) = self.add_begin_token {
            config.insert("add_bos_token".to_owned(), add.into());
        }
        if let Some(add) = self.add_space_prefix {
            config.insert("add_prefix_space".to_owned(), add.into());
        }
        Ok(config)
    }

    /// Ids by text, checked.
    fn vocabulary(&self) -> Result<HashMap<&str, usize>, Error> {
        if self.tokens.is_empty() {
            return Err(field("tokens", FieldProblem::Missing));
        }
        if !self.token_types.is_empty() && self.token_types.len() != self.tokens.len() {
            let (found, expected) = (self.token_types.len(), self.tokens.len());
            let other = "tokenizer.ggml.tokens";
            return Err(field("token_type", FieldProblem::Length { found, expected, other }));
        }
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            if self.is_spelled_in_bytes(id)
                && let Some(character) = token.chars().find(|&c| bytes::byte_of(c).is_none())
            {
                let problem = FieldProblem::NotByteLevel { token: token.clone(), character };
                return Err(field(&format!("tokens[{id}]"), problem));
            }
            if let Some(first) = ids.insert(token.as_str(), id) {
                let problem = FieldProblem::Duplicate { token: token.clone(), first };
                return Err(field(&format!("tokens[{id}]"), problem));
            }
        }
        Ok(ids)
    }

    fn token_type(&self, id: usize) -> Option<i32> {
        self.token_types.get(id).copied()
    }

    fn is_spelled_in_bytes(&self, id: usize) -> bool {
        use token_type::{CONTROL, UNKNOWN, UNUSED, USER_DEFINED};
        !matches!(self.token_type(id), Some(UNKNOWN | CONTROL | USER_DEFINED | UNUSED))
    }

    /// The two tokens of each merge, checked.
    fn merge_pairs(
        &self,
        vocabulary: &HashMap<&str, usize>,
    ) -> Result<Vec<(String, String)>, Error> {
        let mut pairs = Vec::with_capacity(self.merges.len());
        for (rank, merge) in self.merges.iter().enumerate() {
            let at = || format!("merges[{rank}]");
            let Some((left, right)) = merge.split_once(' ').filter(|(_, right)| {
                // A byte-level token holds no space, so a second one means damage.
                !right.contains(' ')
            }) else {
                return Err(field(&at(), FieldProblem::NotAMerge { merge: merge.clone() }));
            };
            let whole = format!("{left}{right}");
            for token in [left, right, &whole] {
                if !vocabulary.contains_key(token) {
                    let (merge, token) = (merge.clone(), token.to_owned());
                    return Err(field(&at(), FieldProblem::MergeOfUnknownToken { merge, token }));
                }
            }
            pairs.push((left.to_owned(), right.to_owned()));
        }
        Ok(pairs)
    }

    /// Control and user-defined tokens, which are matched before words are split.
    fn added_tokens(&self) -> Vec<Value> {
        use token_type::{CONTROL, UNKNOWN, USER_DEFINED};
        let added = self.tokens.iter().enumerate().filter_map(|(id, content)| {
            let special = match self.token_type(id)? {
                CONTROL | UNKNOWN => true,
                USER_DEFINED => false,
                _ => return None,
            };
            Some(json!({
                "id": id,
                "content": content,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": special,
            }))
        });
        added.collect()
    }
}

fn byte_level(add_prefix_space: bool) -> Value {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": true,
        "use_regex": true,
    })
}

/// A problem with the metadata key `tokenizer.ggml.<key>`.
fn field(key: &str, problem: FieldProblem) -> Error {
    Error::field(ORIGIN, format!("tokenizer.ggml.{key}"), problem)
}
