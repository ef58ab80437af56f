//! Writing a tokenizer as the files of a Hugging Face folder.
//!
//! Invariant: what is written is read back to the same ids, by us and by transformers.

use std::{fs, path::Path};

use serde_json::Value;

use super::config::Config;
use crate::error::Error;

pub(super) fn to_folder(
    tokenizer: &tokenizers::Tokenizer,
    config: &Config,
    folder: &Path,
) -> Result<(), Error> {
    let json = tokenizer
        .to_string(false)
        .map_err(|source| Error::Build { file: "tokenizer.json".to_owned(), source })?;
    write(&folder.join("tokenizer.json"), &json)?;

    let mut keys = config.keys.clone();
    // The class that takes tokenizer.json as it is, for files that named none.
    keys.entry("tokenizer_class").or_insert_with(|| "PreTrainedTokenizerFast".into());
    // The old default removes spaces before punctuation when decoding.
    keys.entry("clean_up_tokenization_spaces").or_insert(Value::Bool(false));
    let text = format!("{:#}\n", Value::Object(keys));
    write(&folder.join("tokenizer_config.json"), &text)?;

    if let Some(template) = &config.templates.usual {
        write(&folder.join("chat_template.jinja"), template)?;
    }
    if let Some(template) = &config.templates.with_tools {
        let more = folder.join("additional_chat_templates");
        fs::create_dir_all(&more).map_err(|source| Error::Write { path: more.clone(), source })?;
        write(&more.join("tool_use.jinja"), template)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}
