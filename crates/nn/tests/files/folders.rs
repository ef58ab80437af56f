//! Hugging Face folders: round trips, and everything that can be wrong with one.

use std::path::Path;

use half::{bf16, f16};
use pretty_assertions::assert_eq;
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::files::{
    self, DEFAULT_SHARD_BYTES, Error, Format, Source, StoreAs, TensorEntry, load, save,
};
use rocstar_nn::parameters::{Parameters, Slot};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{all_small, random, small};

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

fn saved(config: &ModelConfig, parameters: &Parameters, store: StoreAs) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), config, parameters, store, DEFAULT_SHARD_BYTES).unwrap();
    folder
}

/// What `load` says about a folder that it refuses, without the folder's name.
pub(crate) fn refusal(folder: &Path) -> String {
    let error = load(folder).expect_err("it is refused");
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        text += &format!(": {source}");
    }
    let name = folder.display().to_string();
    text.replace(&format!("{name}/"), "").replace(&name, "FOLDER")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

/// Rewrites the header of a safetensors file; `more` bytes of zeros follow the data.
fn edit_header(path: &Path, more: usize, edit: impl FnOnce(&mut Value)) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    edit(&mut header);
    let header = header.to_string();
    let mut edited = (header.len() as u64).to_le_bytes().to_vec();
    edited.extend(header.as_bytes());
    edited.extend(&bytes[8 + length..]);
    edited.resize(edited.len() + more, 0);
    std::fs::write(path, edited).unwrap();
}

#[test]
fn every_family_comes_back_as_it_was_saved() {
    for config in all_small() {
        let parameters = random(&config);
        let folder = saved(&config, &parameters, StoreAs::F32);
        assert_eq!(names(folder.path()), ["config.json", WEIGHTS]);
        let loaded = load(folder.path()).unwrap();
        assert_eq!(loaded.config, config);
        assert!(loaded.parameters == parameters);
        let format = Format::HuggingFace;
        assert_eq!(loaded.source, Source { path: folder.path().into(), format });
    }
}

#[test]
fn shards_have_an_index_and_come_back() {
    let config = small(Architecture::Qwen2, false);
    let parameters = random(&config);
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &config, &parameters, StoreAs::F32, 16_000).unwrap();
    let names = names(folder.path());
    let shards: Vec<&String> = names.iter().filter(|name| name.ends_with(".safetensors")).collect();
    assert!(shards.len() > 2, "{names:?}");
    assert_eq!(*shards[0], format!("model-00001-of-{:05}.safetensors", shards.len()));
    for shard in shards {
        let bytes = std::fs::read(folder.path().join(shard)).unwrap();
        // The reference reader takes them too.
        safetensors::SafeTensors::deserialize(&bytes).unwrap();
    }
    assert!(names.contains(&INDEX.to_owned()));
    assert!(load(folder.path()).unwrap().parameters == parameters);
}

type Round = fn(f32) -> f32;

#[test]
fn half_formats_round_to_the_nearest() {
    let config = small(Architecture::Llama, true);
    let parameters = random(&config);
    let rounded: [(StoreAs, Round); 2] = [
        (StoreAs::Bf16, |value| bf16::from_f32(value).to_f32()),
        (StoreAs::F16, |value| f16::from_f32(value).to_f32()),
    ];
    for (store, round) in rounded {
        let loaded = load(saved(&config, &parameters, store).path()).unwrap();
        let expected = parameters.values().iter().map(|value| round(*value));
        assert!(loaded.parameters.values().iter().copied().eq(expected), "{store:?}");
        // What is rounded already does not change any more.
        let again = load(saved(&config, &loaded.parameters, store).path()).unwrap();
        assert!(again.parameters == loaded.parameters);
    }
}

