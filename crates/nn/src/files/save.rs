//! Hugging Face folders out.
//!
//! Invariant: a folder with `config.json` is whole. Every file is written under a temporary name,
//! flushed to disk and renamed; `config.json` is the last, and the folder is flushed after it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use half::{bf16, f16};

use super::folder::{INDEX_FILE, WEIGHTS_FILE};
use super::{Error, StoreAs, config_json};
use crate::config::ModelConfig;
use crate::parameters::{Layout, Parameters, Tensor};

impl StoreAs {
    /// The name that PyTorch gives it.
    pub(super) const fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    /// The name that safetensors gives it.
    const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The values in this format, little-endian.
    fn encode(self, values: &[f32], bytes: &mut Vec<u8>) {
        bytes.clear();
        match self {
            Self::F32 => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Bf16 => {
                bytes.extend(values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()));
            }
            Self::F16 => {
                bytes.extend(values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()));
            }
        }
    }
}

/// A tensor on its way into a file.
pub(super) struct Outgoing<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [usize],
    pub(super) values: &'a [f32],
}

/// Writes a model into `folder`.
pub(super) fn save(
    folder: &Path,
    config: &ModelConfig,
    parameters: &Parameters,
    store: StoreAs,
    shard_bytes: u64,
) -> Result<(), Error> {
    check(config, parameters, store)?;
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    refuse_occupied(folder)?;
    let shards = shards(parameters.layout().tensors(), store, shard_bytes);
    let names: Vec<String> = match shards.len() {
        1 => vec![WEIGHTS_FILE.into()],
        count => {
            (1..=count).map(|index| format!("model-{index:05}-of-{count:05}.safetensors")).collect()
        }
    };
    for (name, tensors) in names.iter().zip(&shards) {
        let outgoing = tensors.iter().map(|tensor| Outgoing {
            name: &tensor.name,
            shape: &tensor.shape,
            values: &parameters.values()[tensor.range.clone()],
        });
        write_tensors(&folder.join(name), &outgoing.collect::<Vec<_>>(), store)?;
    }
    if names.len() > 1 {
        let path = folder.join(INDEX_FILE);
        write_file(&path, &json(&path, index(&names, &shards, store))?)?;
    }
    let path = folder.join(config_json::FILE);
    write_file(&path, &json(&path, config_json::write(config, store))?)
}

/// Everything that can be known before a byte is written.
fn check(config: &ModelConfig, parameters: &Parameters, store: StoreAs) -> Result<(), Error> {
    super::sizes::check(config)
        .map_err(|(field, problem)| Error::Mismatch { problem: format!("`{field}` {problem}") })?;
    let layout = parameters.layout();
    if **layout != Layout::new(config) {
        let problem = format!("the layout is another ({} values)", layout.len());
        return Err(Error::Mismatch { problem });
    }
    for tensor in layout.tensors() {
        let values = &parameters.values()[tensor.range.clone()];
        let storable = |value: &f32| {
            let stored = match store {
                StoreAs::F32 => *value,
                StoreAs::Bf16 => bf16::from_f32(*value).to_f32(),
                StoreAs::F16 => f16::from_f32(*value).to_f32(),
            };
            stored.is_finite()
        };
        if let Some(index) = values.iter().position(|value| !storable(value)) {
            let (value, name) = (values[index], &tensor.name);
            return Err(Error::Mismatch {
                problem: format!(
                    "`{name}` has {value} at index {index}, which {} can't hold as a weight",
                    store.torch_name()
                ),
            });
        }
    }
    Ok(())
}

fn refuse_occupied(folder: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let name = entry.map_err(Error::io("read", folder))?.file_name();
        let name = name.to_string_lossy();
        let is_weights = name.starts_with("model") && name.ends_with(".safetensors");
        if is_weights || name == INDEX_FILE || name == config_json::FILE {
            return Err(Error::Occupied { path: folder.into(), found: name.into() });
        }
    }
    Ok(())
}

/// Tensors in their order, as many in a shard as fit; one that is too large has one alone.
fn shards(tensors: &[Tensor], store: StoreAs, shard_bytes: u64) -> Vec<&[Tensor]> {
    let mut shards = Vec::new();
    let (mut start, mut filled) = (0, 0);
    for (index, tensor) in tensors.iter().enumerate() {
        let bytes = (tensor.range.len() * store.bytes()) as u64;
        if filled > 0 && filled + bytes > shard_bytes {
            shards.push(&tensors[start..index]);
            (start, filled) = (index, 0);
        }
        filled += bytes;
    }
    shards.push(&tensors[start..]);
    shards
}

/// The text of the index.
fn index(names: &[String], shards: &[&[Tensor]], store: StoreAs) -> serde_json::Result<Vec<u8>> {
    let tensors = shards.iter().flat_map(|shard| shard.iter());
    let total: usize = tensors.map(|tensor| tensor.range.len()).sum();
    let places = names.iter().zip(shards);
    let places = places.flat_map(|(name, shard)| shard.iter().map(move |tensor| (tensor, name)));
    let map: BTreeMap<&str, &str> =
        places.map(|(tensor, name)| (tensor.name.as_str(), name.as_str())).collect();
    let index = serde_json::json!({
        "metadata": { "total_parameters": total, "total_size": total * store.bytes() },
        "weight_map": map,
    });
    let mut text = serde_json::to_vec_pretty(&index)?;
    text.push(b'\n');
    Ok(text)
}

/// An error of writing JSON, with the file it was for.
pub(super) fn json<T>(path: &Path, result: serde_json::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Json { path: path.into(), source })
}

/// Values that are encoded at a time.
const PART_VALUES: usize = 1 << 16;

/// Writes a safetensors file with the tensors in this order.
pub(super) fn write_tensors(
    path: &Path,
    tensors: &[Outgoing<'_>],
    store: StoreAs,
) -> Result<(), Error> {
    let header = json(path, header(tensors, store))?;
    write_whole(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let mut bytes = Vec::new();
        for part in tensors.iter().flat_map(|tensor| tensor.values.chunks(PART_VALUES)) {
            store.encode(part, &mut bytes);
            file.write_all(&bytes)?;
        }
        Ok(())
    })
}

/// The header's JSON, padded so that the data is aligned.
fn header(tensors: &[Outgoing<'_>], store: StoreAs) -> serde_json::Result<Vec<u8>> {
    // `transformers` asks for this mark.
    let mut entries = serde_json::json!({ "__metadata__": { "format": "pt" } });
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.values.len() * store.bytes();
        entries[tensor.name] = serde_json::json!({
            "dtype": store.name(),
            "shape": tensor.shape,
            "data_offsets": [start, end],
        });
        start = end;
    }
    let mut header = serde_json::to_vec(&entries)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

/// Writes a file with `write`, under a temporary name; flushes and renames it. What failed is
/// removed.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), Error> {
    let partial = partial(path);
    let written = File::create(&partial).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    let placed = written.map_err(Error::io("write", &partial)).and_then(|()| {
        std::fs::rename(&partial, path).map_err(Error::io("create", path))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        let flushed = File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(Error::io("flush", folder))
    });
    if placed.is_err() {
        // The first error is the one to tell; a leftover is hidden and never read.
        let _ = std::fs::remove_file(&partial);
    }
    placed
}

/// Writes a small file.
pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    write_whole(path, |file| file.write_all(content))
}

fn partial(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    path.with_file_name(name)
}
