//! Building a tokenizer from its files, and every check that makes a bad file an error now rather
//! than a wrong id later.

use std::{fs, path::Path, sync::Arc};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::{AddedToken, ModelWrapper};

use super::{
    Shared, Tokenizer,
    bytes::{self, Kind, Spelling, TokenTable},
    config::{Config, TemplateSources},
};
use crate::{
    error::{Error, FieldProblem},
    gguf::{self, GgufTokenizer},
};

pub(super) fn from_folder(folder: &Path) -> Result<Tokenizer, Error> {
    let path = folder.join("tokenizer.json");
    let json = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    from_json(&json, &path.display().to_string(), Config::read(folder)?)
}

pub(super) fn from_gguf(gguf: GgufTokenizer) -> Result<Tokenizer, Error> {
    let json = gguf.to_tokenizer_json()?.to_string();
    let keys = gguf.to_config_json()?;
    let templates = TemplateSources {
        file: gguf::ORIGIN.to_owned(),
        usual: gguf.chat_template,
        with_tools: None,
    };
    let config = Config { file: gguf::ORIGIN.to_owned(), keys, templates };
    from_json(json.as_bytes(), gguf::ORIGIN, config)
}

pub(super) fn from_json(json: &[u8], file: &str, config: Config) -> Result<Tokenizer, Error> {
    let stated: StatedTokens = serde_json::from_slice(json)
        .map_err(|source| Error::Json { file: file.to_owned(), source })?;
    let mut parsing = tokenizers::Tokenizer::from_bytes(json)
        .map_err(|source| Error::Build { file: file.to_owned(), source })?;
    stated.check(&parsing, file)?;
    check_highest(&parsing, file)?;
    check_dropout(&parsing, file)?;
    forget_lengths(&mut parsing).map_err(|source| build_error(file, source))?;
    add_configured(&mut parsing, &config)?;

    let spelling = spelling_of(&parsing, file)?;
    let table = table_of(&parsing, spelling);
    let missing_bytes = missing_bytes_of(&parsing, spelling);
    let mut plain = parsing.clone();
    plain.set_encode_special_tokens(true);
    let special_texts = special_texts_of(&parsing);
    let shared = Shared { parsing, plain, table, special_texts, spelling, missing_bytes, config };
    Ok(Tokenizer { shared: Arc::new(shared) })
}

fn build_error(file: &str, source: crate::error::LibraryError) -> Error {
    Error::Build { file: file.to_owned(), source }
}

/// The part of a tokenizer.json whose ids the library takes for a wish only.
#[derive(Deserialize)]
struct StatedTokens {
    #[serde(default)]
    added_tokens: Vec<StatedToken>,
    /// Named here, so that a file without it is told so.
    #[serde(rename = "model")]
    _model: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
struct StatedToken {
    id: u32,
    content: String,
}

impl StatedTokens {
    fn check(&self, tokenizer: &tokenizers::Tokenizer, file: &str) -> Result<(), Error> {
        for (index, StatedToken { id, content }) in self.added_tokens.iter().enumerate() {
            check_id(tokenizer, file, &format!("added_tokens[{index}]"), content, *id)?;
        }
        Ok(())
    }
}

fn check_id(
    tokenizer: &tokenizers::Tokenizer,
    file: &str,
    field: &str,
    token: &str,
    stated: u32,
) -> Result<(), Error> {
    match tokenizer.token_to_id(token) {
        Some(actual) if actual != stated => {
            let problem = FieldProblem::OtherId { token: token.to_owned(), stated, actual };
            Err(Error::field(file, field, problem))
        }
        _ => Ok(()),
    }
}

/// Highest id: far beyond every known vocabulary, and small enough for a table of all ids.
const HIGHEST_ID: u32 = (1 << 24) - 1;

/// A vocabulary may give its tokens any ids, and every id below the highest takes memory.
fn check_highest(tokenizer: &tokenizers::Tokenizer, file: &str) -> Result<(), Error> {
    match tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id) {
        Some((token, id)) if id > HIGHEST_ID => {
            let problem = FieldProblem::IdTooHigh { token, id, most: HIGHEST_ID };
            Err(Error::field(file, "model.vocab", problem))
        }
        _ => Ok(()),
    }
}

