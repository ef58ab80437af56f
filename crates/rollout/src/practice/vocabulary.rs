//! The vocabulary: every byte, and one token for each piece of text that comes again and again.
//!
//! Any text can be encoded. What the template writes around a conversation, the words of the
//! problems, the pieces of programs and of the tool's messages are a token each, so that an episode
//! of a few hundred characters has a few dozen tokens. Numbers are cut into pairs of digits from the
//! left: a number of four digits is two tokens, which a small model copies far sooner than four.

use std::collections::BTreeSet;

use rocstar_chat::calls::CallFormat;
use rocstar_chat::{RenderOptions, Template, Tokenizer};
use rocstar_record::message::{Message, Role};
use serde_json::{Map, Value, json};

use super::demonstration::{AFTER_FAILURE, BEFORE_ANSWER, BEFORE_CALL, tool, tool_call};
use super::problem::wording;
use super::program::{Fault, Form};

/// Control tokens of the template.
const CONTROL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];
/// Stands for text that differs between conversations.
const PROBE: &str = "@@";
/// Pieces of programs, as they stand in the JSON of a call.
const PROGRAM: [&str; 26] = [
    "print(",
    "pritn(",
    "import math\\n",
    "\\n",
    "a = ",
    "b = ",
    "c = ",
    "a + b",
    "a - b",
    "a * b",
    "a % b",
    "a // b",
    "math.gcd(a, b)",
    "math.lcm(a, b)",
    "pow(a, b, 1000)",
    "sum(n % b == 0",
    "sum(str(b) in str(n)",
    "sum(sum(map(int, str(n))) == b",
    "sum(n % 10 == b",
    " for n in range(1, a + 1))",
    " + c",
    " - c",
    "(a + b)",
    "(a - b)",
    " * c",
    "import math\n",
];
/// Pieces of what the tool says.
const TOOL: [&str; 18] = [
    "SyntaxError",
    "NameError",
    " at line ",
    ": ",
    "'(' was never closed",
    "unmatched ')'",
    "invalid syntax",
    "name 'pritn' is not defined",
    "\n    ",
    "Tool call could not be read: ",
    " (line ",
    ", column ",
    ", after `",
    "`)",
    "expected `,` or `}` after a value, found `<`",
    "a string can't hold `\\n` itself; write its escape",
    "<tool_call>\\n",
    "</tool_call>",
];
/// The tokenizer of models that practise, for the family [`rocstar_chat::Family::rstar2`].
///
/// # Errors
/// None that a caller could mend: the built-in template would have to be broken.
pub fn tokenizer() -> Result<Tokenizer, rocstar_chat::Error> {
    let control = CONTROL.iter().map(|text| ((*text).to_owned(), true));
    let pieces = pieces()?.into_iter().map(|text| (text, false));
    let mut vocabulary = Map::new();
    for byte in 0..=u8::MAX {
        vocabulary.insert(character(byte).to_string(), Value::from(byte));
    }
    let added: Vec<Value> = (256_u32..)
        .zip(control.chain(pieces))
        .map(|(id, (content, special))| {
            json!({
                "id": id, "content": content, "special": special,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let level = |trim: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": trim, "use_regex": false});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": level(false), "post_processor": null, "decoder": level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        },
    });
    Tokenizer::from_json(json.to_string().as_bytes())
}

/// Every piece that is a token, in a fixed order.
fn pieces() -> Result<BTreeSet<String>, rocstar_chat::Error> {
    let mut pieces: BTreeSet<String> = (0..100).map(|pair| format!("{pair:02}")).collect();
    pieces.extend(template_pieces()?);
    pieces.extend(Form::ALL.into_iter().map(wording).flat_map(words));
    let said = [&BEFORE_CALL[..], &AFTER_FAILURE, &BEFORE_ANSWER].concat();
    pieces.extend(said.into_iter().map(str::to_owned));
    pieces.extend(PROGRAM.iter().chain(&TOOL).map(|text| (*text).to_owned()));
    pieces.retain(|piece| piece.len() > 1);
    Ok(pieces)
}

/// The words of a wording, each with the space behind it, those behind a number with one in front.
fn words(wording: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in wording.split("{}") {
        let lead = part.len() - part.trim_start().len();
        let (lead, rest) = part.split_at(lead);
        let mut first = lead.to_owned();
        for word in rest.split_inclusive(' ') {
            words.push(std::mem::take(&mut first) + word);
        }
    }
    words
}

/// What the template writes around every conversation, cut at control tokens and at what differs.
fn template_pieces() -> Result<Vec<String>, rocstar_chat::Error> {
    let call = |fault| tool_call(PROBE, fault);
    let messages = [
        Message::text(Role::User, PROBE),
        Message { tool_calls: vec![call(None)], ..Message::text(Role::Assistant, PROBE) },
        Message::text(Role::Tool, PROBE),
        Message::text(
            Role::Assistant,
            format!("{PROBE}</reason><answer>\\boxed{{{PROBE}}}</answer>"),
        ),
    ];
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let mut text = Template::rstar2()?.render(&messages, &[tool()], &options)?;
    for fault in Fault::ALL {
        if let Ok(call) = CallFormat::Hermes.render(&call(Some(fault))) {
            text += PROBE;
            text += &call;
        }
    }
    let mut parts = vec![text.as_str()];
    for cut in CONTROL.into_iter().chain([PROBE]) {
        parts = parts.into_iter().flat_map(|part| part.split(cut)).collect();
    }
    let wanted = parts.into_iter().filter(|part| !part.trim().is_empty());
    Ok(wanted.map(str::to_owned).collect())
}

/// The character that stands for a byte in a byte-level vocabulary: itself where it can be seen, the
/// others from U+0100 on, in order.
fn character(byte: u8) -> char {
    let is_shown = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_shown(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|other| !is_shown(*other)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}
