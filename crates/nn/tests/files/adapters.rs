//! LoRA adapters in PEFT's format.

use std::path::Path;

use pretty_assertions::assert_eq;
use rocstar_nn::config::Architecture;
use rocstar_nn::files::adapters::{load, save};
use rocstar_nn::lora::{Adapters, Lora};
use rocstar_nn::parameters::LayerSlot;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::small;

fn example() -> Adapters {
    let lora = Lora {
        rank: 3,
        alpha: 6.0,
        targets: vec![LayerSlot::Query, LayerSlot::Value, LayerSlot::Down],
    };
    let config = small(Architecture::Qwen2, true);
    let mut adapters = Adapters::random(&config, lora, 5).unwrap();
    for (index, value) in adapters.values_mut().iter_mut().enumerate() {
        *value += index as f32 * 1e-3;
    }
    adapters
}

fn saved() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = small(Architecture::Qwen2, true);
    save(folder.path(), &config, &example(), Some("base/model")).unwrap();
    folder
}

fn settings(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json")).unwrap()).unwrap()
}

#[test]
fn adapters_come_back_as_they_were_saved() {
    let folder = saved();
    let config = small(Architecture::Qwen2, true);
    assert!(load(folder.path(), &config).unwrap() == example());
    assert_eq!(
        settings(folder.path()),
        json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "base/model",
            "r": 3,
            "lora_alpha": 6.0,
            "target_modules": ["q_proj", "v_proj", "down_proj"],
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": false,
            "use_rslora": false,
            "use_dora": false,
            "inference_mode": true,
        })
    );
    // Saved again over themselves.
    save(folder.path(), &config, &example(), None).unwrap();
    assert!(load(folder.path(), &config).unwrap() == example());
}

#[test]
fn names_are_those_of_peft() {
    let folder = saved();
    let bytes = std::fs::read(folder.path().join("adapter_model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let module = "base_model.model.model.layers.1.mlp.down_proj";
    let shape = |side: &str| {
        let tensor = tensors.tensor(&format!("{module}.{side}.weight")).unwrap();
        tensor.shape().to_vec()
    };
    assert_eq!((shape("lora_A"), shape("lora_B")), (vec![3, 48], vec![32, 3]));
    assert_eq!(tensors.len(), 2 * 3 * 2);
}

#[test]
fn what_is_not_supported_or_does_not_fit_is_named() {
    let config = small(Architecture::Qwen2, true);
    let refused = |field: &str, value: Value| {
        let folder = saved();
        let mut edited = settings(folder.path());
        edited[field] = value;
        let path = folder.path().join("adapter_config.json");
        std::fs::write(path, edited.to_string()).unwrap();
        let error = load(folder.path(), &config).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    };
    let at = |field: &str, problem: &str| format!("`adapter_config.json`: `{field}` {problem}");
    let cases = [
        ("peft_type", json!("IA3"), "is `IA3`; supported is `LORA`"),
        ("use_dora", json!(true), "is true; supported is false"),
        ("use_rslora", json!(true), "is true; supported is false"),
        ("modules_to_save", json!(["lm_head"]), "is [\"lm_head\"]; supported is null"),
        ("bias", json!("all"), "is `all`; supported is `none`"),
        ("rank_pattern", json!({ "q_proj": 4 }), "is set; one rank and alpha for all is supported"),
        ("r", json!(0), "is 0, expected 1 to 65536"),
        (
            "init_lora_weights",
            json!("pissa"),
            "is `pissa`, which changes the model's own weights; save it as plain LoRA first",
        ),
    ];
    for (field, value, problem) in cases {
        assert_eq!(refused(field, value), at(field, problem));
    }
    assert_eq!(
        refused("r", json!(4)),
        "`adapter_model.safetensors`: tensor \
         `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight` has shape [3, 32], \
         expected [4, 32]"
    );

    let folder = saved();
    let mut deeper = small(Architecture::Qwen2, true);
    deeper.layers = 3;
    let error = load(folder.path(), &deeper).unwrap_err().to_string();
    assert!(error.contains("6 tensors missing"), "{error}");
    let mut shallower = small(Architecture::Qwen2, true);
    shallower.layers = 1;
    let error = load(folder.path(), &shallower).unwrap_err().to_string();
    assert!(error.contains("6 tensors not part of this architecture"), "{error}");
}
