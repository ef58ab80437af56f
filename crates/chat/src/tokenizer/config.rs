//! `tokenizer_config.json` and the files beside it: which tokens are named, and the chat template.
//!
//! Invariant: what is read is what is saved again; keys that we do not know are kept.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::error::{Error, FieldProblem};

/// Keys that name one token each.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What stands beside a tokenizer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// The file it came from, for errors.
    pub(crate) file: String,
    /// All keys but `chat_template`.
    pub(crate) keys: Map<String, Value>,
    /// The chat template.
    pub(crate) templates: TemplateSources,
}

/// Templates as text: the usual one, and one for conversations with tools where the model has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TemplateSources {
    /// Where it stands, for errors.
    pub(crate) file: String,
    pub(crate) usual: Option<String>,
    pub(crate) with_tools: Option<String>,
}

/// A token that the config wants in the tokenizer.
pub(super) struct ListedToken {
    pub(super) id: u32,
    pub(super) token: tokenizers::AddedToken,
}

impl Config {
    /// Reads what a folder has; absent files leave their part empty.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("tokenizer_config.json");
        let file = path.display().to_string();
        let mut keys = read_object(&path)?.unwrap_or_default();
        if let Some(map) = read_object(&folder.join("special_tokens_map.json"))? {
            for (key, value) in map {
                if NAMED.contains(&key.as_str()) && keys.get(&key).is_none_or(Value::is_null) {
                    keys.insert(key, value);
                }
            }
        }
        let inside = keys.shift_remove("chat_template");
        let templates = TemplateSources::read(folder, &file, inside)?;
        let config = Self { file, keys, templates };
        config.check_named()?;
        Ok(config)
    }

    /// The text of a named token.
    pub(crate) fn token_text(&self, role: &str) -> Option<&str> {
        match self.keys.get(role)? {
            Value::String(text) => Some(text),
            Value::Object(token) => token.get("content")?.as_str(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    /// Every named token with its text.
    pub(crate) fn named_tokens(&self) -> impl Iterator<Item = (&'static str, &str)> {
        NAMED.iter().filter_map(|&role| Some((role, self.token_text(role)?)))
    }

    /// A setting that is true or false.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.keys.get(key)?.as_bool()
    }

    /// The tokens of `added_tokens_decoder`, by id.
    pub(super) fn listed_tokens(&self) -> Result<Vec<ListedToken>, Error> {
        let Some(value) = self.keys.get("added_tokens_decoder") else { return Ok(Vec::new()) };
        let key = "added_tokens_decoder";
        let entries = value.as_object().ok_or_else(|| self.type_error(key, "an object"))?;
        let mut tokens = Vec::with_capacity(entries.len());
        for (id, entry) in entries {
            let at = format!("{key}.{id}");
            let id = id.parse().map_err(|_| self.type_error(&at, "named by a token id"))?;
            let content = entry.get("content").and_then(Value::as_str);
            let content =
                content.ok_or_else(|| self.type_error(&at, "an object with `content`"))?;
            let flag = |name| entry.get(name).and_then(Value::as_bool).unwrap_or(false);
            let token = tokenizers::AddedToken::from(content, flag("special"))
                .single_word(flag("single_word"))
                .lstrip(flag("lstrip"))
                .rstrip(flag("rstrip"))
                .normalized(flag("normalized"));
            tokens.push(ListedToken { id, token });
        }
        tokens.sort_by_key(|listed| listed.id);
        Ok(tokens)
    }

    fn check_named(&self) -> Result<(), Error> {
        for role in NAMED {
            let is_fine = self.keys.get(role).is_none_or(Value::is_null);
            if !is_fine && self.token_text(role).is_none() {
                return Err(self.type_error(role, "text or an object with `content`"));
            }
        }
        Ok(())
    }

    fn type_error(&self, field: &str, expected: &'static str) -> Error {
        Error::field(&self.file, field, FieldProblem::Type { expected })
    }
}

impl TemplateSources {
    /// The template of a folder: `chat_template.jinja`, else what the config holds, which is text or
    /// a list of named templates.
    fn read(folder: &Path, config_file: &str, inside: Option<Value>) -> Result<Self, Error> {
        let path = folder.join("chat_template.jinja");
        if let Some(usual) = read_text(&path)? {
            let with_tools = read_text(&folder.join("additional_chat_templates/tool_use.jinja"))?;
            return Ok(Self { file: path.display().to_string(), usual: Some(usual), with_tools });
        }
        let mut sources = Self { file: config_file.to_owned(), ..Self::default() };
        let expected = "text or a list of objects with `name` and `template`";
        let type_error =
            |field: String| Error::field(config_file, field, FieldProblem::Type { expected });
        match inside {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => sources.usual = Some(text),
            Some(Value::Array(list)) => {
                for (index, entry) in list.iter().enumerate() {
                    let text = |key| entry.get(key).and_then(Value::as_str);
                    let (Some(name), Some(template)) = (text("name"), text("template")) else {
                        return Err(type_error(format!("chat_template[{index}]")));
                    };
                    match name {
                        "default" => sources.usual = Some(template.to_owned()),
                        "tool_use" => sources.with_tools = Some(template.to_owned()),
                        // Templates for other uses (retrieval, say) are not ours to choose.
                        _ => {}
                    }
                }
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                return Err(type_error("chat_template".to_owned()));
            }
        }
        Ok(sources)
    }
}

/// Text of a file; `None` where there is no such file.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: PathBuf::from(path), source }),
    }
}

fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let file = || path.display().to_string();
    serde_json::from_str(&text).map(Some).map_err(|source| Error::Json { file: file(), source })
}
