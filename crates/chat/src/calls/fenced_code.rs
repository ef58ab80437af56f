//! A fenced block of Python code, as a call of one tool.
//!
//! A line of three or more backticks and the word `python` opens a block; a line of at least as
//! many backticks, and nothing else, closes it. What lies between is the argument `code`, to the
//! letter, without its last line break. As in Markdown, a fence inside another block is that
//! block's text, so that code shown in a longer fence or under another word is not run. A block
//! that isn't closed is a failure.

use std::borrow::Cow;

use rocstar_record::message::{Arguments, ToolCall};
use serde_json::{Map, Value};

use super::MAX_CALL_BYTES;
use super::failure::{CallFailure, Fault};
use super::output::{Mark, Output};

/// The word behind an opening fence.
const WORD: &str = "python";
/// The argument that holds the code.
const ARGUMENT: &str = "code";

/// The tool that fenced code calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeTool(Cow<'static, str>);

impl CodeTool {
    /// The tool's usual name, `python`.
    pub const DEFAULT: Self = Self(Cow::Borrowed(WORD));

    /// A tool of this name; `None` where it is empty.
    pub fn new(name: &str) -> Option<Self> {
        (!name.is_empty()).then(|| Self(name.to_owned().into()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// The call as a block, its fence longer than any in the code.
pub(super) fn render(call: &ToolCall, tool: &CodeTool) -> Result<String, &'static str> {
    if call.name != tool.name() {
        return Err("it is not the code tool");
    }
    let code = match &call.arguments {
        Arguments::Object(map) if map.len() == 1 => map.get(ARGUMENT).and_then(Value::as_str),
        Arguments::Object(_) | Arguments::Text(_) => None,
    };
    let code = code.ok_or("its arguments are not `code`, a string, alone")?;
    let longest = code.split('\n').map(|line| line.len() - line.trim_start_matches('`').len());
    let fence = "`".repeat(longest.max().unwrap_or(0).max(2) + 1);
    Ok(format!("{fence}{WORD}\n{code}\n{fence}"))
}

/// Where in the text the parser stands.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    tool: CodeTool,
    state: State,
    /// What the line may still be: the opening fence, or inside a block the closing one.
    fence: Fence,
    /// What was read of that line, held back.
    held: String,
    line_start: Mark,
    /// Where the block of code began.
    start: Mark,
    code: String,
    failure: Option<CallFailure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside of blocks; so far the line may open one of code.
    Outside,
    /// Outside of blocks, in a line that opens none.
    OutsideLine,
    /// Behind a fence and what is not `python`: opens a block that is text, unless a backtick
    /// follows.
    OtherWord,
    /// In a block that is text; so far the line may close it.
    Other,
    /// In a block that is text, in a line that doesn't close it.
    OtherLine,
    /// In a block of code; so far the line may close it.
    Code,
    /// In a block of code, in a line that doesn't close it.
    CodeLine,
}

impl Machine {
    pub(super) fn new(tool: CodeTool) -> Self {
        Self {
            tool,
            state: State::Outside,
            fence: Fence::opening(),
            held: String::new(),
            line_start: Mark::default(),
            start: Mark::default(),
            code: String::new(),
            failure: None,
        }
    }

    pub(super) fn step(&mut self, c: char, out: &mut Output) {
        if self.held.is_empty() {
            self.line_start = out.here;
        }
        match self.state {
            State::Outside if self.fence.step(c) => {
                self.held.push(c);
                if c == '\n' {
                    self.start = self.line_start;
                    self.held.clear();
                    self.enter(State::Code);
                }
            }
            State::Outside if self.fence.ticks >= FEWEST_TICKS && c != '`' => {
                self.pass(c, State::OtherWord, State::Other, out);
            }
            State::Outside | State::OutsideLine => {
                self.pass(c, State::OutsideLine, State::Outside, out);
            }
            State::OtherWord if c == '`' => self.pass(c, State::OutsideLine, State::Outside, out),
            State::OtherWord => self.pass(c, State::OtherWord, State::Other, out),
            State::Other if self.fence.step(c) => {
                self.held.push(c);
                if c == '\n' {
                    self.flush(out);
                    self.enter(State::Outside);
                }
            }
            State::Other | State::OtherLine => self.pass(c, State::OtherLine, State::Other, out),
            State::Code if self.fence.step(c) => {
                if c == '\n' {
                    self.close(out);
                    self.pass(c, State::Outside, State::Outside, out);
                } else {
                    self.held.push(c);
                }
            }
            State::Code | State::CodeLine => self.code_line(c, out),
        }
    }

    /// Changes the state. At the start of a line, says which fence may come.
    fn enter(&mut self, state: State) {
        self.fence = match (state, self.state) {
            (State::Outside, _) => Fence::opening(),
            (State::Code | State::Other, State::Outside | State::OtherWord) => {
                Fence::closing(self.fence.ticks)
            }
            (State::Code | State::Other, _) => Fence::closing(self.fence.least),
            (State::OutsideLine | State::OtherWord | State::OtherLine | State::CodeLine, _) => {
                self.fence
            }
        };
        self.state = state;
    }

    /// Lets the line out as text. The state is `line` up to its end, then `next`.
    fn pass(&mut self, c: char, line: State, next: State, out: &mut Output) {
        self.flush(out);
        out.character(c);
        self.enter(if c == '\n' { next } else { line });
    }

    fn flush(&mut self, out: &mut Output) {
        out.text(&self.held);
        self.held.clear();
    }

    /// The line is code, with what was held back of it.
    fn code_line(&mut self, c: char, out: &Output) {
        let mut held = std::mem::take(&mut self.held);
        held.push(c);
        if self.failure.is_none() && self.code.len() + held.len() > MAX_CALL_BYTES {
            self.code = String::new();
            self.failure = Some(out.fault(self.start, Fault::too_large()));
        }
        if self.failure.is_none() {
            self.code.push_str(&held);
        }
        held.clear();
        self.held = held;
        self.enter(if c == '\n' { State::Code } else { State::CodeLine });
    }

    /// The line that was read closes the block.
    fn close(&mut self, out: &mut Output) {
        self.held.clear();
        let mut code = std::mem::take(&mut self.code);
        if code.ends_with('\n') {
            code.pop();
        }
        match self.failure.take() {
            Some(failure) => out.failed(failure, out.here),
            None => out.call(self.call(code), self.start, out.here),
        }
    }

    fn call(&self, code: String) -> ToolCall {
        let arguments = Map::from_iter([(ARGUMENT.to_owned(), Value::String(code))]);
        ToolCall {
            id: None,
            name: self.tool.name().to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    pub(super) fn finish(mut self, out: &mut Output) {
        match self.state {
            State::Outside if self.fence.is_complete() => {
                let failure = out.fault(self.line_start, unclosed(self.fence.ticks));
                out.failed(failure, out.here);
            }
            State::Code if self.fence.is_complete() => self.close(out),
            State::Code | State::CodeLine => {
                let failure = self.failure.take();
                let failure =
                    failure.unwrap_or_else(|| out.fault(self.start, unclosed(self.fence.least)));
                out.failed(failure, out.here);
            }
            State::Outside
            | State::OutsideLine
            | State::OtherWord
            | State::Other
            | State::OtherLine => self.flush(out),
        }
    }
}

/// The fewest backticks of a fence.
const FEWEST_TICKS: usize = 3;

/// A line as far as it was read: backticks, blanks, a word, blanks.
#[derive(Debug, Clone, Copy)]
struct Fence {
    /// How many backticks it needs.
    least: usize,
    word: &'static str,
    ticks: usize,
    /// How much of the word was read.
    matched: usize,
    /// Whether a blank came last, or the end of the line.
    after_blank: bool,
}

impl Fence {
    fn opening() -> Self {
        Self { least: FEWEST_TICKS, word: WORD, ticks: 0, matched: 0, after_blank: false }
    }

    fn closing(least: usize) -> Self {
        Self { least, word: "", ticks: 0, matched: 0, after_blank: false }
    }

    /// Reads the line's next character. False where it makes the line something else.
    fn step(&mut self, c: char) -> bool {
        let whole_word = self.matched == self.word.len();
        match c {
            '`' if self.matched == 0 && !self.after_blank => self.ticks += 1,
            _ if self.ticks < self.least => return false,
            '\r' | '\n' if !whole_word => return false,
            ' ' | '\t' if self.matched > 0 && !whole_word => return false,
            ' ' | '\t' | '\r' | '\n' => self.after_blank = true,
            _ if self.after_blank && self.matched > 0 => return false,
            _ if self.word[self.matched..].starts_with(c) => {
                self.matched += c.len_utf8();
                self.after_blank = false;
            }
            _ => return false,
        }
        true
    }

    /// Whether the line is the fence if it ends here.
    fn is_complete(&self) -> bool {
        self.ticks >= self.least && self.matched == self.word.len()
    }
}

fn unclosed(ticks: usize) -> Fault {
    Fault::unclosed(format_args!("a line of {ticks} backticks closes the code"))
}