#[test]
fn headers_are_read_without_weights() {
    let config = small(Architecture::Llama, true);
    let folder = saved(&config, &random(&config), StoreAs::Bf16);
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"chat_template": "x"}"#)
        .unwrap();
    let inspection = files::inspect(folder.path()).unwrap();
    assert_eq!(inspection.config, config);
    assert!(inspection.has_tokenizer && inspection.has_chat_template);
    assert_eq!(inspection.tensors.len(), 2 + 2 * 9);
    let expected = TensorEntry {
        name: "model.embed_tokens.weight".into(),
        shape: vec![37, 32],
        stored_as: "BF16".into(),
        bytes: 37 * 32 * 2,
    };
    assert_eq!(inspection.tensors[0], expected);
}

#[test]
fn progress_ends_at_its_total() {
    let config = small(Architecture::Llama, true);
    let folder = saved(&config, &random(&config), StoreAs::F32);
    let seen = std::sync::Mutex::new(Vec::new());
    files::load_with_progress(folder.path(), &|done, total| {
        seen.lock().unwrap().push((done, total))
    })
    .unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().any(|(done, total)| done == total && *total > 0));
}

#[test]
fn a_folder_with_a_model_is_not_written_over() {
    let config = small(Architecture::Llama, true);
    let parameters = random(&config);
    let folder = saved(&config, &parameters, StoreAs::F32);
    let again = save(folder.path(), &config, &parameters, StoreAs::F32, DEFAULT_SHARD_BYTES);
    assert!(matches!(again, Err(Error::Occupied { .. })), "{again:?}");
}

