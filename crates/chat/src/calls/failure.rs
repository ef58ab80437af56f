//! A tool call that can't be read, as a value: what kind of fault, where, and words for the model.
//!
//! Hides how positions are counted and how the sentence that goes back to the model is put. A
//! failure is an outcome of the model, never an error of ours: it is counted, shown and answered.

use std::fmt;
use std::ops::Range;

/// What is wrong with a tool call. The names are stable: they label metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// Something else than one object stands where a call is expected.
    NotAnObject,
    /// The notation's grammar is broken: a trailing comma, a missing quote, single quotes in JSON.
    Syntax,
    /// A raw control character inside a string, such as a line break that should be `\n`.
    ControlCharacter,
    /// An escape that the notation doesn't know, or half of a surrogate pair.
    BadEscape,
    /// A number that can't be held exactly enough: an integer beyond 64 bits, a float beyond f64.
    NumberRange,
    /// A key or an argument is given twice; which one is meant is not for us to guess.
    DuplicateKey,
    /// Nested deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    TooDeep,
    /// Longer than [`MAX_CALL_BYTES`](super::MAX_CALL_BYTES).
    TooLarge,
    /// The tool's name is missing.
    MissingName,
    /// The tool's name is no string, or empty.
    BadName,
    /// The arguments are missing. A call without arguments has an empty object.
    MissingArguments,
    /// The arguments are no object; also where they are an object inside a string.
    ArgumentsNotAnObject,
    /// A key beside those of the format, which would otherwise be lost.
    UnknownKey,
    /// Text between the end of the call and its closing tag.
    TrailingText,
    /// The text ends inside the call.
    Unclosed,
    /// In a pythonic call, an expression where only a literal can stand.
    NotALiteral,
    /// In a pythonic call, an argument without a name.
    PositionalArgument,
    /// In a pythonic call, a dictionary's key that is no string.
    KeyNotAString,
}

impl FailureKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 18] = [
        Self::NotAnObject,
        Self::Syntax,
        Self::ControlCharacter,
        Self::BadEscape,
        Self::NumberRange,
        Self::DuplicateKey,
        Self::TooDeep,
        Self::TooLarge,
        Self::MissingName,
        Self::BadName,
        Self::MissingArguments,
        Self::ArgumentsNotAnObject,
        Self::UnknownKey,
        Self::TrailingText,
        Self::Unclosed,
        Self::NotALiteral,
        Self::PositionalArgument,
        Self::KeyNotAString,
    ];

    /// The kind as one word, for metrics and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAnObject => "not_an_object",
            Self::Syntax => "syntax",
            Self::ControlCharacter => "control_character",
            Self::BadEscape => "bad_escape",
            Self::NumberRange => "number_range",
            Self::DuplicateKey => "duplicate_key",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::MissingName => "missing_name",
            Self::BadName => "bad_name",
            Self::MissingArguments => "missing_arguments",
            Self::ArgumentsNotAnObject => "arguments_not_an_object",
            Self::UnknownKey => "unknown_key",
            Self::TrailingText => "trailing_text",
            Self::Unclosed => "unclosed",
            Self::NotALiteral => "not_a_literal",
            Self::PositionalArgument => "positional_argument",
            Self::KeyNotAString => "key_not_a_string",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call that could not be read. Its `Display` is the sentence that goes back to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// What is wrong.
    pub kind: FailureKind,
    /// Where it was noticed, in bytes from the start of the whole text.
    pub position: usize,
    /// The line of that place, counted from 1 at the start of the call, its opening tag included.
    pub line: usize,
    /// The column of that place in characters, counted from 1.
    pub column: usize,
    /// What was expected and what was found.
    pub message: String,
    /// The last few characters before that place.
    pub after: String,
    /// What the call takes of the whole text, in bytes: up to its closing tag, else to the end.
    pub span: Range<usize>,
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, line, column, after, .. } = self;
        write!(f, "Tool call could not be read: {message} (line {line}, column {column}")?;
        if !after.is_empty() {
            write!(f, ", after `{}`", after.replace('\n', "\\n"))?;
        }
        f.write_str(")")
    }
}

/// What a scanner found wrong at the character that it was given; the parser adds the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(super) fn too_large() -> Self {
        let most = super::MAX_CALL_BYTES;
        Self::new(FailureKind::TooLarge, format!("a call is at most {most} bytes long"))
    }

    pub(super) fn too_deep() -> Self {
        let most = super::MAX_DEPTH;
        Self::new(FailureKind::TooDeep, format!("values are nested at most {most} deep"))
    }

    pub(super) fn unclosed(what: impl fmt::Display) -> Self {
        Self::new(FailureKind::Unclosed, format!("the text ends before {what}"))
    }
}

/// A character as messages show it.
pub(super) fn shown(c: char) -> String {
    if c.is_control() { format!("`{}`", c.escape_default()) } else { format!("`{c}`") }
}