/// Dropout would make the ids of a text random.
fn check_dropout(tokenizer: &tokenizers::Tokenizer, file: &str) -> Result<(), Error> {
    match tokenizer.get_model() {
        ModelWrapper::BPE(bpe) => match bpe.dropout {
            Some(dropout) if dropout > 0.0 => {
                let problem = FieldProblem::Dropout { dropout: dropout.to_string() };
                Err(Error::field(file, "model.dropout", problem))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Truncation and padding that a file carries are for batches of another program.
fn forget_lengths(tokenizer: &mut tokenizers::Tokenizer) -> Result<(), crate::error::LibraryError> {
    tokenizer.with_truncation(None)?;
    tokenizer.with_padding(None);
    Ok(())
}

/// Tokens that only `tokenizer_config.json` lists, and named tokens that nothing marks as control
/// tokens.
fn add_configured(tokenizer: &mut tokenizers::Tokenizer, config: &Config) -> Result<(), Error> {
    let failed = |source| build_error(&config.file, source);
    for listed in config.listed_tokens()? {
        let content = listed.token.content.clone();
        tokenizer.add_tokens([listed.token]).map_err(failed)?;
        let field = format!("added_tokens_decoder.{}", listed.id);
        check_id(tokenizer, &config.file, &field, &content, listed.id)?;
    }
    for (_, text) in config.named_tokens() {
        let is_special = tokenizer.get_added_vocabulary().is_special_token(text);
        if !is_special && tokenizer.token_to_id(text).is_some() {
            tokenizer.add_special_tokens([AddedToken::from(text, true)]).map_err(failed)?;
        }
    }
    Ok(())
}

/// How the decoder says that tokens are written.
fn spelling_of(tokenizer: &tokenizers::Tokenizer, file: &str) -> Result<Spelling, Error> {
    let decoder = serde_json::to_value(tokenizer.get_decoder())
        .map_err(|source| Error::Json { file: file.to_owned(), source })?;
    let steps = match decoder.get("decoders").and_then(Value::as_array) {
        Some(steps) => steps.iter().collect(),
        None => vec![&decoder],
    };
    let kind = |step: &Value| step.get("type").and_then(Value::as_str).unwrap_or("none").to_owned();
    if let [only] = steps[..]
        && kind(only) == "ByteLevel"
    {
        return Ok(Spelling::ByteLevel);
    }
    let mut strips_first_space = false;
    for step in steps {
        match kind(step).as_str() {
            "ByteFallback" | "Fuse" => {}
            "Replace" if *step.pointer("/pattern/String").unwrap_or(&Value::Null) == "▁" => {}
            "Strip" if step["content"] == " " && step["start"] == 1 && step["stop"] == 0 => {
                strips_first_space = true;
            }
            "Metaspace" if step["replacement"] == "▁" => {
                strips_first_space |= step["prepend_scheme"] != "never";
            }
            other => {
                let found = other.to_owned();
                let known = "`ByteLevel` and the steps of byte fallback".to_owned();
                let problem = FieldProblem::Unknown { found, known };
                return Err(Error::field(file, "decoder", problem));
            }
        }
    }
    Ok(Spelling::ByteFallback { strips_first_space })
}

/// The table of every id.
fn table_of(tokenizer: &tokenizers::Tokenizer, spelling: Spelling) -> TokenTable {
    let added = tokenizer.get_added_tokens_decoder();
    let highest = tokenizer.get_vocab(true).into_values().max();
    let mut table = TokenTable::default();
    for id in 0..highest.map_or(0, |highest| highest + 1) {
        if let Some(token) = added.get(&id) {
            let kind = if token.special { Kind::Special } else { Kind::Ordinary };
            table.push(kind, |out| out.extend_from_slice(token.content.as_bytes()));
        } else if let Some(token) = tokenizer.id_to_token(id) {
            table.push(Kind::Ordinary, |out| bytes::spell(&token, spelling, out));
        } else {
            table.push(Kind::Absent, |_| {});
        }
    }
    table
}

/// Texts of the control tokens, the longest first.
fn special_texts_of(tokenizer: &tokenizers::Tokenizer) -> Arc<[String]> {
    let added = tokenizer.get_added_tokens_decoder();
    let special = added.into_values().filter(|token| token.special && !token.content.is_empty());
    let mut texts: Vec<_> = special.map(|token| token.content).collect();
    texts.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    texts.into()
}

/// Bytes for which a byte-level vocabulary has no token.
fn missing_bytes_of(tokenizer: &tokenizers::Tokenizer, spelling: Spelling) -> Vec<u8> {
    if spelling != Spelling::ByteLevel {
        return Vec::new();
    }
    let lacks = |byte: &u8| {
        tokenizer.token_to_id(bytes::character_of(*byte).encode_utf8(&mut [0; 4])).is_none()
    };
    (0..=u8::MAX).filter(lacks).collect()
}
