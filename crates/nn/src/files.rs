//! Models on disk: Hugging Face folders in and out, GGUF files in.
//!
//! [`load`] gives a configuration with all its weights as `f32`, whatever the file stores;
//! [`inspect`] reads headers only; [`save()`] writes a folder that `transformers` opens. Everything a
//! file claims is checked against the file before memory is taken for it, and against the
//! configuration before a value is read: what [`load`] gives is complete, of the right shapes, and
//! finite.
//!
//! Weights are read through a memory map. Limit: a file that another process shortens while it is
//! read ends this process with a bus error; replace files of models by renaming, as [`save()`] does.

pub mod adapters;
mod config_json;
mod error;
mod folder;
pub mod gguf;
mod map;
mod number_format;
mod read;
pub mod safetensors;
mod save;
mod sizes;

use std::path::{Path, PathBuf};

pub use error::Error;
pub use gguf::Gguf;
pub use number_format::NumberFormat;

use crate::config::ModelConfig;
use crate::parameters::Parameters;

/// A model in memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its shape.
    pub config: ModelConfig,
    /// Its weights, all finite.
    pub parameters: Parameters,
    /// Where they came from.
    pub source: Source,
}

/// Where a model lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What was given to [`load`]: a folder or a file.
    pub path: PathBuf,
    /// What it is.
    pub format: Format,
}

/// How a model lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A folder with `config.json` and safetensors.
    HuggingFace,
    /// One GGUF file.
    Gguf,
}

/// What the headers of a model say; no weight has been read.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Where it lies.
    pub source: Source,
    /// Its shape.
    pub config: ModelConfig,
    /// Its weights, in the order of the files.
    pub tensors: Vec<TensorEntry>,
    /// There is a tokenizer: `tokenizer.json`, or in GGUF metadata.
    pub has_tokenizer: bool,
    /// There is a chat template: `chat_template.jinja`, in `tokenizer_config.json`, or in GGUF
    /// metadata.
    pub has_chat_template: bool,
}

/// One weight, as a header describes it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TensorEntry {
    /// Its name in the file.
    pub name: String,
    /// Slowest dimension first, `[out, in]`, also for GGUF.
    pub shape: Vec<u64>,
    /// Its number format, as the file's format spells it: `BF16`, `Q4_K`.
    pub stored_as: String,
    /// Its size in the file.
    pub bytes: u64,
}

/// Number format of the weights that [`save()`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreAs {
    /// Exact.
    #[default]
    F32,
    /// Rounded to the nearest, ties to even.
    Bf16,
    /// Rounded to the nearest, ties to even; a value beyond 65,504 is refused.
    F16,
}

/// Called while weights are read, from any thread: bytes done and bytes in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Reads a model: a Hugging Face folder (`config.json` with `model.safetensors`, or shards with
/// their index) or a `.gguf` file.
///
/// # Errors
/// The first thing that is wrong, with its file and field. See [`Error`].
pub fn load(path: &Path) -> Result<Loaded, Error> {
    load_with_progress(path, &|_, _| {})
}

/// Like [`load`], telling how far it is.
///
/// # Errors
/// As [`load`].
pub fn load_with_progress(path: &Path, progress: Progress<'_>) -> Result<Loaded, Error> {
    match format(path)? {
        Format::HuggingFace => folder::load(path, progress),
        Format::Gguf => gguf::load(&Gguf::open(path)?, progress),
    }
}

/// Reads what the headers say, and no weights.
///
/// # Errors
/// As [`load`], but for names, shapes and values of weights, which are not compared.
pub fn inspect(path: &Path) -> Result<Inspection, Error> {
    match format(path)? {
        Format::HuggingFace => folder::inspect(path),
        Format::Gguf => gguf::inspect(&Gguf::open(path)?),
    }
}

/// Reads a model's shape only; its weights need not be there.
///
/// # Errors
/// As [`load`], but for the weights.
pub fn config(path: &Path) -> Result<ModelConfig, Error> {
    match format(path)? {
        Format::HuggingFace => config_json::read(path),
        Format::Gguf => Gguf::open(path)?.config(),
    }
}

/// What lies at `path`.
fn format(path: &Path) -> Result<Format, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("open", path))?;
    if metadata.is_file() {
        // A file of another kind is told by its first bytes.
        return Ok(Format::Gguf);
    }
    if path.join(config_json::FILE).exists() {
        return Ok(Format::HuggingFace);
    }
    let problem = format!("the folder has no `{}`", config_json::FILE);
    Err(Error::NoModel { path: path.into(), problem })
}

/// Shard size beyond which [`save()`] begins another file, unless told otherwise.
pub const DEFAULT_SHARD_BYTES: u64 = 5_000_000_000;

/// Writes `config.json` and `model.safetensors` (or shards of at most `shard_bytes` with their
/// index) into `folder`, which is created if need be and may hold other files, such as a tokenizer,
/// but no model.
///
/// Each file is written under another name, flushed to disk, and renamed; `config.json` comes last,
/// so a folder that has one is whole.
///
/// # Errors
/// The folder holds a model already, parameters and configuration don't fit together, a value can't
/// be stored in this format, or the disk refuses.
pub fn save(
    folder: &Path,
    config: &ModelConfig,
    parameters: &Parameters,
    store: StoreAs,
    shard_bytes: u64,
) -> Result<(), Error> {
    save::save(folder, config, parameters, store, shard_bytes)
}
