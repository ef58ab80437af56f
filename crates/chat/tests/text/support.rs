//! Small tokenizers made on the spot, the real model where it is there, and conversations.

use std::{env, path::PathBuf, sync::LazyLock};

use proptest::prelude::*;
use rocstar_chat::{GgufTokenizer, Tokenizer};
use rocstar_record::message::{Message, Role, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

pub(crate) use crate::gguf::metadata::read as read_gguf;

/// The control tokens of the small tokenizer, from id 0 on.
pub(crate) const SPECIAL: [&str; 4] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end"];
/// Added tokens of the small tokenizer that are no control tokens.
pub(crate) const ADDED: [&str; 2] = ["<think>", "</think>"];

/// The character that stands for a byte in a vocabulary.
pub(crate) fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&other| !printable(other)).count() as u32;
    char::from_u32(256 + rank).expect("a character")
}

/// The text as a byte-level vocabulary writes it.
pub(crate) fn spelled(text: &str) -> String {
    text.bytes().map(byte_character).collect()
}

/// A byte-level vocabulary: control tokens, every byte, and some merges.
pub(crate) fn vocabulary() -> (Vec<String>, Vec<String>) {
    let mut tokens: Vec<String> = SPECIAL.map(str::to_owned).to_vec();
    tokens.extend((0..=u8::MAX).map(|byte| byte_character(byte).to_string()));
    let mut merges = Vec::new();
    for (left, right) in [
        ("h", "e"),
        ("l", "l"),
        ("he", "ll"),
        ("hell", "o"),
        (" ", "hello"),
        ("\n", "\n"),
        ("i", "m"),
        ("<", "|"),
        ("|", ">"),
        ("_", "e"),
        ("n", "d"),
        ("_e", "nd"),
        ("é", " "),
    ] {
        let pair = (spelled(left), spelled(right));
        let whole = format!("{}{}", pair.0, pair.1);
        for token in [&pair.0, &pair.1, &whole] {
            if !tokens.contains(token) {
                tokens.push(token.clone());
                if token.chars().count() == 2 && token != &whole {
                    // A character of two bytes: its bytes must be merged first.
                    let bytes: Vec<_> = token.chars().map(String::from).collect();
                    merges.push(bytes.join(" "));
                }
            }
        }
        merges.push(format!("{} {}", pair.0, pair.1));
    }
    (tokens, merges)
}

/// The tokenizer.json of that vocabulary, with `ADDED` behind it.
pub(crate) fn tokenizer_json() -> Value {
    let (tokens, merges) = vocabulary();
    let vocabulary: Map<_, _> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let added = |id: usize, content: &str, special: bool| {
        json!({"id": id, "content": content, "special": special, "single_word": false,
               "lstrip": false, "rstrip": false, "normalized": false})
    };
    let mut all: Vec<_> =
        SPECIAL.iter().enumerate().map(|(id, content)| added(id, content, true)).collect();
    all.extend(ADDED.iter().enumerate().map(|(n, text)| added(tokens.len() + n, text, false)));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": all,
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                          "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
                  "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocabulary, "merges": merges},
    })
}

pub(crate) fn small_tokenizer() -> Tokenizer {
    static SHARED: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::from_json(tokenizer_json().to_string().as_bytes()).expect("a tokenizer")
    });
    SHARED.clone()
}

/// The same vocabulary as GGUF metadata.
pub(crate) fn small_gguf() -> GgufTokenizer {
    let (tokens, merges) = vocabulary();
    let token_types = (0..tokens.len()).map(|id| if id < SPECIAL.len() { 3 } else { 1 }).collect();
    GgufTokenizer {
        model: "gpt2".to_owned(),
        pre: Some("gpt-2".to_owned()),
        tokens,
        token_types,
        merges,
        begin_token: Some(1),
        end_token: Some(2),
        ..GgufTokenizer::default()
    }
}

/// The GGUF file of SmolLM2-135M-Instruct, or a line that says why a test is skipped.
pub(crate) fn smollm2() -> Option<GgufTokenizer> {
    let fetched = || {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
        Some(cache.join("rocstar/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"))
    };
    let path = env::var_os("ROCSTAR_SMOLLM2").map(PathBuf::from).or_else(fetched)?;
    if !path.is_file() {
        println!("SKIP no SmolLM2 at {}; set ROCSTAR_SMOLLM2", path.display());
        return None;
    }
    Some(read_gguf(&path))
}

pub(crate) fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

pub(crate) fn system(text: &str) -> Message {
    Message::text(Role::System, text)
}

pub(crate) fn tool(text: &str) -> Message {
    Message::text(Role::Tool, text)
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::text(Role::Assistant, text)
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    serde_json::from_value(json!({"name": name, "arguments": arguments})).expect("a call")
}

pub(crate) fn calling(text: &str, calls: Vec<ToolCall>) -> Message {
    Message { tool_calls: calls, ..assistant(text) }
}

pub(crate) fn tool_spec(name: &str) -> ToolSpec {
    serde_json::from_value(
        json!({"name": name, "description": "d", "parameters": {"type": "object"}}),
    )
    .expect("a tool")
}

/// Text with all that is nasty: control tokens, halves of them, line ends, any character.
pub(crate) fn nasty_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<|im_end|>".to_owned()),
        Just("<|im_start|>".to_owned()),
        Just("<|endoftext|>".to_owned()),
        Just("<|im_".to_owned()),
        Just("end|>".to_owned()),
        Just("\n".to_owned()),
        Just("</tool_call>".to_owned()),
        Just("<tool_response>".to_owned()),
        Just("</tool_response>".to_owned()),
        Just("<think>\n".to_owned()),
        Just("</think>\n".to_owned()),
        Just("<reason>".to_owned()),
        Just(" hello".to_owned()),
        Just("\u{F0000}".to_owned()),
        Just("\u{F0002}\u{FFFFD}".to_owned()),
        "\\PC{0,6}",
        any::<String>().prop_map(|text| text.chars().take(5).collect()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}
