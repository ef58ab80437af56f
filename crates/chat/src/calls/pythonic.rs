//! `[f(a=1, b="x"), g()]`: a list of calls with Python literals, of Llama 3.2 and Llama 4 models.
//!
//! The list is how a message begins; what follows it is text. A message that begins with `[`, a
//! name and `(` is taken for one, any other is text. The list is read when its bracket closes, so it
//! is one piece: one faulty call in it, and none of it is run.
//!
//! An argument whose name is no name in Python goes into a `**{"…": …}`. Names are plain ASCII; a
//! tool's may be dotted.

use rocstar_record::message::{Arguments, ToolCall};
use serde_json::Map;

use super::MAX_CALL_BYTES;
use super::failure::{CallFailure, FailureKind, Fault};
use super::literal_text::{self, Notation};
use super::output::{self, Mark, Output};
use super::python_literal::{FaultAt, Reader, insert};

/// Words that Python takes for itself, so that `f(from=1)` is no call of it.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The call without the list around it.
pub(super) fn render(call: &ToolCall) -> Result<String, &'static str> {
    if !call.name.split('.').all(is_name) {
        return Err("its name is not a name in Python");
    }
    let arguments = match &call.arguments {
        Arguments::Object(map) => map,
        Arguments::Text(raw) => return Ok(format!("{}({raw})", call.name)),
    };
    let mut written = Vec::with_capacity(arguments.len());
    for (name, value) in arguments {
        let mut argument = String::new();
        if is_name(name) {
            argument.push_str(name);
            argument.push('=');
            literal_text::write(value, Notation::Python, &mut argument);
        } else {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            argument.push_str("**");
            literal_text::write_object(&alone, Notation::Python, &mut argument);
        }
        written.push(argument);
    }
    Ok(format!("{}({})", call.name, written.join(", ")))
}

fn is_name(name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let begins_well = name.starts_with(|c: char| !c.is_ascii_digit());
    is_plain && begins_well && !KEYWORDS.contains(&name)
}

/// Where in the text the parser stands.
#[derive(Debug, Clone)]
pub(super) enum Machine {
    /// Only white space so far.
    Start,
    /// Behind `[` and what may be a call's name.
    Beginning { start: Mark, held: String, part: Part },
    /// In the list.
    List { start: Mark, held: String, end: EndScanner },
    /// In a list that is longer than any may be.
    Skipping { failure: CallFailure, end: EndScanner },
    /// No call can follow.
    Text,
}

/// How far the beginning of a list was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    BeforeName,
    Name,
    AfterName,
}

impl Part {
    /// The part behind `c`; `None` where it is no beginning of a call.
    fn next(self, c: char) -> Option<Self> {
        match (self, c) {
            (Self::BeforeName | Self::AfterName, _) if c.is_ascii_whitespace() => Some(self),
            (Self::BeforeName, 'a'..='z' | 'A'..='Z' | '_') => Some(Self::Name),
            (Self::Name, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.') => Some(Self::Name),
            (Self::Name, _) if c.is_ascii_whitespace() => Some(Self::AfterName),
            _ => None,
        }
    }
}

impl Machine {
    pub(super) fn new() -> Self {
        Self::Start
    }

    pub(super) fn step(&mut self, c: char, out: &mut Output) {
        match self {
            Self::Start if c == '[' => {
                let (start, held) = (out.here, c.into());
                *self = Self::Beginning { start, held, part: Part::BeforeName };
            }
            Self::Start => {
                out.character(c);
                if !c.is_ascii_whitespace() {
                    *self = Self::Text;
                }
            }
            Self::Beginning { .. } => self.beginning(c, out),
            Self::List { start, held, end } => {
                held.push(c);
                if end.step(c) {
                    list(held, *start, out.here.behind(c), out);
                    *self = Self::Text;
                } else if held.len() > MAX_CALL_BYTES {
                    let failure = out.fault(*start, Fault::too_large());
                    *self = Self::Skipping { failure, end: end.clone() };
                }
            }
            Self::Skipping { failure, end } => {
                if end.step(c) {
                    out.failed(failure.clone(), out.here.behind(c));
                    *self = Self::Text;
                }
            }
            Self::Text => out.character(c),
        }
    }

    fn beginning(&mut self, c: char, out: &mut Output) {
        let Self::Beginning { start, held, part } = self else { return };
        held.push(c);
        match part.next(c) {
            Some(next) => *part = next,
            None if c == '(' && *part != Part::BeforeName => {
                let (start, held) = (*start, std::mem::take(held));
                *self = Self::List { start, end: EndScanner::of(&held), held };
            }
            None => {
                out.text(held);
                *self = Self::Text;
            }
        }
    }

