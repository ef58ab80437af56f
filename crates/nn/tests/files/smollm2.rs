//! SmolLM2-135M-Instruct from its GGUF file, where that is on this machine.

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use rocstar_nn::config::ModelConfig;
use rocstar_nn::files::{Gguf, load};
use rocstar_nn::parameters::{LayerSlot, Slot};

/// Where `ROCSTAR_SMOLLM2` says, or where `rocstar model fetch` puts it.
fn model() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let path = variable("ROCSTAR_SMOLLM2").or_else(|| {
        let home = || Some(variable("HOME")?.join(".cache"));
        let cache = variable("XDG_CACHE_HOME").or_else(home)?;
        let folder = cache.join("rocstar/models/smollm2-135m-instruct");
        Some(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"))
    })?;
    path.exists().then_some(path)
}

/// The values are those that transformers dequantises from the file:
///
/// ```python
/// model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
/// layer = model.model.layers[17]
/// layer.self_attn.q_proj.weight[70, 100:104], layer.self_attn.v_proj.weight[70, 100:104],
/// layer.mlp.down_proj.weight[70, 100:104], model.model.embed_tokens.weight[70, 100:104]
/// ```
///
/// `tests/reference/open_folder.py` compares every weight.
#[test]
fn weights_are_those_of_transformers() {
    let Some(path) = model() else {
        println!("SKIP SmolLM2 is not here: rocstar model fetch smollm2-135m-instruct");
        return;
    };
    let loaded = load(&path).unwrap();
    let expected = ModelConfig { begin_token: Some(1), end_tokens: vec![2], ..ModelConfig::smol() };
    assert_eq!(loaded.config, expected);
    let row = |slot: Slot, columns: usize| {
        loaded.parameters.slot(slot)[70 * columns + 100..70 * columns + 104].to_vec()
    };
    let layer = |slot| Slot::Layer(17, slot);
    let found = [
        row(layer(LayerSlot::Query), 576),
        row(layer(LayerSlot::Value), 576),
        row(layer(LayerSlot::Down), 1536),
        row(Slot::Embedding, 576),
    ];
    assert_eq!(found, EXPECTED);
}

const EXPECTED: [[f32; 4]; 4] = [
    [-0.056_610_107, 0.083_190_92, 0.316_192_63, -0.103_210_45],
    [0.014_526_367, -0.031_188_965, 0.105_957_03, 0.014_526_367],
    [0.099_548_34, -0.179_321_29, -0.039_886_475, 0.053_070_07],
    [-0.171_144_49, -0.087_186_81, -0.066_197_395, -0.109_790_8],
];

#[test]
fn the_tokenizer_and_its_template_are_there() {
    let Some(path) = model() else {
        println!("SKIP SmolLM2 is not here: rocstar model fetch smollm2-135m-instruct");
        return;
    };
    let tokenizer = Gguf::open(&path).unwrap().tokenizer().unwrap().unwrap();
    assert_eq!((tokenizer.model.as_str(), tokenizer.pre.as_deref()), ("gpt2", Some("smollm")));
    assert_eq!((tokenizer.tokens.len(), tokenizer.merges.len()), (49_152, 48_900));
    assert_eq!(tokenizer.tokens[2], "<|im_end|>");
    assert_eq!((tokenizer.token_types[2], tokenizer.end_token), (3, Some(2)));
    assert!(tokenizer.chat_template.unwrap().contains("<|im_start|>"));
}
