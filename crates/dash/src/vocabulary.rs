//! Tokens to text, by the `tokenizer.json` that a run saved with its weights.
//!
//! Only what showing text needs is read of it: each token's bytes, and which tokens are control
//! tokens. A tokenizer that can also encode would take ten times the memory. Invariant: any ids give
//! text; an id that is not known is shown as its number.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::Error;

/// Largest `tokenizer.json` that is read.
const MAX_BYTES: u64 = 64 << 20;
/// Highest id that has a place.
const MAX_ID: u32 = 1 << 20;

/// The bytes of each token.
#[derive(Debug, Default)]
pub struct Vocabulary {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Token {
    #[default]
    Unknown,
    Bytes(Box<[u8]>),
    Special(Box<str>),
}

#[derive(Deserialize)]
struct File {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    decoder: Value,
}

#[derive(Deserialize)]
struct Model {
    vocab: Vocab,
}

/// By name, or in the order of ids with a score.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vocab {
    Ids(HashMap<String, u32>),
    Scored(Vec<(String, f64)>),
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

/// How a token's name spells its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// A letter for each byte, as GPT-2 has it.
    ByteLetters,
    /// `▁` for a space and `<0x0A>` for a byte, as SentencePiece has it.
    Pieces,
}

impl Vocabulary {
    /// From the `tokenizer.json` at `path`.
    ///
    /// # Errors
    /// The file can't be read, is too large, or is no such file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let on_path = |source| Error::File { path: path.to_owned(), source };
        let metadata = std::fs::symlink_metadata(path).map_err(on_path)?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(on_path(std::io::Error::other("it is too large, or no ordinary file")));
        }
        let text = std::fs::read(path).map_err(on_path)?;
        Self::from_json(&text).map_err(|error| on_path(error.into()))
    }

    fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        let file: File = serde_json::from_slice(text)?;
        let spelling = match mentions(&file.decoder, "ByteLevel") {
            true => Spelling::ByteLetters,
            false => Spelling::Pieces,
        };
        let letters = byte_letters();
        let mut vocabulary = Self::default();
        let bytes = |name: &str| Token::Bytes(spell(name, spelling, &letters).into());
        match &file.model.vocab {
            Vocab::Ids(ids) => {
                ids.iter().for_each(|(name, id)| vocabulary.set(*id, bytes(name)));
            }
            Vocab::Scored(all) => {
                (0..).zip(all).for_each(|(id, (name, _))| vocabulary.set(id, bytes(name)));
            }
        }
        for added in file.added_tokens {
            let token = if added.special {
                Token::Special(added.content.into())
            } else {
                Token::Bytes(added.content.into_bytes().into())
            };
            vocabulary.set(added.id, token);
        }
        Ok(vocabulary)
    }

    fn set(&mut self, id: u32, token: Token) {
        if id > MAX_ID {
            return;
        }
        let at = id as usize;
        if self.tokens.len() <= at {
            self.tokens.resize(at + 1, Token::Unknown);
        }
        self.tokens[at] = token;
    }

    /// Whether any token is known.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    fn get(&self, id: u32) -> &Token {
        self.tokens.get(id as usize).unwrap_or(&Token::Unknown)
    }

    /// The text of all tokens, control tokens left out.
    pub fn text(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for id in ids {
            match self.get(*id) {
                Token::Bytes(more) => bytes.extend_from_slice(more),
                Token::Special(_) => {}
                Token::Unknown => bytes.extend(format!("⟨{id}⟩").bytes()),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// One token alone, and whether it is a control token; bytes that are no whole letter as their
    /// numbers.
    pub fn token(&self, id: u32) -> (String, bool) {
        match self.get(id) {
            Token::Special(name) => (name.to_string(), true),
            Token::Unknown => (format!("⟨{id}⟩"), false),
            Token::Bytes(bytes) => {
                let shown = |bytes: &[u8]| bytes.iter().map(|it| format!("⟨{it:02x}⟩")).collect();
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                (text.unwrap_or_else(|_| shown(bytes)), false)
            }
        }
    }
}

fn mentions(value: &Value, kind: &str) -> bool {
    match value {
        Value::Object(all) => {
            all.get("type").and_then(Value::as_str) == Some(kind)
                || all.get("decoders").is_some_and(|inner| mentions(inner, kind))
        }
        // As deep as such files are; what nests deeper can't be one.
        Value::Array(all) => all.iter().any(|one| one.get("type").is_some_and(|it| it == kind)),
        _ => false,
    }
}

fn spell(name: &str, spelling: Spelling, letters: &HashMap<char, u8>) -> Vec<u8> {
    match spelling {
        Spelling::ByteLetters => {
            let bytes: Option<Vec<u8>> = name.chars().map(|it| letters.get(&it).copied()).collect();
            bytes.unwrap_or_else(|| name.as_bytes().to_vec())
        }
        Spelling::Pieces => {
            let byte = name.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
            match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(byte) => vec![byte],
                None => name.replace('▁', " ").into_bytes(),
            }
        }
    }
}

/// GPT-2's letters: printable bytes of Latin-1 stand for themselves, the others follow from U+0100.
fn byte_letters() -> HashMap<char, u8> {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=u8::MAX).filter(|byte| !plain(*byte));
    let moved =
        (0x100_u32..).zip(others).filter_map(|(at, byte)| Some((char::from_u32(at)?, byte)));
    (0..=u8::MAX)
        .filter(|byte| plain(*byte))
        .map(|byte| (char::from(byte), byte))
        .chain(moved)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spelt_by_letters_or_by_pieces() {
        let text = r#"{"model":{"vocab":{"Ġa":0,"Ċ":1,"Ã":2,"©":3}},"decoder":{"type":"ByteLevel"},
            "added_tokens":[{"id":4,"content":"<|end|>","special":true}]}"#;
        let vocabulary = Vocabulary::from_json(text.as_bytes()).unwrap();
        assert_eq!(vocabulary.text(&[0, 1, 2, 3, 4, 9]), " a\né⟨9⟩");
        assert_eq!(vocabulary.token(4), ("<|end|>".to_owned(), true));
        assert_eq!(vocabulary.token(2), ("⟨c3⟩".to_owned(), false));
        let text = r#"{"model":{"vocab":[["▁a",0.0],["<0x0A>",0.0]]}}"#;
        let vocabulary = Vocabulary::from_json(text.as_bytes()).unwrap();
        assert_eq!(vocabulary.text(&[0, 1]), " a\n");
    }

    #[test]
    fn hostile_files_take_no_room() {
        let text = r#"{"model":{"vocab":{"a":4294967295}}}"#;
        assert!(Vocabulary::from_json(text.as_bytes()).unwrap().is_empty());
        assert!(Vocabulary::from_json(b"{}").is_err());
        assert_eq!(Vocabulary::default().text(&[7]), "⟨7⟩");
    }
}
