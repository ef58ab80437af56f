//! What a parser has found so far, and where in the text it stands.
//!
//! Hides the joining of neighbouring text and the counting of bytes, lines and columns. Invariant:
//! text and spans, in order, cover the text that was read, each byte once.

use rocstar_record::message::ToolCall;

use super::failure::{CallFailure, Fault};
use super::{Event, ParsedCall};

/// How many characters before a fault its report quotes.
const QUOTED_CHARACTERS: usize = 24;

/// A place in the whole text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Bytes before it.
    pub(super) position: usize,
    line: usize,
    column: usize,
}

impl Mark {
    /// The place behind `c`, which stands here.
    pub(super) fn behind(self, c: char) -> Self {
        let position = self.position + c.len_utf8();
        if c == '\n' {
            Self { position, line: self.line + 1, column: 0 }
        } else {
            Self { position, line: self.line, column: self.column + 1 }
        }
    }
}

/// Events that were not handed out yet, and the place of the character being read.
#[derive(Debug, Clone, Default)]
pub(super) struct Output {
    events: Vec<Event>,
    /// Where the character that is being read stands; behind all of them at the end.
    pub(super) here: Mark,
    recent: String,
}

impl Output {
    /// Hands out what there is.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Moves past `c`.
    pub(super) fn advance(&mut self, c: char) {
        self.here = self.here.behind(c);
        self.recent.push(c);
        // Four bytes are the longest character; halving keeps the cost of a character constant.
        if self.recent.len() > 16 * QUOTED_CHARACTERS {
            let keep = self.recent.ceil_char_boundary(self.recent.len() - 8 * QUOTED_CHARACTERS);
            self.recent.drain(..keep);
        }
    }

    /// Text that is no part of a call.
    pub(super) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.events.last_mut() {
            Some(Event::Text(last)) => last.push_str(text),
            _ => self.events.push(Event::Text(text.to_owned())),
        }
    }

    /// One character of text.
    pub(super) fn character(&mut self, c: char) {
        self.text(c.encode_utf8(&mut [0; 4]));
    }

    /// A call that takes the bytes from `start` to `end`.
    pub(super) fn call(&mut self, call: ToolCall, start: Mark, end: Mark) {
        self.events.push(Event::Call(ParsedCall { call, span: start.position..end.position }));
    }

    /// A fault noticed at the current character, in the call that begins at `start`. Where the call
    /// ends is not known yet.
    pub(super) fn fault(&self, start: Mark, fault: Fault) -> CallFailure {
        let in_call = self.here.position - start.position;
        let recent = &self.recent[self.recent.len() - in_call.min(self.recent.len())..];
        failure(fault, start, self.here, recent)
    }

    /// The call of `failure` ends at `end`.
    pub(super) fn failed(&mut self, mut failure: CallFailure, end: Mark) {
        failure.span.end = end.position;
        self.events.push(Event::Failed(failure));
    }
}

/// A failure noticed at `at`; `before` is the call's text up to there, or its end.
pub(super) fn failure(fault: Fault, start: Mark, at: Mark, before: &str) -> CallFailure {
    let from = before.char_indices().rev().nth(QUOTED_CHARACTERS - 1).map_or(0, |(index, _)| index);
    CallFailure {
        kind: fault.kind,
        position: at.position,
        line: at.line - start.line + 1,
        column: at.column - if at.line == start.line { start.column } else { 0 } + 1,
        message: fault.message,
        after: before[from..].to_owned(),
        span: start.position..at.position,
    }
}
