//! `rocstar model convert`: any model that can be read, as a Hugging Face folder.
//!
//! Invariant: the folder stands at its place whole or not at all. It is written beside its place
//! and renamed; what a killed conversion left is swept by the next one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_nn::files::{self, DEFAULT_SHARD_BYTES, Format, Source, StoreAs, adapters};
use rocstar_train::checkpoint::TOOLS;
use serde::Serialize;

use crate::failure::Finish;
use crate::models;
use crate::partial::{self, Partial};
use crate::quantity::{parse_size, show_size};
use crate::terminal::Terminal;

/// Write a model as a Hugging Face folder
///
/// From GGUF: dequantises the weights, and writes the tokenizer and chat template that the file
/// carries. From another folder: changes the number format, and copies the tokenizer. The result
/// opens in transformers, and in everything that reads such folders.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A Hugging Face folder, a `.gguf` file, or the name of a fetched model
    #[arg(value_name = "IN")]
    model: String,
    /// The folder to write; it must not exist, or be empty
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number format of the weights
    #[arg(long, value_enum, default_value_t = NumberFormat::Bf16)]
    dtype: NumberFormat,
    /// Begin another file of weights beyond this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value_t = DEFAULT_SHARD_BYTES)]
    shard_bytes: u64,
    /// Merge the LoRA adapters of this folder (PEFT's format) into the weights
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How weights can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum NumberFormat {
    /// Exact, 4 bytes a number
    F32,
    /// 2 bytes a number, the range of f32
    Bf16,
    /// 2 bytes a number, more digits, at most 65,504
    F16,
}

impl From<NumberFormat> for StoreAs {
    fn from(format: NumberFormat) -> Self {
        match format {
            NumberFormat::F32 => Self::F32,
            NumberFormat::Bf16 => Self::Bf16,
            NumberFormat::F16 => Self::F16,
        }
    }
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Converted {
    path: PathBuf,
    parameters: u64,
    dtype: NumberFormat,
    bytes: u64,
    /// Files written, by name.
    files: Vec<String>,
}

/// Files of a folder that are about text, which a conversion keeps as they are.
const TEXT_FILES: [&str; 11] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    TOOLS,
];

impl Convert {
    /// Runs the command.
    ///
    /// # Errors
    /// The model can't be read, or the folder can't be written.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let out = std::path::absolute(&self.out)?;
        partial::refuse_occupied(&out)?;
        let model = models::resolve_model(&self.model)?;
        // Adapters that don't fit are told before the weights are read.
        let adapters = match &self.adapter {
            Some(folder) => Some(adapters::load(folder, &files::inspect(&model)?.config)?),
            None => None,
        };
        let bar = terminal.byte_bar("reading", 0);
        let mut loaded = files::load_with_progress(&model, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })?;
        if let Some(adapters) = &adapters {
            adapters.merge(&mut loaded.parameters);
        }
        bar.set_message("writing");
        let partial = Partial::beside(&out)?;
        let folder = partial.path();
        write_text(&loaded.source, &folder, terminal)?;
        let store = self.dtype.into();
        files::save(&folder, &loaded.config, &loaded.parameters, store, self.shard_bytes)?;
        let (files, bytes) = list(&folder)?;
        partial.put_in_place(&out)?;
        bar.finish_and_clear();
        let parameters = loaded.parameters.values().len() as u64;
        let converted = Converted { path: out, parameters, dtype: self.dtype, bytes, files };
        terminal.note(format_args!(
            "model: {} in {} files at {}",
            show_size(converted.bytes),
            converted.files.len(),
            converted.path.display()
        ));
        if self.json {
            terminal.json(&converted)?;
        }
        Ok(Finish::Good)
    }
}

/// Tokenizer and chat template.
fn write_text(source: &Source, folder: &Path, terminal: Terminal) -> anyhow::Result<()> {
    match source.format {
        Format::HuggingFace => {
            for name in TEXT_FILES {
                let file = source.path.join(name);
                if file.exists() {
                    std::fs::copy(&file, folder.join(name))
                        .with_context(|| format!("can't copy `{}`", file.display()))?;
                }
            }
            if !source.path.join("tokenizer.json").exists() {
                terminal
                    .note("note: the folder has no `tokenizer.json`, so neither has the result");
            }
        }
        Format::Gguf => {
            let gguf = files::Gguf::open(&source.path)?;
            if gguf.metadata("tokenizer.ggml.model").is_none() {
                terminal.note("note: the file carries no tokenizer, so the result has none");
                return Ok(());
            }
            models::tokenizer_of_gguf(&gguf)?.save(folder)?;
        }
    }
    Ok(())
}

/// Names of the files in `folder`, sorted, and their size.
fn list(folder: &Path) -> anyhow::Result<(Vec<String>, u64)> {
    let mut files = Vec::new();
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += entry.metadata()?.len();
        files.push(entry.file_name().to_string_lossy().into_owned());
    }
    files.sort();
    Ok((files, bytes))
}
