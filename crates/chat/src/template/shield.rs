//! Control tokens that people wrote, kept apart from those that a template writes.
//!
//! A template joins both into one text, where they can't be told apart any more. So before
//! rendering, each control token's text inside a message is replaced by one private-use character
//! that stands for it, and after rendering that character is encoded as the text it stands for.
//! Invariant: whatever one message holds, no piece that is encoded with control tokens contains one
//! from it. (A template that writes two texts with nothing between could join halves; none known
//! does.)

use std::sync::Arc;

use rocstar_record::message::{Arguments, Message, ToolCall, ToolSpec};
use serde_json::{Map, Value};

use crate::tokenizer::Tokenizer;

/// First and last of the characters that stand for something (private use, plane 15).
const FIRST: u32 = 0xF_0000;
const LAST: u32 = 0xF_FFFD;

/// What the characters stand for.
#[derive(Debug, Clone)]
pub(crate) struct Shield {
    /// Text of each control token, the longest first: one may be the begin of another.
    control_tokens: Arc<[String]>,
    /// Private-use characters that the messages held themselves, numbered behind those.
    private: Vec<String>,
    /// Whether a control token starts with the byte.
    starts: [bool; 256],
}

/// Part of a rendered text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'text> {
    /// To be encoded with control tokens.
    Open(&'text str),
    /// To be encoded as text.
    Hidden(&'text str),
}

impl Shield {
    /// A shield against the control tokens of a tokenizer.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let control_tokens = tokenizer.special_texts();
        let mut starts = [false; 256];
        for first in control_tokens.iter().filter_map(|text| text.bytes().next()) {
            starts[usize::from(first)] = true;
        }
        Self { control_tokens, private: Vec::new(), starts }
    }

    /// The text with everything hidden that must not be parsed.
    pub(crate) fn hide(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let taken = match self.control_token_at(rest) {
                Some(index) => {
                    out.push(mark(index));
                    self.control_tokens[index].len()
                }
                None if index_of(character).is_some() => {
                    out.push(self.mark_of_private(character));
                    character.len_utf8()
                }
                None => {
                    out.push(character);
                    character.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        out
    }

    /// Messages and tools with everything hidden that must not be parsed.
    pub(crate) fn hide_all(
        &mut self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> (Vec<Message>, Vec<ToolSpec>) {
        let messages = messages.iter().map(|message| self.hide_message(message)).collect();
        (messages, tools.iter().map(|tool| self.hide_tool(tool)).collect())
    }

    /// A message with everything hidden that must not be parsed.
    pub(crate) fn hide_message(&mut self, message: &Message) -> Message {
        Message {
            role: message.role,
            content: self.hide(&message.content),
            reasoning_content: self.hide_option(message.reasoning_content.as_deref()),
            tool_calls: message.tool_calls.iter().map(|call| self.hide_call(call)).collect(),
            tool_call_id: self.hide_option(message.tool_call_id.as_deref()),
            name: self.hide_option(message.name.as_deref()),
        }
    }

    fn hide_call(&mut self, call: &ToolCall) -> ToolCall {
        let arguments = match &call.arguments {
            Arguments::Object(map) => Arguments::Object(self.hide_map(map)),
            Arguments::Text(text) => Arguments::Text(self.hide(text)),
        };
        let id = self.hide_option(call.id.as_deref());
        ToolCall { id, name: self.hide(&call.name), arguments }
    }

    fn hide_tool(&mut self, tool: &ToolSpec) -> ToolSpec {
        ToolSpec {
            name: self.hide(&tool.name),
            description: self.hide_option(tool.description.as_deref()),
            parameters: tool.parameters.as_ref().map(|parameters| self.hide_json(parameters)),
        }
    }

    fn hide_option(&mut self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.hide(text))
    }

    fn hide_json(&mut self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.hide(text)),
            Value::Array(list) => list.iter().map(|item| self.hide_json(item)).collect(),
            Value::Object(map) => Value::Object(self.hide_map(map)),
        }
    }

    fn hide_map(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter().map(|(key, value)| (self.hide(key), self.hide_json(value))).collect()
    }

    /// The pieces of a rendered text, each with the byte where it starts.
    pub(crate) fn pieces<'text>(&'text self, text: &'text str) -> Vec<(usize, Piece<'text>)> {
        let mut pieces = Vec::new();
        let mut open_from = 0;
        for (at, character) in text.char_indices() {
            let Some(hidden) = index_of(character).and_then(|index| self.hidden(index)) else {
                continue;
            };
            if open_from < at {
                pieces.push((open_from, Piece::Open(&text[open_from..at])));
            }
            pieces.push((at, Piece::Hidden(hidden)));
            open_from = at + character.len_utf8();
        }
        if open_from < text.len() {
            pieces.push((open_from, Piece::Open(&text[open_from..])));
        }
        pieces
    }

    /// What the entry stands for.
    fn hidden(&self, index: usize) -> Option<&str> {
        let private = || self.private.get(index - self.control_tokens.len());
        self.control_tokens.get(index).or_else(private).map(String::as_str)
    }

    fn control_token_at(&self, text: &str) -> Option<usize> {
        if !self.starts[usize::from(*text.as_bytes().first()?)] {
            return None;
        }
        self.control_tokens.iter().position(|token| text.starts_with(token.as_str()))
    }

    /// The mark of a private-use character that the text itself holds.
    fn mark_of_private(&mut self, character: char) -> char {
        let mut buffer = [0; 4];
        let text = &*character.encode_utf8(&mut buffer);
        let known = self.private.iter().position(|known| known == text);
        let index = self.control_tokens.len() + known.unwrap_or(self.private.len());
        if FIRST + index as u32 > LAST {
            // A text with tens of thousands of different private characters: nothing legible is
            // lost, and a mark must stay unambiguous.
            return char::REPLACEMENT_CHARACTER;
        }
        if known.is_none() {
            self.private.push(text.to_owned());
        }
        mark(index)
    }
}

/// The character that stands for the entry.
fn mark(index: usize) -> char {
    char::from_u32(FIRST + index as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The entry for which a character stands, if it is such a character.
fn index_of(character: char) -> Option<usize> {
    let code = u32::from(character);
    (FIRST..=LAST).contains(&code).then(|| (code - FIRST) as usize)
}
