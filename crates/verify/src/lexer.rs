//! Text to tokens: LaTeX, plain text and Unicode signs in one pass.
//!
//! Invariant: what only looks different is gone after this file. Sizes (`\left`, `\big`), spaces
//! (`\,`, `~`), math delimiters (`$`, `\(`), styles (`\mathrm`, `\displaystyle`) leave no token;
//! `\dfrac`, `\tfrac` and `\cfrac` are `\frac`; `≤`, `<=`, `\leq` are one token. Each token keeps
//! its position in the text for the explanation.

mod commands;
mod tables;

use tables::{NUMBER_WORDS, UNICODE_FRACTIONS, UNICODE_LETTERS, UNICODE_POWERS};

/// A token and where it begins, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Byte of the text at which it begins.
    pub(crate) position: usize,
    /// White space (of any spelling) stands before it.
    pub(crate) spaced: bool,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Digits with at most one point; never a sign or separator: `12`, `0.5`, `.5`.
    Digits(String),
    /// One letter, Latin or Greek by name: `x`, `alpha`.
    Letter(String),
    /// Two or more plain letters in a row.
    Word(String),
    /// The content of `\text{…}` and its like, spaces trimmed.
    Text(String),
    /// A command that is no letter, style or space: `frac`, `sqrt`, `cup`, `begin`.
    Command(String),
    /// `\begin{name}`.
    Begin(String),
    /// `\end{name}`.
    End(String),
    /// `\\`, a new row.
    Row,
    /// One of `+ - * / ^ _ = < > ( ) [ ] { } , ; : ! | & % ' ° $ ≤ ≥ ≠ ± ∓ ∈ ∪ ∩ ∞ √ ⟨ ⟩` and
    /// `L`/`R` for escaped braces.
    Sign(char),
}

/// Signs for `\{` and `\}`: braces that are written, where `{` and `}` only group.
pub(crate) const OPEN_SET: char = '⦃';
/// See [`OPEN_SET`].
pub(crate) const CLOSE_SET: char = '⦄';
/// The sign for `\$`: money, where `$` only delimits.
pub(crate) const DOLLAR: char = '＄';
/// The sign for `\approx`.
pub(crate) const ABOUT: char = '≈';
/// The sign for `\mathbb{R}`.
pub(crate) const REALS: char = 'ℝ';

/// Tokens of `text`. Never fails: a character that means nothing becomes a [`TokenKind::Sign`],
/// which the parser then refuses at its position.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    Lexer { text, at: 0, found: Vec::new(), spaced: false, joined: false, matrix_depth: 0 }.run()
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    found: Vec<Token>,
    spaced: bool,
    /// A negative space stands before the next token: `32,\! 349` is one number.
    joined: bool,
    /// Inside `\begin{…matrix}` and its like, where `\\` is a row.
    matrix_depth: usize,
}

