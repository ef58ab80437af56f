//! Text to token ids and back, exactly as the model's own tokenizer does it.
//!
//! What is hidden: the `tokenizers` crate, where the vocabulary came from, and how tokens spell
//! bytes. Invariants: [`Special::AsText`] never yields a control token, whatever the text holds;
//! decoding is the joining of [`Tokenizer::token_bytes`], so that it can be streamed; nothing is
//! truncated, padded or given a begin token on its own.

pub(crate) mod bytes;
mod config;
mod load;
mod save;

use std::{borrow::Cow, path::Path, sync::Arc};

use self::{
    bytes::{Kind, Spelling, TokenTable},
    config::Config,
};
use crate::{error::Error, gguf::GgufTokenizer, template::Template};

pub(crate) use config::{Config as TokenizerConfig, TemplateSources};

/// What the text of control tokens becomes on encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// The control token: for text that we or a template wrote.
    Parse,
    /// Ordinary tokens that spell it: for text that a user, a tool or a data set wrote.
    AsText,
}

/// Whether decoding shows control tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Every token.
    All,
    /// All but control tokens.
    WithoutSpecial,
}

/// A tokenizer; cloning shares it.
#[derive(Clone)]
pub struct Tokenizer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Turns the text of control tokens into control tokens.
    parsing: tokenizers::Tokenizer,
    /// Takes the text of control tokens for text.
    plain: tokenizers::Tokenizer,
    table: TokenTable,
    /// Texts of the control tokens, the longest first.
    special_texts: Arc<[String]>,
    spelling: Spelling,
    /// Bytes that no token spells; characters that need one can't be encoded.
    missing_bytes: Vec<u8>,
    config: Config,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a Hugging Face folder, with `tokenizer_config.json`,
    /// `special_tokens_map.json` and the chat template where they are there.
    ///
    /// # Errors
    /// Names the file and the field that can't be used.
    pub fn from_folder(folder: &Path) -> Result<Self, Error> {
        load::from_folder(folder)
    }

    /// Reads the bytes of a `tokenizer.json` alone.
    ///
    /// # Errors
    /// Names the field that can't be used.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        load::from_json(json, "tokenizer.json", Config::default())
    }

    /// Builds the tokenizer of a GGUF file.
    ///
    /// # Errors
    /// Names the metadata key that can't be used.
    pub fn from_gguf(gguf: GgufTokenizer) -> Result<Self, Error> {
        load::from_gguf(gguf)
    }

    /// Writes `tokenizer.json`, `tokenizer_config.json` and, where there is a template,
    /// `chat_template.jinja`, which transformers' `AutoTokenizer` opens.
    ///
    /// # Errors
    /// Where a file can't be written.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        save::to_folder(&self.shared.parsing, &self.shared.config, folder)
    }

    /// The highest id and 1: the least number of rows that a model's embedding needs.
    pub fn vocabulary_size(&self) -> usize {
        self.shared.table.len()
    }

    /// Ids of a text. No begin token is added.
    ///
    /// A character whose bytes the vocabulary lacks (SmolLM2 lacks some control characters) is
    /// encoded as U+FFFD, as decoders show what they can't show; see [`Self::missing_bytes`].
    ///
    /// # Errors
    /// Where the tokenizer fails, or where [`Special::AsText`] would give a control token all the
    /// same (a vocabulary whose unknown token is a control token, say).
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, Error> {
        let text = self.spellable(text);
        let encoding = self.library(special).encode_fast(text.as_ref(), false);
        let encoding = encoding.map_err(|source| encode_error(&text, source))?;
        let ids = encoding.get_ids();
        self.check_plain(ids, special)?;
        Ok(ids.to_vec())
    }

    /// Ids of a text, each with the byte at which its token starts.
    pub(crate) fn encode_with_starts(
        &self,
        text: &str,
        special: Special,
    ) -> Result<Vec<(u32, usize)>, Error> {
        let encoding = self.library(special).encode(text, false);
        let encoding = encoding.map_err(|source| encode_error(text, source))?;
        self.check_plain(encoding.get_ids(), special)?;
        let starts = encoding.get_offsets().iter().map(|&(start, _)| start);
        Ok(encoding.get_ids().iter().copied().zip(starts).collect())
    }

    /// The text with each character that can't be encoded replaced by U+FFFD.
    pub(crate) fn spellable<'text>(&self, text: &'text str) -> Cow<'text, str> {
        let missing = &self.shared.missing_bytes;
        if missing.is_empty() || !text.bytes().any(|byte| missing.contains(&byte)) {
            return Cow::Borrowed(text);
        }
        let replace = |character: char| {
            let mut buffer = [0; 4];
            let lacks = character.encode_utf8(&mut buffer).bytes().any(|b| missing.contains(&b));
            if lacks { char::REPLACEMENT_CHARACTER } else { character }
        };
        Cow::Owned(text.chars().map(replace).collect())
    }

    /// Text of tokens; bytes that are no UTF-8 become U+FFFD, ids without a token nothing.
    pub fn decode(&self, tokens: &[u32], show: Show) -> String {
        let mut bytes = Vec::new();
        let mut is_at_start = true;
        for &token in tokens {
            self.append_bytes(token, show, &mut is_at_start, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Adds what a token contributes to a decoded text.
    pub(crate) fn append_bytes(
        &self,
        token: u32,
        show: Show,
        is_at_start: &mut bool,
        out: &mut Vec<u8>,
    ) {
        if show == Show::WithoutSpecial && self.is_special(token) {
            return;
        }
        let Some(mut bytes) = self.token_bytes(token) else { return };
        let strips = Spelling::ByteFallback { strips_first_space: true };
        if *is_at_start && self.shared.spelling == strips && !self.is_special(token) {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        *is_at_start = false;
        out.extend_from_slice(bytes);
    }

    /// The bytes that a token stands for; `None` where no token has the id.
    pub fn token_bytes(&self, token: u32) -> Option<&[u8]> {
        self.shared.table.bytes(token)
    }

    /// The id of a token as the vocabulary writes it (byte-level vocabularies write `Ġ` for a
    /// space; control tokens are written as they are).
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.shared.parsing.token_to_id(token)
    }

    /// Whether a token is a control token.
    pub fn is_special(&self, token: u32) -> bool {
        self.shared.table.kind(token) == Kind::Special
    }

    /// The texts of all control tokens, the longest first.
    pub(crate) fn special_texts(&self) -> Arc<[String]> {
        Arc::clone(&self.shared.special_texts)
    }

    /// The chat template that the tokenizer's files hold, with the names of tokens that it may use.
    ///
    /// # Errors
    /// Where it is no valid Jinja.
    pub fn template(&self) -> Result<Option<Template>, Error> {
        Template::from_config(&self.shared.config)
    }

    /// Bytes that no token spells, in order; empty for nearly every vocabulary.
    pub fn missing_bytes(&self) -> &[u8] {
        &self.shared.missing_bytes
    }

    /// The token that the model's files name as begin of a text.
    pub fn begin_token(&self) -> Option<u32> {
        self.named("bos_token")
    }

    /// The token that the model's files name as end of a text or turn.
    pub fn end_token(&self) -> Option<u32> {
        self.named("eos_token")
    }

    /// The token that the model's files name for padding.
    pub fn padding_token(&self) -> Option<u32> {
        self.named("pad_token")
    }

    /// Whether the model expects the begin token before a text that no template made.
    pub fn expects_begin_token(&self) -> bool {
        self.shared.config.flag("add_bos_token").unwrap_or(false)
    }

    fn named(&self, role: &str) -> Option<u32> {
        self.token_id(self.shared.config.token_text(role)?)
    }

    fn library(&self, special: Special) -> &tokenizers::Tokenizer {
        match special {
            Special::Parse => &self.shared.parsing,
            Special::AsText => &self.shared.plain,
        }
    }

    fn check_plain(&self, ids: &[u32], special: Special) -> Result<(), Error> {
        if special == Special::Parse {
            return Ok(());
        }
        match ids.iter().find(|&&id| self.is_special(id)) {
            None => Ok(()),
            Some(&id) => {
                let token = self.token_bytes(id).unwrap_or_default();
                Err(Error::ControlFromText { token: String::from_utf8_lossy(token).into_owned() })
            }
        }
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("vocabulary_size", &self.vocabulary_size())
            .finish_non_exhaustive()
    }
}

fn encode_error(text: &str, source: crate::error::LibraryError) -> Error {
    Error::Encode { text_bytes: text.len(), source }
}
