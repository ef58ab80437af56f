//! Tool calls in a model's text: one parser for training, evaluation and serving.
//!
//! Hides how each family of models writes a call; a format is a file of this folder. Invariants:
//!
//! - What a parser finds doesn't depend on how the text was cut into pieces, since it reads
//!   characters, and each of them a bounded number of times.
//! - Text goes out as soon as it can't be part of a call any more.
//! - Texts and spans together cover the whole text, each byte once and in order.
//! - Nothing is repaired. A call that isn't exactly in its notation is a [`CallFailure`]: a value
//!   with a position and a sentence for the model, so that faults are seen, counted and learned
//!   from, and nothing runs that the model didn't write.
//!
//! Identities of calls are not part of any format: a parsed call has none, and a written one loses
//! it. What the tools are and whether the arguments fit them is not looked at here.

mod failure;
mod fenced_code;
mod hermes;
mod json;
mod literal_text;
mod llama3_json;
mod object;
mod output;
mod python_literal;
mod python_number;
mod pythonic;
mod tag;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rocstar_record::message::{Arguments, ToolCall};

pub use failure::{CallFailure, FailureKind};
pub use fenced_code::CodeTool;
use output::Output;

/// The longest call that is read: a quarter of a million tokens, more than models write at once.
pub const MAX_CALL_BYTES: usize = 1 << 20;

/// How deep objects and lists may be nested, the call's own object included. Deeper ones would
/// exhaust the stack of programs that walk them.
pub const MAX_DEPTH: usize = 64;

/// How a family of models writes tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFormat {
    /// `<tool_call>{"name": "f", "arguments": {}}</tool_call>`: Hermes, Qwen, rStar2.
    Hermes,
    /// `{"name": "f", "parameters": {}}` as the message, or behind `<|python_tag|>`: Llama 3.
    Llama3Json,
    /// `[f(a=1), g()]` as the message, with Python literals: Llama 3.2, Llama 4.
    Pythonic,
    /// A fenced block of Python code is a call of this tool.
    FencedCode(CodeTool),
}

/// What a parser found.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Text that is no call. A later event may go on with it.
    Text(String),
    /// A call.
    Call(ParsedCall),
    /// What began as a call and can't be read. Its text is in no other event.
    Failed(CallFailure),
}

/// A call that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// The call.
    pub call: ToolCall,
    /// What it takes of the whole text, in bytes, its tags included.
    pub span: Range<usize>,
}

/// A call that a format has no way to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a call of `{name}` can't be written in the format `{format}`: {reason}")]
pub struct Unwritable {
    /// The tool.
    pub name: String,
    /// The format.
    pub format: CallFormat,
    /// Why not.
    pub reason: &'static str,
}

/// No format is called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no format of tool calls; there are: {}", CallFormat::names())]
pub struct UnknownFormat {
    /// What was asked for.
    pub name: String,
}

impl CallFormat {
    /// Every format, the code tool under its default name.
    pub const ALL: [Self; 4] =
        [Self::Hermes, Self::Llama3Json, Self::Pythonic, Self::FencedCode(CodeTool::DEFAULT)];

    /// One call, as a model writes it.
    ///
    /// Arguments that are no JSON object are written as they are, so that a data set's faulty call
    /// shows its fault; reading it again is a failure. Every other call reads back unchanged.
    ///
    /// # Errors
    ///
    /// A call that the format can't express, as fenced code can't a call of another tool.
    pub fn render(&self, call: &ToolCall) -> Result<String, Unwritable> {
        self.render_all(std::slice::from_ref(call))
    }

    /// Several calls of one message, in order.
    ///
    /// # Errors
    ///
    /// As for [`render`](Self::render).
    pub fn render_all(&self, calls: &[ToolCall]) -> Result<String, Unwritable> {
        let write = |call: &ToolCall| match self {
            Self::Hermes => Ok(hermes::render(call)),
            Self::Llama3Json => Ok(llama3_json::render(call)),
            Self::Pythonic => pythonic::render(call),
            Self::FencedCode(tool) => fenced_code::render(call, tool),
        };
        let mut written = Vec::with_capacity(calls.len());
        for call in calls {
            written.push(write(call).map_err(|reason| Unwritable {
                name: call.name.clone(),
                format: self.clone(),
                reason,
            })?);
        }
        Ok(match self {
            Self::Hermes | Self::FencedCode(_) => written.join("\n"),
            Self::Llama3Json => written.join("; "),
            Self::Pythonic if written.is_empty() => String::new(),
            Self::Pythonic => format!("[{}]", written.join(", ")),
        })
    }