impl<'t> Lexer<'t> {
    fn run(mut self) -> Vec<Token> {
        while let Some(next) = self.rest().chars().next() {
            let start = self.at;
            match next {
                '\\' => self.backslash(start),
                '0'..='9' => self.digits(start),
                '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    self.digits(start);
                }
                'a'..='z' | 'A'..='Z' => self.letters(start),
                '$' => {
                    self.at += 1;
                    // Between a sign and a number it may be money; the parser skips it anyway.
                    self.push(TokenKind::Sign('$'), start);
                }
                '~' => self.space(1),
                _ if next.is_whitespace()
                    || matches!(next, '\u{200b}' | '\u{2061}' | '\u{feff}')
                    || matches!(next, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    self.space(next.len_utf8());
                }
                _ => self.sign(next, start),
            }
        }
        self.found
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, position: usize) {
        let spaced = std::mem::take(&mut self.spaced) & !std::mem::take(&mut self.joined);
        self.found.push(Token { kind, position, spaced });
    }

    fn space(&mut self, bytes: usize) {
        self.at += bytes;
        self.spaced = true;
    }

    fn digits(&mut self, start: usize) {
        let rest = self.rest();
        let mut end = 0;
        let mut point = false;
        for (index, byte) in rest.bytes().enumerate() {
            let follows = rest.as_bytes().get(index + 1).is_some_and(u8::is_ascii_digit);
            match byte {
                b'0'..=b'9' => end = index + 1,
                b'.' if !point && follows => point = true,
                _ => break,
            }
        }
        // `1'000'000`: apostrophes do, too.
        let mut marked = rest[..end].to_owned();
        while end <= 3 + marked.len() && !point && is_group(&rest[end..], b'\'') {
            marked.push_str(&rest[end + 1..end + 4]);
            end += 4;
        }
        if marked.len() < end {
            self.at += end;
            return self.push(TokenKind::Digits(marked), start);
        }
        // `1.234.567`: several points in a row part thousands.
        let mut groups = rest[..end].find('.').map_or(0, |point| usize::from(end == point + 4));
        while groups > 0 && is_group(&rest[end..], b'.') {
            end += 4;
            groups += 1;
        }
        self.at += end;
        let mut digits = rest[..end].to_owned();
        if groups > 1 {
            digits.retain(|it| it != '.');
        }
        self.push(TokenKind::Digits(digits), start);
    }

    fn letters(&mut self, start: usize) {
        let rest = self.rest();
        let mut end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        // A joining word that runs into its neighbours: `x=1orx=2`.
        let behind_digits = !self.spaced
            && self.found.last().is_some_and(|token| matches!(token.kind, TokenKind::Digits(_)));
        for joining in ["or", "and"] {
            if behind_digits && end > joining.len() && rest.starts_with(joining) {
                end = joining.len();
            }
        }
        self.at += end;
        let word = rest[..end].to_owned();
        let kind = if end == 1 { TokenKind::Letter(word) } else { TokenKind::Word(word) };
        self.push(kind, start);
    }

    fn sign(&mut self, next: char, start: usize) {
        let rest = self.rest();
        for (spelling, sign) in [
            ("<=", '≤'),
            (">=", '≥'),
            ("=<", '≤'),
            ("!=", '≠'),
            ("==", '='),
            ("+/-", '±'),
            ("+-", '±'),
            ("**", '^'),
            ("...", '…'),
        ] {
            // `3!=6` is a factorial and an equation.
            let factorial = spelling == "!=" && self.follows_value() && !self.spaced;
            if rest.starts_with(spelling) && !factorial {
                self.at += spelling.len();
                return self.push(TokenKind::Sign(sign), start);
            }
        }
        self.at += next.len_utf8();
        if let Some((_, above, below)) = UNICODE_FRACTIONS.iter().find(|(it, ..)| *it == next) {
            self.push(TokenKind::Command("frac".to_owned()), start);
            self.push(TokenKind::Digits((*above).to_owned()), start);
            return self.push(TokenKind::Digits((*below).to_owned()), start);
        }
        if power_digit(next).is_some() || next == '⁻' {
            return self.raised(next, start);
        }
        for (zero, sign) in [('₀', Some('_')), ('０', None)] {
            let digit = |it: char| u32::from(it).checked_sub(u32::from(zero)).filter(|it| *it < 10);
            if let Some(first) = digit(next) {
                if let Some(sign) = sign {
                    self.push(TokenKind::Sign(sign), start);
                }
                let rest = self.take_digits(digit);
                return self.push(TokenKind::Digits(format!("{first}{rest}")), start);
            }
        }
        if let Some((_, name)) = UNICODE_LETTERS.iter().find(|(it, _)| *it == next) {
            return self.push(TokenKind::Letter((*name).to_owned()), start);
        }
        let sign = match next {
            '−' | '–' | '—' | '‐' | '‑' => '-',
            '×' | '·' | '⋅' | '∗' | '∙' => '*',
            '÷' | '∕' | '⁄' => '/',
            '⩽' => '≤',
            '⩾' => '≥',
            '≡' => '=',
            '≅' => ABOUT,
            '∶' => ':',
            '′' | '’' => '\'',
            'º' => '°',
            '（' => '(',
            '）' => ')',
            '，' | '、' => ',',
            '：' => ':',
            '＝' => '=',
            '＋' => '+',
            '－' => '-',
            '｛' => OPEN_SET,
            '｝' => CLOSE_SET,
            other => other,
        };
        self.push(TokenKind::Sign(sign), start);
    }

    /// The digits that follow, in other shapes.
    fn take_digits(&mut self, digit: impl Fn(char) -> Option<u32>) -> String {
        let mut digits = String::new();
        while let Some(next) = self.rest().chars().next()
            && let Some(value) = digit(next)
        {
            digits += &value.to_string();
            self.at += next.len_utf8();
        }
        digits
    }

    /// `¹⁰`, `⁻²`.
    fn raised(&mut self, first: char, start: usize) {
        let rest = self.take_digits(power_digit);
        let digits = match power_digit(first) {
            Some(digit) => format!("{digit}{rest}"),
            None => rest,
        };
        self.push(TokenKind::Sign('^'), start);
        if first == '⁻' {
            self.push(TokenKind::Sign('-'), start);
        }
        self.push(TokenKind::Digits(digits), start);
    }

    fn follows_value(&self) -> bool {
        self.found.last().is_some_and(|token| match &token.kind {
            TokenKind::Digits(_) | TokenKind::Letter(_) => true,
            TokenKind::Sign(sign) => matches!(sign, ')' | ']' | '}'),
            _ => false,
        })
    }
}

/// The value of a raised digit.
fn power_digit(sign: char) -> Option<u32> {
    let (digit, _) = UNICODE_POWERS.iter().find(|(_, it)| *it == sign)?;
    digit.parse().ok()
}

/// `.567` and no further digit.
fn is_group(text: &str, separator: u8) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&separator)
        && bytes.len() >= 4
        && bytes[1..4].iter().all(u8::is_ascii_digit)
        && !bytes.get(4).is_some_and(u8::is_ascii_digit)
}

/// Bytes of `inside` before the brace that closes it; all of it where none does.
pub(crate) fn closing_brace(inside: &str) -> usize {
    let mut depth = 0_usize;
    let mut escaped = false;
    for (index, byte) in inside.bytes().enumerate() {
        match byte {
            b'\\' if !escaped => {
                escaped = true;
                continue;
            }
            b'{' if !escaped => depth += 1,
            b'}' if !escaped => {
                if depth == 0 {
                    return index;
                }
                depth -= 1;
            }
            _ => {}
        }
        escaped = false;
    }
    inside.len()
}

/// The number that a word behind a number multiplies it by.
pub(crate) fn number_word(word: &str) -> Option<u64> {
    NUMBER_WORDS.iter().find(|(it, _)| it.eq_ignore_ascii_case(word)).map(|(_, value)| *value)
}
