//! One JSON object, read a character at a time.
//!
//! Hides the grammar (RFC 8259) and where the object ends, which is what keeps a closing tag inside
//! a string from ending a call. Invariants: what is accepted is JSON and nothing else, with no
//! repair; each character is looked at once; numbers keep their value or are refused. It builds the
//! value itself, for a second parser over the same text would have to agree with the first.

use serde_json::{Map, Value};

use super::failure::{FailureKind, Fault, shown};
use super::{MAX_CALL_BYTES, MAX_DEPTH};

/// An object that is being read.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    state: State,
    stack: Vec<Frame>,
    /// The string, number or word being read.
    token: String,
    /// The first half of a surrogate pair, waiting for the second.
    high_surrogate: Option<u32>,
    read_bytes: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Text {
        is_key: bool,
        escape: Escape,
    },
    Number,
    Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    Unit { value: u32, digits: u8 },
}

/// A container that is open.
#[derive(Debug, Clone)]
enum Frame {
    Array(Vec<Value>),
    Object { map: Map<String, Value>, key: String },
}

impl Scanner {
    /// Reads the next character. The object, where `c` closes it; not to be called after that.
    pub(super) fn step(&mut self, c: char) -> Result<Option<Map<String, Value>>, Fault> {
        self.read_bytes += c.len_utf8();
        if self.read_bytes > MAX_CALL_BYTES {
            return Err(Fault::too_large());
        }
        match self.state {
            State::Text { is_key, escape } => {
                self.in_text(c, is_key, escape)?;
                return Ok(None);
            }
            State::Number | State::Word if belongs_to_token(c) => {
                self.token.push(c);
                return Ok(None);
            }
            State::Number => self.end_number()?,
            State::Word => self.end_word()?,
            _ => {}
        }
        if matches!(c, ' ' | '\t' | '\n' | '\r') { Ok(None) } else { self.structure(c) }
    }

    /// What the text stopped before, for a call that its end cuts off.
    pub(super) fn unclosed(&self) -> Fault {
        Fault::unclosed(match self.state {
            State::Start => "the object of the call",
            State::Text { .. } => "a string is closed by `\"`",
            _ => "the object of the call is closed",
        })
    }

    fn structure(&mut self, c: char) -> Result<Option<Map<String, Value>>, Fault> {
        match (self.state, c) {
            (State::Start, '{') => self.open(Frame::Object { map: Map::new(), key: String::new() }),
            (State::Start, _) => Err(Fault::new(
                FailureKind::NotAnObject,
                format!("expected `{{` of the call's JSON object, found {}", shown(c)),
            )),
            (State::Value | State::ValueOrEnd, '{') => {
                self.open(Frame::Object { map: Map::new(), key: String::new() })
            }
            (State::Value | State::ValueOrEnd, '[') => self.open(Frame::Array(Vec::new())),
            (State::Value | State::ValueOrEnd, '"') => self.begin(false),
            (State::Value | State::ValueOrEnd, '-' | '0'..='9') => self.token(State::Number, c),
            (State::Value | State::ValueOrEnd, _) if c.is_alphabetic() => {
                self.token(State::Word, c)
            }
            (State::Key | State::KeyOrEnd, '"') => self.begin(true),
            (State::Colon, ':') => self.next(State::Value),
            (State::CommaOrEnd, ',') => self.next(match self.stack.last() {
                Some(Frame::Object { .. }) => State::Key,
                Some(Frame::Array(_)) | None => State::Value,
            }),
            (State::CommaOrEnd | State::KeyOrEnd | State::ValueOrEnd, '}' | ']') => self.close(c),
            _ => Err(self.unexpected(c)),
        }
    }

    fn next(&mut self, state: State) -> Result<Option<Map<String, Value>>, Fault> {
        self.state = state;
        Ok(None)
    }

    fn token(&mut self, state: State, c: char) -> Result<Option<Map<String, Value>>, Fault> {
        self.token.clear();
        self.token.push(c);
        self.next(state)
    }

