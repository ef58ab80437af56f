//! `{"name": …, "parameters": {…}}`, of Llama 3.1 and later models.
//!
//! A call is the whole message, or stands behind `<|python_tag|>`; several follow each other with
//! `;` between. No tag closes a call. So an object at the start of a message is taken for a call
//! only where its first key is one of a call's (`name`, `parameters`, or `type` with the value
//! `function`), anything else is text, and after a fault the rest of the message belongs to the
//! call.

use rocstar_record::message::ToolCall;
use serde_json::{Map, Value};

use super::failure::{CallFailure, Fault};
use super::object::{self, Keys};
use super::output::{Mark, Output};
use super::tag::Tag;
use super::{json, json_object};

const TAG: &str = "<|python_tag|>";
const KEYS: Keys = Keys { arguments: "parameters", allows_type: true };

/// What a call begins with where no tag says that it is one. White space may stand between parts.
const BEGINNINGS: [&[&str]; 3] = [
    &["{", "\"name\"", ":"],
    &["{", "\"parameters\"", ":"],
    &["{", "\"type\"", ":", "\"function\""],
];

/// The call as the template writes it.
pub(super) fn render(call: &ToolCall) -> String {
    json_object(call, KEYS.arguments)
}

/// Where in the text the parser stands.
#[derive(Debug, Clone)]
pub(super) enum Machine {
    /// Only white space so far.
    Start,
    /// Behind what may be the beginning of a call.
    Beginning { start: Mark, held: String, beginning: Beginning },
    /// Outside of a call.
    Text(Tag),
    /// In a call, or where one must follow.
    Object { start: Mark, scanner: Box<json::Scanner> },
    /// Behind a call, where `;` announces another.
    Between { start: Mark, held: String },
    /// Behind a fault.
    Skipping(CallFailure),
}

impl Machine {
    pub(super) fn new() -> Self {
        Self::Start
    }

    pub(super) fn step(&mut self, c: char, out: &mut Output) {
        match self {
            Self::Start if c.is_ascii_whitespace() => out.character(c),
            Self::Start if c == '{' => {
                let mut beginning = Beginning::default();
                beginning.step(c);
                *self = Self::Beginning { start: out.here, held: c.into(), beginning };
            }
            Self::Start => self.text(c, out),
            Self::Beginning { .. } => self.beginning(c, out),
            Self::Text(tag) => {
                if let Some(start) = tag.in_text(c, out) {
                    *self = Self::Object { start, scanner: Box::default() };
                }
            }
            Self::Object { start, scanner } => {
                let start = *start;
                match scanner.step(c).and_then(|done| done.map(Self::call).transpose()) {
                    Ok(None) => {}
                    Ok(Some(call)) => {
                        let end = out.here.behind(c);
                        out.call(call, start, end);
                        *self = Self::Between { start: end, held: String::new() };
                    }
                    Err(fault) => *self = Self::Skipping(out.fault(start, fault)),
                }
            }
            Self::Between { held, .. } if c.is_ascii_whitespace() => held.push(c),
            Self::Between { start, .. } if c == ';' => {
                *self = Self::Object { start: *start, scanner: Box::default() };
            }
            Self::Between { held, .. } => {
                out.text(held);
                self.text(c, out);
            }
            Self::Skipping(_) => {}
        }
    }

    fn beginning(&mut self, c: char, out: &mut Output) {
        let Self::Beginning { start, held, beginning } = self else { return };
        match beginning.step(c) {
            Is::Perhaps => held.push(c),
            Is::Call => {
                held.push(c);
                *self = Self::object(*start, held, out);
            }
            Is::Text => {
                out.text(held);
                self.text(c, out);
            }
        }
    }

    fn call(object: Map<String, Value>) -> Result<ToolCall, Fault> {
        object::call(object, KEYS)
    }

    /// `c` is text, or begins the tag.
    fn text(&mut self, c: char, out: &mut Output) {
        *self = Self::Text(Tag::new(TAG));
        self.step(c, out);
    }

    /// What was held back is the beginning of a call.
    fn object(start: Mark, held: &str, out: &Output) -> Self {
        let mut scanner = Box::<json::Scanner>::default();
        for c in held.chars() {
            if let Err(fault) = scanner.step(c) {
                return Self::Skipping(out.fault(start, fault));
            }
        }
        Self::Object { start, scanner }
    }

    pub(super) fn finish(self, out: &mut Output) {
        let failure = match self {
            Self::Start => return,
            Self::Text(mut tag) => return out.text(tag.take_held()),
            Self::Beginning { held, .. } | Self::Between { held, .. } => return out.text(&held),
            Self::Object { start, scanner } => out.fault(start, scanner.unclosed()),
            Self::Skipping(failure) => failure,
        };
        out.failed(failure, out.here);
    }
}

/// Tells the beginning of a call from other JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginning {
    /// Parts that matched, without white space.
    matched: String,
}

enum Is {
    Perhaps,
    Call,
    Text,
}

impl Beginning {
    fn step(&mut self, c: char) -> Is {
        let is_space = c.is_ascii_whitespace();
        if is_space && BEGINNINGS.iter().any(|parts| self.stands_between(parts)) {
            return Is::Perhaps;
        }
        self.matched.push(c);
        let wanted = BEGINNINGS.map(|parts| parts.concat());
        if wanted.contains(&self.matched) {
            Is::Call
        } else if wanted.iter().any(|whole| whole.starts_with(&self.matched)) {
            Is::Perhaps
        } else {
            Is::Text
        }
    }

    /// Whether what matched ends where a part of `parts` ends.
    fn stands_between(&self, parts: &[&str]) -> bool {
        (1..parts.len()).any(|count| parts[..count].concat() == self.matched)
    }
}
