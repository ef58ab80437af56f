//! What the tests of this crate share.

use std::sync::LazyLock;

use rocstar_chat::Tokenizer;
use serde_json::{Map, Value, json};

/// A tokenizer of bytes, with the control tokens of ChatML from id 256 on.
pub(crate) fn tokenizer() -> Tokenizer {
    static SHARED: LazyLock<Tokenizer> = LazyLock::new(|| {
        let vocabulary: Map<String, Value> =
            (0..=u8::MAX).map(|byte| (spelled(byte).to_string(), json!(byte))).collect();
        let special = |(id, content): (usize, &str)| {
            json!({"id": 256 + id, "content": content, "special": true, "single_word": false,
                   "lstrip": false, "rstrip": false, "normalized": false})
        };
        let added: Vec<Value> =
            ["<|im_start|>", "<|im_end|>"].into_iter().enumerate().map(special).collect();
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                           "use_regex": false});
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
            "model": {"type": "BPE", "dropout": null, "unk_token": null,
                      "continuing_subword_prefix": null, "end_of_word_suffix": null,
                      "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                      "vocab": vocabulary, "merges": []},
        });
        Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer")
    });
    SHARED.clone()
}

/// The character that stands for a byte in a byte-level vocabulary.
fn spelled(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&other| !printable(other)).count() as u32;
    char::from_u32(256 + rank).expect("a character")
}
