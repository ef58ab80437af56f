//! Folders that other programs open too: `tests/reference/open_folder.py` opens them in transformers
//! and PEFT, and here they come back as they were written.

use std::path::Path;

use rocstar_nn::config::{Architecture, ModelConfig, RopeScaling};
use rocstar_nn::files::{StoreAs, adapters, load, save};
use rocstar_nn::lora::{Adapters, Lora};
use rocstar_nn::parameters::LayerSlot;

use super::{all_small, random};

/// Written into the folder that `ROCSTAR_FOLDERS` names, for the script; otherwise into one that goes.
#[test]
fn folders_for_others_come_back_with_their_adapters() {
    let temporary = tempfile::tempdir().unwrap();
    let named = std::env::var_os("ROCSTAR_FOLDERS");
    let base = named.as_deref().map_or_else(|| temporary.path(), Path::new);
    for mut config in all_small() {
        if config.architecture == Architecture::Llama {
            config.rope.scaling = RopeScaling::Llama3 {
                factor: 8.0,
                low_frequency_factor: 1.0,
                high_frequency_factor: 4.0,
                original_context_tokens: 32,
            };
        }
        let store = if config.tied_embeddings { StoreAs::F32 } else { StoreAs::Bf16 };
        let tied = if config.tied_embeddings { "tied" } else { "untied" };
        let name = format!("{:?}-{tied}", config.architecture).to_lowercase();
        let shard_bytes = if config.tied_embeddings { 16_000 } else { 1 << 30 };
        let parameters = random(&config);
        save(&base.join(&name), &config, &parameters, store, shard_bytes).unwrap();
        let loaded = load(&base.join(&name)).unwrap();
        assert_eq!(loaded.config, config);
        if config.tied_embeddings {
            assert_eq!(loaded.parameters, parameters);
            write_adapters(base, &name, &config);
        }
    }
}

/// Adapters, and what merging them comes to.
fn write_adapters(base: &Path, name: &str, config: &ModelConfig) {
    let lora = Lora {
        rank: 3,
        alpha: 6.0,
        targets: vec![LayerSlot::Query, LayerSlot::Output, LayerSlot::Gate, LayerSlot::Down],
    };
    let mut trained = Adapters::random(config, lora, 5).unwrap();
    for (index, value) in trained.values_mut().iter_mut().enumerate() {
        *value += (index % 17) as f32 * 1e-2;
    }
    adapters::save(&base.join(format!("{name}-adapter")), config, &trained, Some(name)).unwrap();
    let mut merged = random(config);
    let unmerged = merged.clone();
    trained.merge(&mut merged);
    let folder = base.join(format!("{name}-merged"));
    save(&folder, config, &merged, StoreAs::F32, 1 << 30).unwrap();
    let loaded = load(&folder).unwrap().parameters;
    assert_eq!(loaded, merged);
    assert_ne!(loaded, unmerged);
}
