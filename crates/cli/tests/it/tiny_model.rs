//! A Hugging Face folder of a tiny model with random weights, and a tokenizer of one token a byte.

use std::path::Path;

use rocstar_nn::config::ModelConfig;
use rocstar_nn::files::{self, DEFAULT_SHARD_BYTES, StoreAs};
use rocstar_nn::parameters::Parameters;
use serde_json::{Map, Value, json};

/// Writes the folder.
pub(crate) fn save(folder: &Path) {
    let config = ModelConfig {
        vocabulary_size: 258,
        hidden_size: 32,
        layers: 1,
        heads: 2,
        key_value_heads: 1,
        head_size: 16,
        feed_forward_size: 32,
        context_tokens: 256,
        end_tokens: vec![257],
        initializer_range: 0.3,
        ..ModelConfig::tiny()
    };
    let parameters = Parameters::random(&config, 1);
    files::save(folder, &config, &parameters, StoreAs::F32, DEFAULT_SHARD_BYTES).unwrap();
    save_tokenizer(folder, &["<|im_start|>", "<|im_end|>"]);
}

/// Writes `tokenizer.json` with these control tokens behind the 256 bytes.
pub(crate) fn save_tokenizer(folder: &Path, control: &[&str]) {
    let vocabulary: Map<String, Value> =
        (0..=u8::MAX).map(|byte| (character_of(byte).to_string(), json!(byte))).collect();
    let added = |(id, content): (u32, &&str)| {
        json!({
            "id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false
        })
    };
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
    });
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": (256..).zip(control).map(added).collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocabulary, "merges": []
        }
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

/// How byte-level vocabularies write a byte: printable ones as they are, the others from U+0100 on.
fn character_of(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&other| !is_printable(other)).count();
    char::from_u32(0x100 + rank as u32).unwrap()
}
