//! `config.json`: the forms that models in the world have, and what is refused.

use std::path::Path;

use pretty_assertions::assert_eq;
use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::files::{self, StoreAs, save};
use serde_json::{Value, json};

use super::{random, small};

/// A folder's configuration; its weights are not there.
fn read(config: &Value, generation: Option<&Value>) -> Result<ModelConfig, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    if let Some(generation) = generation {
        let path = folder.path().join("generation_config.json");
        std::fs::write(path, generation.to_string()).unwrap();
    }
    let place = format!("{}/", folder.path().display());
    files::config(folder.path()).map_err(|error| error.to_string().replace(&place, ""))
}

/// The fields that every model states.
fn base() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 100,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    })
}

fn with(mut config: Value, field: &str, value: Value) -> Value {
    config[field] = value;
    config
}

#[test]
fn absent_fields_have_the_defaults_of_their_family() {
    let expected = ModelConfig {
        architecture: Architecture::Llama,
        vocabulary_size: 100,
        hidden_size: 32,
        layers: 2,
        heads: 4,
        key_value_heads: 4,
        head_size: 8,
        feed_forward_size: 48,
        norm_epsilon: 1e-6,
        rope: Rope { theta: 10_000.0, scaling: RopeScaling::None },
        tied_embeddings: false,
        context_tokens: 2048,
        begin_token: Some(1),
        end_tokens: vec![2],
        initializer_range: 0.02,
    };
    assert_eq!(read(&base(), None), Ok(expected.clone()));
    let qwen2 = with(base(), "architectures", json!(["Qwen2ForCausalLM"]));
    let expected = ModelConfig {
        architecture: Architecture::Qwen2,
        context_tokens: 32_768,
        begin_token: None,
        end_tokens: vec![],
        ..expected
    };
    assert_eq!(read(&qwen2, None), Ok(expected.clone()));
    let mut qwen3 = with(base(), "model_type", "qwen3".into());
    qwen3.as_object_mut().unwrap().remove("architectures");
    let expected = ModelConfig { architecture: Architecture::Qwen3, head_size: 128, ..expected };
    assert_eq!(read(&qwen3, None), Ok(expected));
}

#[test]
fn the_form_of_transformers_4_is_read() {
    let mut config = base();
    config["num_key_value_heads"] = 2.into();
    config["rope_theta"] = 500_000.0.into();
    config["rope_scaling"] = json!({
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    });
    config["eos_token_id"] = json!([7, 8]);
    config["bos_token_id"] = Value::Null;
    config["tie_word_embeddings"] = true.into();
    config["head_dim"] = 6.into();
    let read = read(&config, Some(&json!({ "eos_token_id": [8, 9] }))).unwrap();
    let scaling = RopeScaling::Llama3 {
        factor: 32.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context_tokens: 8192,
    };
    assert_eq!(read.rope, Rope { theta: 500_000.0, scaling });
    assert_eq!((read.begin_token, read.end_tokens), (None, vec![7, 8, 9]));
    assert_eq!((read.tied_embeddings, read.head_size, read.key_value_heads), (true, 6, 2));
}

#[test]
fn the_form_of_transformers_5_is_read() {
    let config = with(
        base(),
        "rope_parameters",
        json!({ "rope_theta": 1_000_000.0, "rope_type": "default" }),
    );
    let rope = Rope { theta: 1_000_000.0, scaling: RopeScaling::None };
    assert_eq!(read(&config, None).unwrap().rope, rope);
    // The older name of the kind, and the base outside.
    let mut config = with(base(), "rope_scaling", json!({ "type": "linear", "factor": 2.0 }));
    config["rope_theta"] = 20_000.into();
    let rope = Rope { theta: 20_000.0, scaling: RopeScaling::Linear { factor: 2.0 } };
    assert_eq!(read(&config, None).unwrap().rope, rope);
}

#[test]
fn what_is_written_is_read() {
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context_tokens: 8192,
    };
    for scaling in [RopeScaling::None, RopeScaling::Linear { factor: 2.5 }, llama3] {
        for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
            for end_tokens in [vec![], vec![3], vec![3, 4]] {
                let config = ModelConfig {
                    rope: Rope { theta: 12_345.5, scaling },
                    begin_token: None,
                    end_tokens,
                    norm_epsilon: 1e-5,
                    ..small(architecture, true)
                };
                let folder = tempfile::tempdir().unwrap();
                save(folder.path(), &config, &random(&config), StoreAs::F32, 1 << 30).unwrap();
                assert_eq!(files::config(folder.path()).unwrap(), config);
            }
        }
    }
}

