//! Hugging Face folders in: `config.json`, and the weights in one safetensors file or in shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::map::Mapped;
use super::read::{self, RowOrder, Stored};
use super::safetensors::{Header, TensorInfo};
use super::{Error, Format, Inspection, Loaded, Progress, Source, TensorEntry, config_json};
use crate::config::ModelConfig;

/// All weights in one file.
pub(super) const WEIGHTS_FILE: &str = "model.safetensors";
/// Which shard has which weight.
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";

/// The head's name, which a tied model may store as a copy of the embedding.
const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

/// A safetensors file whose header holds together.
pub(super) struct Shard {
    path: PathBuf,
    mapped: Mapped,
    header: Header,
}

impl Shard {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let mapped = Mapped::open(&path)?;
        let header = Header::parse(mapped.bytes()).map_err(|damage| Error::Header {
            path: path.clone(),
            field: damage.field,
            problem: damage.problem,
        })?;
        Ok(Self { path, mapped, header })
    }

    pub(super) fn tensors(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    pub(super) fn stored<'a>(&'a self, tensor: &'a TensorInfo) -> Stored<'a> {
        Stored {
            path: &self.path,
            name: &tensor.name,
            shape: &tensor.shape,
            format: tensor.format(),
            bytes: &self.mapped.bytes()[tensor.range.clone()],
            rows: RowOrder::Same,
        }
    }
}

/// Reads the whole model.
pub(super) fn load(folder: &Path, progress: Progress<'_>) -> Result<Loaded, Error> {
    let config = config_json::read(folder)?;
    let shards = open(folder)?;
    let mut stored = BTreeMap::new();
    for shard in &shards {
        for tensor in shard.tensors().iter().filter(|tensor| !is_computed(&tensor.name)) {
            if stored.insert(tensor.name.clone(), shard.stored(tensor)).is_some() {
                return Err(Error::Header {
                    path: shard.path.clone(),
                    field: format!("tensor \"{}\"", tensor.name),
                    problem: "stands in another shard too".into(),
                });
            }
        }
    }
    accept_tied_copy(&config, &mut stored)?;
    let parameters = read::parameters(folder, &config, &stored, progress)?;
    let source = Source { path: folder.into(), format: Format::HuggingFace };
    Ok(Loaded { config, parameters, source })
}

/// Reads the headers.
pub(super) fn inspect(folder: &Path) -> Result<Inspection, Error> {
    let config = config_json::read(folder)?;
    let mut tensors = Vec::new();
    for shard in open(folder)? {
        tensors.extend(shard.header.tensors.into_iter().map(|tensor| TensorEntry {
            bytes: tensor.range.len() as u64,
            name: tensor.name,
            shape: tensor.shape,
            stored_as: tensor.stored_as,
        }));
    }
    let tokenizer_config = std::fs::read(folder.join("tokenizer_config.json")).unwrap_or_default();
    let tokenizer_config: serde_json::Value =
        serde_json::from_slice(&tokenizer_config).unwrap_or_default();
    Ok(Inspection {
        source: Source { path: folder.into(), format: Format::HuggingFace },
        config,
        tensors,
        has_tokenizer: folder.join("tokenizer.json").exists(),
        has_chat_template: folder.join("chat_template.jinja").exists()
            || tokenizer_config.get("chat_template").is_some(),
    })
}

/// The angles of rotary positions, which old checkpoints store though they follow from the
/// configuration.
fn is_computed(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}

/// A tied model may store its head once more; it must be the embedding then.
fn accept_tied_copy(
    config: &ModelConfig,
    stored: &mut BTreeMap<String, Stored<'_>>,
) -> Result<(), Error> {
    if !config.tied_embeddings || !stored.contains_key(EMBEDDING) {
        return Ok(());
    }
    let (Some(head), Some(embedding)) = (stored.remove(HEAD), stored.get(EMBEDDING)) else {
        return Ok(());
    };
    let shape = [config.vocabulary_size as u64, config.hidden_size as u64];
    let formats = (read::check_one(&head, &shape)?, read::check_one(embedding, &shape)?);
    let (head_bytes, embedding_bytes) = (formats.0.block_bytes(), formats.1.block_bytes());
    let pairs = head.bytes.chunks(head_bytes * config.hidden_size);
    let pairs = pairs.zip(embedding.bytes.chunks(embedding_bytes * config.hidden_size));
    let mut rows = (vec![0.0; config.hidden_size], vec![0.0; config.hidden_size]);
    for (row, (head_row, embedding_row)) in pairs.enumerate() {
        formats.0.decode(head_row, &mut rows.0);
        formats.1.decode(embedding_row, &mut rows.1);
        let pairs = rows.0.iter().zip(&rows.1);
        let differs = pairs.map(|(head, embedding)| head.to_bits() != embedding.to_bits());
        if let Some(column) = differs.into_iter().position(|differs| differs) {
            return Err(Error::TiedHeadDiffers {
                path: head.path.into(),
                tensor: HEAD.into(),
                index: row * config.hidden_size + column,
            });
        }
    }
    Ok(())
}

/// Opens the files with the weights of a folder.
pub(super) fn open(folder: &Path) -> Result<Vec<Shard>, Error> {
    let single = folder.join(WEIGHTS_FILE);
    if single.exists() {
        return Ok(vec![Shard::open(single)?]);
    }
    let index = folder.join(INDEX_FILE);
    if index.exists() {
        return open_shards(folder, &index);
    }
    let other = ["pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"];
    let pickled = other.into_iter().find(|name| folder.join(name).exists());
    let problem = pickled.map_or_else(
        || format!("it has neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`"),
        |name| format!("`{name}` is pickled and may run code; convert it to safetensors first"),
    );
    Err(Error::NoModel { path: folder.into(), problem })
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn open_shards(folder: &Path, index_path: &Path) -> Result<Vec<Shard>, Error> {
    let bytes = std::fs::read(index_path).map_err(Error::io("read", index_path))?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|source| Error::Json { path: index_path.into(), source })?;
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, file) in &index.weight_map {
        if Path::new(file).file_name() != Some(file.as_ref()) {
            return Err(Error::Field {
                path: index_path.into(),
                field: format!("weight_map.{tensor}"),
                problem: format!("is `{file}`, expected the name of a file in this folder"),
            });
        }
        files.entry(file).or_default().push(tensor);
    }
    let missing: Vec<String> = files
        .keys()
        .filter(|file| !folder.join(file).exists())
        .map(|file| (*file).to_owned())
        .collect();
    if !missing.is_empty() {
        return Err(Error::MissingShards { path: index_path.into(), names: missing });
    }
    let mut shards = Vec::with_capacity(files.len());
    for (file, tensors) in files {
        let shard = Shard::open(folder.join(file))?;
        let names: std::collections::HashSet<&str> =
            shard.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        let missing = tensors.into_iter().filter(|tensor| !names.contains(tensor));
        let missing: Vec<String> = missing.map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(Error::MissingTensors { path: shard.path, names: missing });
        }
        shards.push(shard);
    }
    Ok(shards)
}
