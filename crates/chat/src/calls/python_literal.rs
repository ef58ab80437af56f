//! Python literals, read from a text that is all there.
//!
//! Hides Python's notation of strings, numbers, lists and dictionaries, as `ast.literal_eval` reads
//! them, and refuses what has no JSON value or is no literal: tuples, sets, bytes, complex numbers,
//! names, operators, calls. A value's meaning is Python's, down to unknown escapes in strings, which
//! stand for themselves.

use serde_json::{Map, Value};

use super::failure::{FailureKind, Fault, shown};
use super::{MAX_DEPTH, python_number};

/// A fault, and the byte of the text at which it was noticed.
#[derive(Debug)]
pub(super) struct FaultAt {
    pub(super) fault: Fault,
    pub(super) at: usize,
}

/// What is left to read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// How many bytes were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips `expected` where it comes next.
    pub(super) fn eat(&mut self, expected: &str) -> bool {
        let comes = self.rest().starts_with(expected);
        if comes {
            self.at += expected.len();
        }
        comes
    }

    /// Skips blanks and line breaks, which mean nothing between brackets.
    pub(super) fn blanks(&mut self) {
        self.take_while(is_blank);
    }

    fn take_while(&mut self, belongs: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A name; empty where none comes next.
    pub(super) fn name(&mut self) -> &'a str {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return "";
        }
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    pub(super) fn fault(&self, kind: FailureKind, message: impl Into<String>) -> FaultAt {
        FaultAt { fault: Fault::new(kind, message), at: self.at }
    }

    /// The grammar wants `expected`, and something else comes next, or nothing.
    pub(super) fn expected(&self, expected: &str) -> FaultAt {
        match self.peek() {
            Some(c) => {
                self.fault(FailureKind::Syntax, format!("expected {expected}, found {}", shown(c)))
            }
            None => FaultAt { fault: Fault::unclosed(expected), at: self.at },
        }
    }

    /// A value.
    pub(super) fn value(&mut self) -> Result<Value, FaultAt> {
        match self.peek() {
            Some('[') => self.nested(Self::list).map(Value::Array),
            Some('{') => self.nested(Self::dictionary).map(Value::Object),
            Some('"' | '\'') => self.string(false).map(Value::String),
            Some('+' | '-' | '.' | '0'..='9') => self.number(),
            Some('(') => Err(self.not_a_literal("a parenthesis; lists are written `[1, 2]`")),
            Some(c) if c.is_alphabetic() || c == '_' => self.word(),
            _ => Err(self.expected("a value")),
        }
    }

    fn nested<T>(&mut self, read: fn(&mut Self) -> Result<T, FaultAt>) -> Result<T, FaultAt> {
        // The list of calls and the call's arguments are two levels already.
        if self.depth + 2 == MAX_DEPTH {
            return Err(FaultAt { fault: Fault::too_deep(), at: self.at });
        }
        self.depth += 1;
        self.next();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Vec<Value>, FaultAt> {
        let mut values = Vec::new();
        self.blanks();
        while !self.eat("]") {
            values.push(self.value()?);
            self.separator("]", "`,` or `]` after a value")?;
        }
        Ok(values)
    }

    /// A dictionary behind its brace.
    fn dictionary(&mut self) -> Result<Map<String, Value>, FaultAt> {
        let mut map = Map::new();
        self.blanks();
        while !self.eat("}") {
            let key_at = self.at;
            let key = match self.value()? {
                Value::String(key) => key,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    let message = "a key of a dictionary must be a string";
                    let fault = Fault::new(FailureKind::KeyNotAString, message);
                    return Err(FaultAt { fault, at: key_at });
                }
            };
            self.blanks();
            if !self.eat(":") {
                return Err(self.expected("`:` after a key"));
            }
            self.blanks();
            let value = self.value()?;
            insert(&mut map, key, value).map_err(|fault| FaultAt { fault, at: key_at })?;
            self.separator("}", "`,` or `}` after a value")?;
        }
        Ok(map)
    }

    /// `{…}`, the dictionary of a `**` argument.
    pub(super) fn braced(&mut self) -> Result<Map<String, Value>, FaultAt> {
        if self.peek() != Some('{') {
            return Err(self.expected("a dictionary after `**`"));
        }
        self.nested(Self::dictionary)
    }

    /// A comma, which may also stand before the end, or the end itself, which is left to read.
    pub(super) fn separator(&mut self, end: &str, expected: &str) -> Result<(), FaultAt> {
        self.blanks();
        if self.eat(",") {
            self.blanks();
        } else if !self.rest().starts_with(end) {
            return Err(self.expected(expected));
        }
        Ok(())
    }

    fn not_a_literal(&self, found: &str) -> FaultAt {
        let message = format!("arguments are literals, found {found}");
        self.fault(FailureKind::NotALiteral, message)
    }

    /// A constant, or the prefix of a string.
    fn word(&mut self) -> Result<Value, FaultAt> {
        let start = self.at;
        let name = self.name();
        let is_prefix = matches!(self.peek(), Some('"' | '\''));
        match name {
            "True" => Ok(Value::Bool(true)),
            "False" => Ok(Value::Bool(false)),
            "None" => Ok(Value::Null),
            "r" | "R" if is_prefix => self.string(true).map(Value::String),
            "u" | "U" if is_prefix => self.string(false).map(Value::String),
            _ => {
                self.at = start;
                Err(match name {
                    "true" | "false" | "null" => self
                        .not_a_literal("a word of JSON; Python writes `True`, `False` and `None`"),
                    _ if is_prefix => self.not_a_literal("a string that is not plain text"),
                    "" => self.not_a_literal("a name"),
                    _ => self.not_a_literal(&format!("the name `{name}`")),
                })
            }
        }
    }

    fn number(&mut self) -> Result<Value, FaultAt> {
        let at = self.at;
        let negative = self.eat("-");
        if !negative {
            self.eat("+");
        }
        python_number::value(self.number_body(), negative).map_err(|fault| FaultAt { fault, at })
    }

    /// The characters of a number, without deciding what they mean.
    fn number_body(&mut self) -> &'a str {
        let start = self.at;
        let is_radix = self
            .rest()
            .get(..2)
            .is_some_and(|two| matches!(two, "0x" | "0X" | "0o" | "0O" | "0b" | "0B"));
        let mut before = ' ';
        while let Some(c) = self.peek() {
            let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_radix;
            if !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || is_sign) {
                break;
            }
            before = c;
            self.at += c.len_utf8();
        }
        &self.text[start..self.at]
    }

    /// A string, at its opening quote.
    fn string(&mut self, is_raw: bool) -> Result<String, FaultAt> {
        let start = self.at;
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let quote = quotes.into_iter().find(|quote| self.rest().starts_with(quote)).unwrap_or("'");
        let is_long = quote.len() == 3;
        self.at += quote.len();
        let mut text = String::new();
        loop {
            if self.eat(quote) {
                break;
            }
            let at = self.at;
            match self.next() {
                None => return Err(self.expected("the string is closed")),
                Some('\\') if is_raw => {
                    text.push('\\');
                    let escaped =
                        self.next().ok_or_else(|| self.expected("the string is closed"))?;
                    self.line_break_or(escaped, &mut text);
                }
                Some('\\') => self.escape(&mut text)?,
                Some(c @ ('\n' | '\r')) if is_long => self.line_break_or(c, &mut text),
                Some(c @ ('\0' | '\n' | '\r')) => {
                    let message =
                        format!("a string can't hold {} itself; write its escape", shown(c));
                    return Err(FaultAt {
                        fault: Fault::new(FailureKind::ControlCharacter, message),
                        at,
                    });
                }
                Some(c) => text.push(c),
            }
        }
        let joined = self.rest().trim_start_matches(is_blank).starts_with(['"', '\'']);
        if joined {
            let message = "two strings without a comma between them";
            return Err(FaultAt { fault: Fault::new(FailureKind::Syntax, message), at: start });
        }
        Ok(text)
    }

    /// Pushes `c`, which was read; Python reads every kind of line break as `\n`.
    fn line_break_or(&mut self, c: char, text: &mut String) {
        if c == '\r' {
            self.eat("\n");
        }
        text.push(if c == '\r' { '\n' } else { c });
    }

    /// An escape, behind its backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), FaultAt> {
        let at = self.at;
        let Some(c) = self.next() else { return Err(self.expected("the string is closed")) };
        let plain = match c {
            '\n' => return Ok(()),
            '\r' => {
                self.eat("\n");
                return Ok(());
            }
            '\\' | '\'' | '"' => c,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => self.octal(at),
            'x' => self.code_point(at, 2)?,
            'u' => self.code_point(at, 4)?,
            'U' => self.code_point(at, 8)?,
            'N' => {
                let message = "`\\N` with a character's name is not read; write `\\u` and its code";
                return Err(FaultAt { fault: Fault::new(FailureKind::BadEscape, message), at });
            }
            other => {
                text.push('\\');
                other
            }
        };
        text.push(plain);
        Ok(())
    }

    /// Up to three octal digits from `at`, of which one was read.
    fn octal(&mut self, at: usize) -> char {
        let digits = self.text[at..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
        let (mut value, mut count) = (0, 0);
        for digit in digits {
            value = value * 8 + u32::from(digit - b'0');
            count += 1;
        }
        self.at = at + count;
        // At most 0o777, which is below the surrogates.
        char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// So many hexadecimal digits.
    fn code_point(&mut self, at: usize, digits: usize) -> Result<char, FaultAt> {
        let bad =
            |message: String| FaultAt { fault: Fault::new(FailureKind::BadEscape, message), at };
        let code =
            self.rest().get(..digits).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let code =
            code.ok_or_else(|| bad(format!("the escape takes {digits} hexadecimal digits")))?;
        self.at += digits;
        let value = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        value.ok_or_else(|| {
            bad(format!("{code} is the code of no character; emoji are `\\U0001F600`"))
        })
    }
}

/// Adds an argument or an entry, once.
pub(super) fn insert(map: &mut Map<String, Value>, key: String, value: Value) -> Result<(), Fault> {
    if map.contains_key(&key) {
        let key = Value::String(key);
        return Err(Fault::new(FailureKind::DuplicateKey, format!("{key} is given twice")));
    }
    map.insert(key, value);
    Ok(())
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}