/// The file as `transformers` will read it.
#[test]
fn every_field_that_matters_is_stated() {
    let config = small(Architecture::Qwen3, true);
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &config, &random(&config), StoreAs::Bf16, 1 << 30).unwrap();
    assert_eq!(
        text(&folder.path().join("config.json")),
        r#"{
  "architectures": [
    "Qwen3ForCausalLM"
  ],
  "model_type": "qwen3",
  "vocab_size": 37,
  "hidden_size": 32,
  "intermediate_size": 48,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "head_dim": 10,
  "hidden_act": "silu",
  "max_position_embeddings": 64,
  "rms_norm_eps": 0.00001,
  "rope_theta": 50000.0,
  "rope_scaling": null,
  "tie_word_embeddings": true,
  "attention_bias": false,
  "attention_dropout": 0.0,
  "use_sliding_window": false,
  "bos_token_id": 1,
  "eos_token_id": [
    2,
    5
  ],
  "initializer_range": 0.05,
  "use_cache": true,
  "torch_dtype": "bfloat16"
}
"#
    );
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn what_would_change_the_arithmetic_is_refused_by_name() {
    let cases = [
        ("attention_bias", json!(true), "is true, which is not supported"),
        ("mlp_bias", json!(true), "is true, which is not supported"),
        ("use_sliding_window", json!(true), "is true, which is not supported"),
        ("hidden_act", json!("gelu"), "is `gelu`; supported is `silu`"),
        ("partial_rotary_factor", json!(0.5), "is 0.5; supported is 1"),
        ("attention_dropout", json!(0.1), "is 0.1; supported is 0"),
        (
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
            "has \"sliding_attention\"; supported is \"full_attention\"",
        ),
        (
            "quantization_config",
            json!({ "bits": 4 }),
            "is set; quantised safetensors are not supported (F32, F16 and BF16 are)",
        ),
        ("hidden_size", json!(0), "is 0, expected a positive number"),
        ("hidden_size", json!(-3), "is -3, expected a whole number"),
        ("hidden_size", json!("32"), "is \"32\", expected a whole number"),
        ("num_hidden_layers", json!(1u64 << 40), "is 1099511627776; at most 4096 is supported"),
        ("num_key_value_heads", json!(3), "is 3, which does not divide 4 heads"),
        ("head_dim", json!(7), "is 7; rotary positions need an even number"),
        ("rms_norm_eps", json!(0.0), "is 0, expected a positive number"),
        ("rope_theta", json!(-1.0), "is -1, expected a positive number"),
        ("eos_token_id", json!(100), "is 100, but the embedding has 100 rows"),
        ("eos_token_id", json!("</s>"), "is \"</s>\", expected a token or a list of tokens"),
    ];
    for (field, value, problem) in cases {
        let refused = read(&with(base(), field, value), None).unwrap_err();
        assert_eq!(refused, format!("`config.json`: `{field}` {problem}"));
    }
}

#[test]
fn rotations_that_are_not_built_in_are_refused_by_name() {
    let refused = |scaling: Value| read(&with(base(), "rope_scaling", scaling), None).unwrap_err();
    assert_eq!(
        refused(json!({ "rope_type": "yarn", "factor": 4.0 })),
        "`config.json`: `rope_scaling.rope_type` is `yarn`; supported are `default`, `linear` and \
         `llama3`"
    );
    assert_eq!(
        refused(json!({ "rope_type": "linear" })),
        "`config.json`: `rope_scaling.factor` is missing"
    );
    assert_eq!(
        refused(json!({ "rope_type": "default", "partial_rotary_factor": 0.25 })),
        "`config.json`: `rope_scaling.partial_rotary_factor` is not 1; partial rotation is not \
         supported"
    );
    assert_eq!(refused(json!(3)), "`config.json`: `rope_scaling` is no object");
}

#[test]
fn unknown_architectures_are_told_with_those_that_are_known() {
    let unknown = with(base(), "architectures", json!(["MambaForCausalLM"]));
    assert_eq!(
        read(&unknown, None).unwrap_err(),
        "`config.json`: architecture `MambaForCausalLM` is not supported; supported are \
         LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM"
    );
    let mut none = base();
    none.as_object_mut().unwrap().remove("architectures");
    assert_eq!(
        read(&none, None).unwrap_err(),
        "`config.json`: `architectures` is missing, and so is `model_type`"
    );
    for field in ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"] {
        let mut config = base();
        config.as_object_mut().unwrap().remove(field);
        let refused = read(&config, None).unwrap_err();
        assert_eq!(refused, format!("`config.json`: `{field}` is missing"));
    }
    assert_eq!(
        read(&base(), Some(&json!({ "eos_token_id": 1000 }))).unwrap_err(),
        "`generation_config.json`: `eos_token_id` is 1000, but the embedding has 100 rows"
    );
}
