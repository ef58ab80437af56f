//! Hugging Face folders out.
//!
//! Invariant: a folder with `config.json` is whole. Every file is written under a temporary name,
//! flushed to disk and renamed; `config.json` is the last, and the folder is flushed after it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};
use safetensors::tensor::{Dtype, SafeTensorError, View};

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

    const fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The values in this format, little-endian.
    fn encode(self, values: &[f32]) -> Cow<'_, [u8]> {
        match self {
            Self::F32 if cfg!(target_endian = "little") => bytemuck::cast_slice(values).into(),
            Self::F32 => encoded(values, |value| value.to_le_bytes()),
            Self::Bf16 => encoded(values, |value| bf16::from_f32(value).to_le_bytes()),
            Self::F16 => encoded(values, |value| f16::from_f32(value).to_le_bytes()),
        }
    }
}

/// Values that one thread encodes at a time.
const PART_VALUES: usize = 1 << 16;

fn encoded<const N: usize>(
    values: &[f32],
    encode: impl Fn(f32) -> [u8; N] + Sync,
) -> Cow<'static, [u8]> {
    let mut bytes = vec![0; values.len() * N];
    let parts = bytes.par_chunks_mut(PART_VALUES * N).zip(values.par_chunks(PART_VALUES));
    parts.for_each(|(bytes, values)| {
        for (bytes, value) in bytes.chunks_exact_mut(N).zip(values) {
            bytes.copy_from_slice(&encode(*value));
        }
    });
    bytes.into()
}

/// A tensor on its way into a file; its bytes are made when they are written.
pub(super) struct Outgoing<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) values: &'a [f32],
    pub(super) store: StoreAs,
}

impl View for Outgoing<'_> {
    fn dtype(&self) -> Dtype {
        self.store.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.store.encode(self.values)
    }

    fn data_len(&self) -> usize {
        self.values.len() * self.store.bytes()
    }
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
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            values: &parameters.values()[tensor.range.clone()],
            store,
        });
        write_tensors(&folder.join(name), outgoing.collect())?;
    }
    if names.len() > 1 {
        write_file(&folder.join(INDEX_FILE), |path| index(path, &names, &shards, store))?;
    }
    write_file(&folder.join(config_json::FILE), |path| {
        config_json::write(config, store)
            .map_err(|source| Error::Json { path: path.into(), source })
    })
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
            value.is_finite() && (store != StoreAs::F16 || f16::from_f32(*value).is_finite())
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
fn index(
    path: &Path,
    names: &[String],
    shards: &[&[Tensor]],
    store: StoreAs,
) -> Result<Vec<u8>, Error> {
    let total: usize =
        shards.iter().flat_map(|shard| shard.iter()).map(|tensor| tensor.range.len()).sum();
    let places = names.iter().zip(shards);
    let places = places.flat_map(|(name, shard)| shard.iter().map(move |tensor| (tensor, name)));
    let map: BTreeMap<&str, &str> =
        places.map(|(tensor, name)| (tensor.name.as_str(), name.as_str())).collect();
    let index = serde_json::json!({
        "metadata": { "total_parameters": total, "total_size": total * store.bytes() },
        "weight_map": map,
    });
    let mut text = serde_json::to_vec_pretty(&index)
        .map_err(|source| Error::Json { path: path.into(), source })?;
    text.push(b'\n');
    Ok(text)
}

/// Writes a safetensors file.
pub(super) fn write_tensors(path: &Path, tensors: Vec<Outgoing<'_>>) -> Result<(), Error> {
    // `transformers` asks for this mark.
    let mark = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let partial = partial(path);
    let named = tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor));
    let written = safetensors::serialize_to_file(named, Some(mark), &partial);
    let written = written.map_err(|error| match error {
        SafeTensorError::IoError(source) => Error::io("write", &partial)(source),
        other => Error::io("write", &partial)(std::io::Error::other(other)),
    });
    put_in_place(written, &partial, path)
}

/// Writes a small file.
pub(super) fn write_file(
    path: &Path,
    content: impl FnOnce(&Path) -> Result<Vec<u8>, Error>,
) -> Result<(), Error> {
    let content = content(path)?;
    let partial = partial(path);
    let written = std::fs::write(&partial, content).map_err(Error::io("write", &partial));
    put_in_place(written, &partial, path)
}

fn partial(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    path.with_file_name(name)
}

/// Flushes and renames what was written; what failed is removed.
fn put_in_place(written: Result<(), Error>, partial: &Path, path: &Path) -> Result<(), Error> {
    let placed = written.and_then(|()| {
        let file = File::open(partial).map_err(Error::io("open", partial))?;
        file.sync_all().map_err(Error::io("flush", partial))?;
        std::fs::rename(partial, path).map_err(Error::io("create", path))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let flushed = File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(Error::io("flush", folder))
    });
    if placed.is_err() {
        // The first error is the one to tell; a leftover is hidden and never read.
        let _ = std::fs::remove_file(partial);
    }
    placed
}