    pub(super) fn finish(self, out: &mut Output) {
        match self {
            Self::Start | Self::Text => {}
            Self::Beginning { held, .. } => out.text(&held),
            Self::List { start, held, .. } => list(&held, start, out.here, out),
            Self::Skipping { failure, .. } => out.failed(failure, out.here),
        }
    }
}

/// Reads a list that is complete, or cut off by the end of the text.
fn list(held: &str, start: Mark, end: Mark, out: &mut Output) {
    match calls(&mut Reader::new(held)) {
        Ok(calls) => {
            let last = calls.len().saturating_sub(1);
            let mut from = start;
            let mut walked = 0;
            for (index, (call, ends_at)) in calls.into_iter().enumerate() {
                // Each call takes what separates it from the next.
                let to = held[walked..ends_at].chars().fold(from, Mark::behind);
                walked = ends_at;
                out.call(call, from, if index == last { end } else { to });
                from = to;
            }
        }
        Err(FaultAt { fault, at }) => {
            let before = &held[..at];
            let at = before.chars().fold(start, Mark::behind);
            out.failed(output::failure(fault, start, at, before), end);
        }
    }
}

/// The calls of a list, each with the byte behind it.
fn calls(reader: &mut Reader<'_>) -> Result<Vec<(ToolCall, usize)>, FaultAt> {
    let mut calls = Vec::new();
    reader.eat("[");
    reader.blanks();
    while !reader.eat("]") {
        let call = call(reader)?;
        calls.push((call, reader.at()));
        reader.separator("]", "`,` or `]` after a call")?;
    }
    match reader.peek() {
        None => Ok(calls),
        Some(_) => Err(reader.expected("the end of the list")),
    }
}

fn call(reader: &mut Reader<'_>) -> Result<ToolCall, FaultAt> {
    let mut name = name(reader, "a tool's name")?.to_owned();
    while reader.eat(".") {
        name.push('.');
        name.push_str(self::name(reader, "a name after `.`")?);
    }
    reader.blanks();
    if !reader.eat("(") {
        return Err(reader.expected("`(` after the tool's name"));
    }
    let mut arguments = Map::new();
    reader.blanks();
    while !reader.eat(")") {
        argument(reader, &mut arguments)?;
        reader.separator(")", "`,` or `)` after an argument")?;
    }
    Ok(ToolCall { id: None, name, arguments: Arguments::Object(arguments) })
}

fn name<'a>(reader: &mut Reader<'a>, expected: &str) -> Result<&'a str, FaultAt> {
    let at = reader.at();
    match reader.name() {
        "" => Err(reader.expected(expected)),
        name if KEYWORDS.contains(&name) => {
            let message = format!("`{name}` is a word of Python's own, not a name");
            Err(FaultAt { fault: Fault::new(FailureKind::Syntax, message), at })
        }
        name => Ok(name),
    }
}

fn argument(
    reader: &mut Reader<'_>,
    arguments: &mut Map<String, serde_json::Value>,
) -> Result<(), FaultAt> {
    let at = reader.at();
    let placed = |fault| FaultAt { fault, at };
    if reader.eat("**") {
        reader.blanks();
        for (name, value) in reader.braced()? {
            insert(arguments, name, value).map_err(placed)?;
        }
        return Ok(());
    }
    let name = reader.name();
    reader.blanks();
    if name.is_empty() || !reader.eat("=") {
        let begins_none = |c: char| matches!(c, ',' | '=' | ':' | ';' | ']' | '}');
        match reader.peek() {
            None => return Err(reader.expected("the call is closed by `)`")),
            Some(c) if name.is_empty() && begins_none(c) => {
                return Err(reader.expected("an argument or `)`"));
            }
            Some(_) => {}
        }
        let message = "arguments have names, as in `f(a=1)`";
        return Err(placed(Fault::new(FailureKind::PositionalArgument, message)));
    }
    if KEYWORDS.contains(&name) {
        let message = format!("`{name}` is a word of Python's own; write `**{{\"{name}\": …}}`");
        return Err(placed(Fault::new(FailureKind::Syntax, message)));
    }
    reader.blanks();
    let value = reader.value()?;
    insert(arguments, name.to_owned(), value).map_err(placed)
}

/// Finds the bracket that closes a list, a character at a time. It knows strings and brackets, and
/// leaves judging what is between them to the reader.
#[derive(Debug, Clone, Default)]
pub(super) struct EndScanner {
    depth: usize,
    text: Quoted,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Quoted {
    #[default]
    No,
    /// Behind so many quotes, one or two, which may become three.
    Opening { quote: char, count: u8 },
    /// In a string; `run` quotes came last.
    In { quote: char, is_long: bool, run: u8, is_escaped: bool },
}

impl EndScanner {
    /// Behind `beginning`, which holds no string.
    fn of(beginning: &str) -> Self {
        let mut scanner = Self::default();
        for c in beginning.chars() {
            scanner.step(c);
        }
        scanner
    }

    /// Reads the next character. True where it closes the list.
    fn step(&mut self, c: char) -> bool {
        match self.text {
            Quoted::No => return self.outside(c),
            Quoted::Opening { quote, count } if c == quote => {
                self.text = if count == 2 {
                    Quoted::In { quote, is_long: true, run: 0, is_escaped: false }
                } else {
                    Quoted::Opening { quote, count: 2 }
                };
            }
            // Two quotes were an empty string.
            Quoted::Opening { count: 2, .. } => {
                self.text = Quoted::No;
                return self.outside(c);
            }
            Quoted::Opening { quote, .. } => self.inside(c, quote, false, 0, false),
            Quoted::In { quote, is_long, run, is_escaped } => {
                self.inside(c, quote, is_long, run, is_escaped);
            }
        }
        false
    }

    fn outside(&mut self, c: char) -> bool {
        match c {
            '[' | '(' | '{' => self.depth += 1,
            ']' | ')' | '}' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            '"' | '\'' => self.text = Quoted::Opening { quote: c, count: 1 },
            _ => {}
        }
        false
    }

    fn inside(&mut self, c: char, quote: char, is_long: bool, run: u8, is_escaped: bool) {
        let run = if c == quote && !is_escaped { run + 1 } else { 0 };
        let is_closed = run == if is_long { 3 } else { 1 };
        // A line break ends a short string, in which it is a fault.
        self.text = if is_closed || (c == '\n' && !is_long && !is_escaped) {
            Quoted::No
        } else {
            Quoted::In { quote, is_long, run, is_escaped: c == '\\' && !is_escaped }
        };
    }
}