    /// A parser for one message.
    pub fn parser(&self) -> CallParser {
        let machine = match self {
            Self::Hermes => Machine::Hermes(hermes::Machine::new()),
            Self::Llama3Json => Machine::Llama3Json(llama3_json::Machine::new()),
            Self::Pythonic => Machine::Pythonic(pythonic::Machine::new()),
            Self::FencedCode(tool) => Machine::FencedCode(fenced_code::Machine::new(tool.clone())),
        };
        CallParser { machine, output: Output::default() }
    }

    /// All events of a whole message, neighbouring text joined.
    pub fn parse_all(&self, text: &str) -> Vec<Event> {
        let mut parser = self.parser();
        parser.read(text);
        parser.finish()
    }

    fn names() -> String {
        Self::ALL.map(|format| format!("`{format}`")).join(", ")
    }
}

impl fmt::Display for CallFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hermes => f.write_str("hermes"),
            Self::Llama3Json => f.write_str("llama3_json"),
            Self::Pythonic => f.write_str("pythonic"),
            Self::FencedCode(tool) if *tool == CodeTool::DEFAULT => f.write_str("fenced_code"),
            Self::FencedCode(tool) => write!(f, "fenced_code:{}", tool.name()),
        }
    }
}

/// Reads what `Display` writes; `fenced_code:NAME` names the code tool.
impl FromStr for CallFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        if let Some(tool) = name.strip_prefix("fenced_code:").and_then(CodeTool::new) {
            return Ok(Self::FencedCode(tool));
        }
        let known = Self::ALL.into_iter().find(|format| format.to_string() == name);
        known.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// Reads one message piece by piece.
#[derive(Debug, Clone)]
pub struct CallParser {
    machine: Machine,
    output: Output,
}

/// The format's state.
#[derive(Debug, Clone)]
enum Machine {
    Hermes(hermes::Machine),
    Llama3Json(llama3_json::Machine),
    Pythonic(pythonic::Machine),
    FencedCode(fenced_code::Machine),
}

impl CallParser {
    /// Reads the next piece. What is certain by now, each thing once.
    pub fn push(&mut self, piece: &str) -> Vec<Event> {
        self.read(piece);
        self.output.take()
    }

    /// The message ends here. What was still open: text that was held back, a call cut off.
    pub fn finish(mut self) -> Vec<Event> {
        match self.machine {
            Machine::Hermes(machine) => machine.finish(&mut self.output),
            Machine::Llama3Json(machine) => machine.finish(&mut self.output),
            Machine::Pythonic(machine) => machine.finish(&mut self.output),
            Machine::FencedCode(machine) => machine.finish(&mut self.output),
        }
        self.output.take()
    }

    fn read(&mut self, piece: &str) {
        for c in piece.chars() {
            match &mut self.machine {
                Machine::Hermes(machine) => machine.step(c, &mut self.output),
                Machine::Llama3Json(machine) => machine.step(c, &mut self.output),
                Machine::Pythonic(machine) => machine.step(c, &mut self.output),
                Machine::FencedCode(machine) => machine.step(c, &mut self.output),
            }
            self.output.advance(c);
        }
    }
}

/// The object of a call in the JSON formats.
fn json_object(call: &ToolCall, arguments_key: &str) -> String {
    let mut text = "{\"name\": ".to_owned();
    literal_text::write_string(&call.name, &mut text);
    text.push_str(", ");
    literal_text::write_string(arguments_key, &mut text);
    text.push_str(": ");
    match &call.arguments {
        Arguments::Object(map) => {
            literal_text::write_object(map, literal_text::Notation::Json, &mut text);
        }
        Arguments::Text(raw) => text.push_str(raw),
    }
    text.push('}');
    text
}