    fn begin(&mut self, is_key: bool) -> Result<Option<Map<String, Value>>, Fault> {
        self.token.clear();
        self.next(State::Text { is_key, escape: Escape::None })
    }

    fn open(&mut self, frame: Frame) -> Result<Option<Map<String, Value>>, Fault> {
        if self.stack.len() == MAX_DEPTH {
            return Err(Fault::too_deep());
        }
        let state = match frame {
            Frame::Array(_) => State::ValueOrEnd,
            Frame::Object { .. } => State::KeyOrEnd,
        };
        self.stack.push(frame);
        self.next(state)
    }

    fn close(&mut self, c: char) -> Result<Option<Map<String, Value>>, Fault> {
        let value = match (self.stack.pop(), c) {
            (Some(Frame::Array(values)), ']') => Value::Array(values),
            (Some(Frame::Object { map, .. }), '}') if self.stack.is_empty() => {
                return Ok(Some(map));
            }
            (Some(Frame::Object { map, .. }), '}') => Value::Object(map),
            (frame, _) => {
                self.stack.extend(frame);
                return Err(self.unexpected(c));
            }
        };
        self.place(value);
        Ok(None)
    }

    /// Puts a finished value into the container around it.
    fn place(&mut self, value: Value) {
        match self.stack.last_mut() {
            Some(Frame::Array(values)) => values.push(value),
            Some(Frame::Object { map, key }) => {
                map.insert(std::mem::take(key), value);
            }
            None => {}
        }
        self.state = State::CommaOrEnd;
    }

    fn in_text(&mut self, c: char, is_key: bool, escape: Escape) -> Result<(), Fault> {
        let mut next = Escape::None;
        match escape {
            Escape::None if c == '\\' => next = Escape::Backslash,
            Escape::Backslash if c == 'u' => next = Escape::Unit { value: 0, digits: 0 },
            Escape::None | Escape::Backslash if self.high_surrogate.is_some() => {
                return Err(lone_surrogate());
            }
            Escape::None if c == '"' => return self.end_text(is_key),
            Escape::None if c < ' ' => return Err(control_character(c)),
            Escape::None => self.token.push(c),
            Escape::Backslash => self.token.push(unescaped(c)?),
            Escape::Unit { value, digits } => {
                let digit = c.to_digit(16).ok_or_else(|| {
                    bad_escape(format!("`\\u` takes four hexadecimal digits, found {}", shown(c)))
                })?;
                let value = value * 16 + digit;
                if digits == 3 {
                    self.unit(value)?;
                } else {
                    next = Escape::Unit { value, digits: digits + 1 };
                }
            }
        }
        self.state = State::Text { is_key, escape: next };
        Ok(())
    }

    /// A UTF-16 unit written as `\u` and four digits.
    fn unit(&mut self, unit: u32) -> Result<(), Fault> {
        let code = match (self.high_surrogate.take(), unit) {
            (None, 0xD800..=0xDBFF) => {
                self.high_surrogate = Some(unit);
                return Ok(());
            }
            (None, _) => unit,
            (Some(high), 0xDC00..=0xDFFF) => 0x1_0000 + ((high - 0xD800) << 10) + (unit - 0xDC00),
            (Some(_), _) => return Err(lone_surrogate()),
        };
        self.token.push(char::from_u32(code).ok_or_else(lone_surrogate)?);
        Ok(())
    }

    fn end_text(&mut self, is_key: bool) -> Result<(), Fault> {
        let text = std::mem::take(&mut self.token);
        if !is_key {
            self.place(Value::String(text));
            return Ok(());
        }
        if let Some(Frame::Object { map, key }) = self.stack.last_mut() {
            if map.contains_key(&text) {
                return Err(Fault::new(
                    FailureKind::DuplicateKey,
                    format!("the key {} is given twice in one object", Value::String(text)),
                ));
            }
            *key = text;
        }
        self.state = State::Colon;
        Ok(())
    }

