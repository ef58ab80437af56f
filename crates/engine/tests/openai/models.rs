//! Small models: one whose weights are random, and one whose weights make it say what a test wants.

use rocstar_chat::{Template, Tokenizer};
use rocstar_engine::openai::Model;
use rocstar_engine::{Engine, EngineOptions, KvBudget};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::{LayerSlot, Parameters, Slot};
use serde_json::{Map, Value, json};

/// Begins a turn.
const START: u32 = 256;
/// Ends a turn, and an answer.
pub(crate) const END: u32 = 257;
/// The first of the scripted model's own tokens.
const FIRST_WORD: u32 = 258;
const VOCABULARY: usize = 320;
/// Every chat prompt ends with this byte.
const NEWLINE: u32 = b'\n' as u32;

/// One token a byte, whose id is the byte; then the control tokens, then `words`.
fn tokenizer(words: &[&str]) -> Tokenizer {
    let vocabulary: Map<String, Value> =
        (0..=u8::MAX).map(|byte| (character_of(byte).to_string(), json!(byte))).collect();
    let added = |(id, content, special): (u32, &str, bool)| {
        json!({
            "id": id, "content": content, "special": special, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false
        })
    };
    let control = [(START, "<|im_start|>", true), (END, "<|im_end|>", true)];
    let words = (FIRST_WORD..).zip(words).map(|(id, word)| (id, *word, false));
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": control.into_iter().chain(words).map(added).collect::<Vec<_>>(),
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
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
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

fn config() -> ModelConfig {
    ModelConfig {
        vocabulary_size: VOCABULARY,
        hidden_size: 64,
        layers: 2,
        heads: 2,
        key_value_heads: 1,
        head_size: 32,
        feed_forward_size: 64,
        context_tokens: 2048,
        end_tokens: vec![END],
        initializer_range: 0.3,
        tied_embeddings: false,
        ..ModelConfig::tiny()
    }
}

/// Bounds of the engines here.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        kv: KvBudget::Tokens(8192),
        max_running: 16,
        max_waiting: 64,
        step_tokens: 128,
        threads: Some(1),
        ..EngineOptions::default()
    }
}

fn model(parameters: &Parameters, words: &[&str], options: EngineOptions) -> Model {
    let engine = Engine::start(config(), parameters, options).unwrap();
    let template = Some(Template::chatml().unwrap());
    Model::new("tiny".to_owned(), engine, tokenizer(words), template, None, 0).unwrap()
}

/// A model of random weights: it says random bytes, often no UTF-8.
pub(crate) fn random() -> Model {
    random_with(options())
}

/// The same with other bounds.
pub(crate) fn random_with(options: EngineOptions) -> Model {
    model(&Parameters::random(&config(), 1), &[], options)
}

/// A model that answers every chat with these words, each one token, and then ends; at temperature 0.
///
/// Attention and feed-forward layers add nothing, so that what comes next depends on the last token
/// alone: the head's row of each token is the embedding of the one before it.
pub(crate) fn scripted(words: &[&str]) -> Model {
    let mut parameters = Parameters::random(&config(), 2);
    for layer in 0..config().layers {
        for slot in [LayerSlot::Output, LayerSlot::Down] {
            parameters.slot_mut(Slot::Layer(layer, slot)).fill(0.0);
        }
    }
    parameters.slot_mut(Slot::Head).fill(0.0);
    let width = config().hidden_size;
    let row = |token: u32| token as usize * width..(token as usize + 1) * width;
    let mut before = NEWLINE;
    let said = FIRST_WORD..FIRST_WORD + words.len() as u32;
    for token in said.chain([END]) {
        let embedding = parameters.slot(Slot::Embedding)[row(before)].to_vec();
        parameters.slot_mut(Slot::Head)[row(token)].copy_from_slice(&embedding);
        before = token;
    }
    model(&parameters, words, options())
}