#[test]
fn what_can_not_be_saved_leaves_nothing() {
    let config = small(Architecture::Llama, true);
    let folder = tempfile::tempdir().unwrap();
    let mut parameters = random(&config);
    parameters.slot_mut(Slot::FinalNorm)[3] = 1e6;
    let error = save(folder.path(), &config, &parameters, StoreAs::F16, 1 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the parameters don't belong to this configuration: `model.norm.weight` has 1000000 at \
         index 3, which float16 can't hold as a weight"
    );
    parameters.slot_mut(Slot::FinalNorm)[3] = f32::NAN;
    assert!(save(folder.path(), &config, &parameters, StoreAs::F32, 1 << 20).is_err());
    let other = ModelConfig { feed_forward_size: 50, ..config };
    assert!(save(folder.path(), &other, &parameters, StoreAs::F32, 1 << 20).is_err());
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_tied_model_may_store_its_head_again_if_it_is_the_embedding() {
    let untied = small(Architecture::Llama, false);
    let mut parameters = random(&untied);
    let embedding = parameters.slot(Slot::Embedding).to_vec();
    parameters.slot_mut(Slot::Head).copy_from_slice(&embedding);
    let folder = saved(&untied, &parameters, StoreAs::F32);
    let tie = |folder: &Path| {
        edit_json(&folder.join("config.json"), |config| {
            config["tie_word_embeddings"] = true.into()
        });
    };
    tie(folder.path());
    let loaded = load(folder.path()).unwrap();
    assert!(loaded.config.tied_embeddings);
    assert_eq!(loaded.parameters.slot(Slot::Embedding), embedding);

    parameters.slot_mut(Slot::Head)[40] += 1.0;
    let folder = saved(&untied, &parameters, StoreAs::F32);
    tie(folder.path());
    assert_eq!(
        refusal(folder.path()),
        "`model.safetensors`: `tie_word_embeddings` is true, but `lm_head.weight` differs from \
         the embedding at index 40"
    );
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let config = small(Architecture::Qwen3, false);
    let parameters = random(&config);
    let refused = |edit: &dyn Fn(&Path)| {
        let folder = saved(&config, &parameters, StoreAs::F32);
        edit(folder.path());
        refusal(folder.path())
    };
    let header = |more: usize, edit: fn(&mut Value)| {
        refused(&|folder: &Path| edit_header(&folder.join(WEIGHTS), more, edit))
    };
    let rename = |header: &mut Value| {
        let tensor = header.as_object_mut().unwrap().remove("model.norm.weight").unwrap();
        header["model.extra.weight"] = tensor;
    };
    assert_eq!(header(0, rename), "`FOLDER`: 1 tensor missing: `model.norm.weight`");
    let extra = |header: &mut Value| {
        let end = header["lm_head.weight"]["data_offsets"][1].as_u64().unwrap();
        header["model.extra.bias"] =
            json!({ "dtype": "F32", "shape": [2], "data_offsets": [end, end + 8] });
    };
    assert_eq!(
        header(8, extra),
        "`FOLDER`: 1 tensor not part of this architecture: `model.extra.bias`"
    );
    let turned = |header: &mut Value| {
        header["lm_head.weight"]["shape"] = json!([32, 37]);
    };
    assert_eq!(
        header(0, turned),
        "`model.safetensors`: tensor `lm_head.weight` has shape [32, 37], expected [37, 32]"
    );
    let integers = |header: &mut Value| {
        header["lm_head.weight"]["dtype"] = "I32".into();
    };
    assert_eq!(
        header(0, integers),
        "`model.safetensors`: tensor `lm_head.weight` is stored as I32; supported are F32, F16, \
         BF16, and in GGUF Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"
    );
}

#[test]
fn a_weight_that_is_no_number_is_named_with_its_place() {
    let config = small(Architecture::Llama, false);
    let folder = saved(&config, &random(&config), StoreAs::F32);
    let path = folder.path().join(WEIGHTS);
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 8..end - 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let index = 37 * 32 - 2;
    assert_eq!(
        refusal(folder.path()),
        format!("`model.safetensors`: tensor `lm_head.weight` has NaN at index {index}")
    );
}

#[test]
fn missing_shards_and_lying_indices_are_named() {
    let config = small(Architecture::Llama, true);
    let sharded = || {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &config, &random(&config), StoreAs::F32, 16_000).unwrap();
        folder
    };
    let folder = sharded();
    let names = names(folder.path());
    let last = names.iter().rfind(|name| name.ends_with(".safetensors")).unwrap();
    std::fs::remove_file(folder.path().join(last)).unwrap();
    assert_eq!(refusal(folder.path()), format!("`{INDEX}`: 1 shard missing beside it: `{last}`"));

    let folder = sharded();
    edit_json(&folder.path().join(INDEX), |index| {
        index["weight_map"]["model.norm.weight"] = "../other.safetensors".into();
    });
    assert_eq!(
        refusal(folder.path()),
        format!(
            "`{INDEX}`: `weight_map.model.norm.weight` is `../other.safetensors`, expected the \
             name of a file in this folder"
        )
    );

    let folder = sharded();
    edit_json(&folder.path().join(INDEX), |index| {
        index["weight_map"]["model.norm.weight"] = names[1].as_str().into();
    });
    assert_eq!(
        refusal(folder.path()),
        format!("`{}`: 1 tensor missing: `model.norm.weight`", names[1])
    );
}

#[test]
fn what_is_no_model_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |folder: &Path| refusal(folder);
    assert_eq!(refused(folder.path()), "no model at `FOLDER`: the folder has no `config.json`");
    let config = small(Architecture::Llama, true);
    let model = saved(&config, &random(&config), StoreAs::F32);
    std::fs::rename(model.path().join(WEIGHTS), model.path().join("pytorch_model.bin")).unwrap();
    assert_eq!(
        refused(model.path()),
        "no model at `FOLDER`: `pytorch_model.bin` is pickled and may run code; convert it to \
         safetensors first"
    );
    std::fs::remove_file(model.path().join("pytorch_model.bin")).unwrap();
    assert_eq!(
        refused(model.path()),
        "no model at `FOLDER`: it has neither `model.safetensors` nor \
         `model.safetensors.index.json`"
    );
    std::fs::write(model.path().join("config.json"), "{\"vocab_size\": 3").unwrap();
    assert_eq!(
        refused(model.path()),
        "`config.json` is not what it should be: EOF while parsing an object at line 1 column 16"
    );
    let absent = folder.path().join("absent");
    assert_eq!(refusal(&absent), "can't open `FOLDER`: No such file or directory (os error 2)");
}