    fn end_number(&mut self) -> Result<(), Fault> {
        let value = number(&self.token)?;
        self.place(value);
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), Fault> {
        let value = match self.token.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "True" | "False" | "None" => {
                return Err(syntax("JSON writes `true`, `false` and `null`, not Python's words"));
            }
            _ => {
                return Err(syntax(
                    "expected a value, found a bare word; strings stand in double quotes",
                ));
            }
        };
        self.place(value);
        Ok(())
    }

    fn unexpected(&self, c: char) -> Fault {
        let expected = match self.state {
            State::Value if c == ']' => "a value, as JSON allows no comma before `]`",
            State::Key if c == '}' => "a key, as JSON allows no comma before `}`",
            State::Value | State::ValueOrEnd | State::Key | State::KeyOrEnd if c == '\'' => {
                "double quotes around strings"
            }
            State::Value => "a value",
            State::ValueOrEnd => "a value or `]`",
            State::Key => "a key in double quotes",
            State::KeyOrEnd => "a key in double quotes or `}`",
            State::Colon => "`:` after a key",
            _ if matches!(self.stack.last(), Some(Frame::Array(_))) => "`,` or `]` after a value",
            _ => "`,` or `}` after a value",
        };
        syntax(&format!("expected {expected}, found {}", shown(c)))
    }
}

/// Whether `c` goes on with a number or a bare word; what they may be is decided at their end.
fn belongs_to_token(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')
}

/// A JSON number with its exact integer, or the f64 nearest to it.
fn number(text: &str) -> Result<Value, Fault> {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(unsigned);
    let mut rest = &unsigned[whole..];
    let mut is_valid = whole == 1 || whole > 1 && !unsigned.starts_with('0');
    let is_integer = rest.is_empty();
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        is_valid &= count > 0;
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(exponent);
        is_valid &= count > 0;
        rest = &exponent[count..];
    }
    if !is_valid || !rest.is_empty() {
        return Err(syntax("malformed number: JSON writes `12`, `-0.5` or `1e9`"));
    }
    if is_integer { integer(text) } else { float(text) }
}

/// An integer in decimal, where 64 bits hold it.
pub(super) fn integer(text: &str) -> Result<Value, Fault> {
    let signed = text.parse::<i64>().map(Value::from);
    signed.or_else(|_| text.parse::<u64>().map(Value::from)).map_err(|_| beyond_64_bits())
}

pub(super) fn beyond_64_bits() -> Fault {
    let message = "an integer beyond 64 bits would lose digits; write it as a string";
    Fault::new(FailureKind::NumberRange, message)
}

/// A float, where f64 reaches it.
pub(super) fn float(text: &str) -> Result<Value, Fault> {
    let value = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    value.map(Value::Number).ok_or_else(|| {
        Fault::new(FailureKind::NumberRange, "the number is beyond what a 64-bit float reaches")
    })
}

fn unescaped(c: char) -> Result<char, Fault> {
    match c {
        '"' | '\\' | '/' => Ok(c),
        'b' => Ok('\u{8}'),
        'f' => Ok('\u{c}'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        't' => Ok('\t'),
        _ => Err(bad_escape(format!(
            "{} is no escape of JSON; a backslash itself is written `\\\\`",
            format_args!("`\\{}`", c.escape_debug())
        ))),
    }
}

fn control_character(c: char) -> Fault {
    Fault::new(
        FailureKind::ControlCharacter,
        format!("a string can't hold {} itself; write its escape", shown(c)),
    )
}

fn lone_surrogate() -> Fault {
    bad_escape("`\\u` names half of a surrogate pair".to_owned())
}

fn bad_escape(message: String) -> Fault {
    Fault::new(FailureKind::BadEscape, message)
}

fn syntax(message: &str) -> Fault {
    Fault::new(FailureKind::Syntax, message)
}
