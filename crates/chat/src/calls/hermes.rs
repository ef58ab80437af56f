//! `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, of Hermes, Qwen and rStar2 models.
//!
//! A call is what stands between the tags and nothing else: JSON without tags is text. Calls may
//! stand anywhere. After a fault the next closing tag ends the call, wherever it stands.

use rocstar_record::message::ToolCall;
use serde_json::{Map, Value};

use super::failure::{CallFailure, FailureKind, Fault, shown};
use super::object::{self, Keys};
use super::output::{Mark, Output};
use super::tag::{Found, Tag};
use super::{json, json_object};

const OPENING: &str = "<tool_call>";
const CLOSING: &str = "</tool_call>";
const KEYS: Keys = Keys { arguments: "arguments", allows_type: false };

/// The call as templates write it, a line each for tags and object.
pub(super) fn render(call: &ToolCall) -> String {
    format!("{OPENING}\n{}\n{CLOSING}", json_object(call, KEYS.arguments))
}

/// Where in the text the parser stands.
#[derive(Debug, Clone)]
pub(super) enum Machine {
    /// Outside of a call.
    Text(Tag),
    /// Behind an opening tag.
    Object { start: Mark, scanner: Box<json::Scanner> },
    /// Behind the object.
    Closing { start: Mark, call: ToolCall, tag: Tag },
    /// Behind a fault.
    Skipping { failure: CallFailure, tag: Tag },
}

impl Machine {
    pub(super) fn new() -> Self {
        Self::Text(Tag::new(OPENING))
    }

    pub(super) fn step(&mut self, c: char, out: &mut Output) {
        match self {
            Self::Text(tag) => {
                if let Some(start) = tag.in_text(c, out) {
                    *self = Self::Object { start, scanner: Box::default() };
                }
            }
            Self::Object { start, scanner } => {
                let start = *start;
                match scanner.step(c).and_then(|done| done.map(Self::call).transpose()) {
                    Ok(None) => {}
                    Ok(Some(call)) => *self = Self::Closing { start, call, tag: Tag::new(CLOSING) },
                    Err(fault) => self.fault(start, fault, c, out),
                }
            }
            Self::Closing { start, call, tag } => match tag.step(c, out.here) {
                Found::Tag(_) => {
                    out.call(call.clone(), *start, out.here.behind(c));
                    *self = Self::new();
                }
                Found::Perhaps => {}
                Found::No("") if c.is_ascii_whitespace() => {}
                Found::No(held) => {
                    let start = *start;
                    self.fault(start, trailing_text(held, c), c, out);
                }
            },
            Self::Skipping { failure, tag } => {
                if tag.in_skipped(c, out.here) {
                    out.failed(failure.clone(), out.here.behind(c));
                    *self = Self::new();
                }
            }
        }
    }

    fn call(object: Map<String, Value>) -> Result<ToolCall, Fault> {
        object::call(object, KEYS)
    }

    /// A fault at `c`, which may itself begin the closing tag.
    fn fault(&mut self, start: Mark, fault: Fault, c: char, out: &mut Output) {
        *self = Self::Skipping { failure: out.fault(start, fault), tag: Tag::new(CLOSING) };
        self.step(c, out);
    }

    pub(super) fn finish(self, out: &mut Output) {
        let failure = match self {
            Self::Text(mut tag) => return out.text(tag.take_held()),
            Self::Object { start, scanner } => out.fault(start, scanner.unclosed()),
            Self::Closing { start, .. } => {
                out.fault(start, Fault::unclosed(format_args!("`{CLOSING}`")))
            }
            Self::Skipping { failure, .. } => failure,
        };
        out.failed(failure, out.here);
    }
}

fn trailing_text(held: &str, c: char) -> Fault {
    let found = if held.is_empty() { shown(c) } else { format!("`{held}{}`", c.escape_debug()) };
    let message = format!("expected `{CLOSING}` after the object, found {found}");
    Fault::new(FailureKind::TrailingText, message)
}
