//! A call that is written, tokenised, decoded token by token and parsed is the call it was, however
//! the text is cut.

use std::sync::LazyLock;

use proptest::prelude::*;
use rocstar_chat::calls::{CallFormat, CodeTool, Event};
use rocstar_chat::{Show, Special, StreamDecoder, Tokenizer};
use rocstar_record::message::{Arguments, ToolCall};
use serde_json::{Map, Value, json};

use crate::properties::{cut, parse_in_pieces};

/// Pieces of strings that could end a call, a string or a block too early.
const PIECES: [&str; 31] = [
    "</tool_call>",
    "<tool_call>",
    "<|python_tag|>",
    "<|im_end|>",
    "\"",
    "\\",
    "'",
    "\"\"\"",
    "}",
    "]",
    ")",
    "{",
    "[",
    ";",
    ",",
    "```",
    "````python",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "é",
    "😀",
    "\\u0041",
    "x",
    " ",
    "print(1)",
];

/// Strings that look like tags, quotes, escapes and fences, and any others.
fn strings() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&PIECES[..]).prop_map(str::to_owned).boxed();
    prop_oneof![
        2 => prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
        1 => "[a-z_]{1,6}",
    ]
}

/// Any JSON value.
pub(crate) fn values() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-9i64..9).prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers", |f| f.is_finite())
            .prop_map(Value::from),
        prop::sample::select(&[0.0, -0.0, 1e16, 1e-7, f64::MAX, f64::MIN_POSITIVE, 5e-324][..])
            .prop_map(Value::from),
        strings().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            objects(inner).prop_map(Value::Object),
        ]
    })
    .boxed()
}

fn objects(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((strings(), value), 0..5).prop_map(Map::from_iter)
}

fn call(name: String, arguments: Map<String, Value>) -> ToolCall {
    ToolCall { id: None, name, arguments: Arguments::Object(arguments) }
}

/// A format and calls that it can write.
fn messages() -> impl Strategy<Value = (CallFormat, Vec<ToolCall>)> {
    let any_name = strings().prop_filter("a tool has a name", |name| !name.is_empty());
    let name = "[a-zA-Z_][a-zA-Z0-9_]{0,5}(\\.[a-z_]{1,4}x)?";
    let name = name.prop_filter("words of Python's own", |name: &String| {
        CallFormat::Pythonic.render(&call(name.clone(), Map::new())).is_ok()
    });
    let json_format = prop::sample::select(&[CallFormat::Hermes, CallFormat::Llama3Json][..]);
    let fenced = CallFormat::FencedCode(CodeTool::DEFAULT);
    let code = strings().prop_map(|code| {
        call("python".to_owned(), Map::from_iter([("code".to_owned(), Value::from(code))]))
    });
    let call_of_any = (any_name, objects(values())).prop_map(|(name, map)| call(name, map));
    let call_of_python = (name, objects(values())).prop_map(|(name, map)| call(name, map));
    prop_oneof![
        2 => (json_format, prop::collection::vec(call_of_any, 1..4)),
        1 => (Just(CallFormat::Pythonic), prop::collection::vec(call_of_python, 1..4)),
        1 => (Just(fenced), prop::collection::vec(code, 1..4)),
    ]
}

/// Calls and the text around them.
fn read(events: Vec<Event>) -> (Vec<ToolCall>, String) {
    let (mut calls, mut text) = (Vec::new(), String::new());
    for event in events {
        match event {
            Event::Call(parsed) => calls.push(parsed.call),
            Event::Text(part) => text += &part,
            Event::Failed(failure) => panic!("{failure}"),
        }
    }
    (calls, text)
}

/// The pieces in which a text comes when its tokens are decoded one by one.
fn decoded(text: &str, special: Special) -> Vec<String> {
    let tokens = TOKENIZER.encode(text, special).expect("tokens");
    let mut decoder = StreamDecoder::new(&TOKENIZER, Show::All);
    let mut pieces: Vec<String> = tokens.into_iter().map(|token| decoder.push(token)).collect();
    pieces.push(decoder.finish());
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_call_comes_back_unchanged(
        (format, calls) in messages(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text = format.render_all(&calls).expect("it can be written");
        let separator = match format {
            CallFormat::Hermes | CallFormat::FencedCode(_) => "\n".repeat(calls.len() - 1),
            CallFormat::Llama3Json | CallFormat::Pythonic => String::new(),
        };
        let expected = (calls, separator);
        let check = |pieces: &[&str]| {
            let (parsed, rest) = read(parse_in_pieces(&format, pieces));
            prop_assert_eq!(&(parsed, rest), &expected);
            Ok(())
        };
        check(&[text.as_str()])?;
        check(&cut(&text, &cuts))?;
        check(&text.split("").collect::<Vec<_>>())?;
        if text.len() <= 160 {
            for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
                check(&[&text[..at], &text[at..]])?;
            }
        }
        for special in [Special::Parse, Special::AsText] {
            let pieces = decoded(&text, special);
            prop_assert_eq!(&pieces.concat(), &text);
            check(&pieces.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        // Equality takes 0.0 for -0.0; text doesn't.
        let (parsed, _) = read(format.parse_all(&text));
        prop_assert_eq!(format.render_all(&parsed).expect("it can be written"), text);
    }
}

/// A byte-level tokenizer that knows the tags as tokens, and some pieces of calls across which
/// quotes, tags and characters are cut.
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let mut vocabulary = Map::new();
    for byte in 0..=255u8 {
        vocabulary.insert(spelled(byte).to_string(), json!(vocabulary.len()));
    }
    let mut merges = Vec::new();
    for piece in ["\"}", "{\"", "\": ", "</", "</tool", "_call", ">\n", "```", "\\n", "\\u0"] {
        let spelling: Vec<char> = piece.bytes().map(spelled).collect();
        for length in 2..=spelling.len() {
            let (head, last) = spelling[..length].split_at(length - 1);
            let (head, last) = (head.iter().collect::<String>(), last[0].to_string());
            let whole = format!("{head}{last}");
            if !vocabulary.contains_key(&whole) {
                vocabulary.insert(whole, json!(vocabulary.len()));
                merges.push(json!([head, last]));
            }
        }
    }
    let tags = ["<tool_call>", "</tool_call>", "<|python_tag|>", "<|im_end|>"];
    let added = tags.iter().enumerate().map(|(index, tag)| {
        json!({
            "id": vocabulary.len() + index, "content": tag, "special": index > 1,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    });
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocabulary, "merges": merges,
        },
    });
    Tokenizer::from_json(tokenizer.to_string().as_bytes()).expect("a tokenizer")
});

/// The character that stands for a byte in byte-level vocabularies.
fn spelled(byte: u8) -> char {
    let stands_for_itself = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if stands_for_itself(&byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !stands_for_itself(byte)).count();
    char::from_u32(256 + u32::try_from(before).expect("below 256")).expect("a character")
}
