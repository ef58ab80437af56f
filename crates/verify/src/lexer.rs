//! Text to tokens: LaTeX, plain text and Unicode signs in one pass.
//!
//! Invariant: what only looks different is gone after this file. Sizes (`\left`, `\big`), spaces
//! (`\,`, `~`), math delimiters (`$`, `\(`), styles (`\mathrm`, `\displaystyle`) leave no token;
//! `\dfrac`, `\tfrac` and `\cfrac` are `\frac`; `≤`, `<=`, `\leq` are one token. Each token keeps
//! its position in the text for the explanation.

mod tables;

use tables::{
    GREEK, GREEK_SAME, NUMBER_WORDS, SIGN_COMMANDS, UNICODE_FRACTIONS, UNICODE_LETTERS,
    UNICODE_POWERS,
};

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
                    || matches!(next, '\u{200b}' | '\u{2061}' | '\u{feff}') =>
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
        if let Some((digits, _)) = UNICODE_POWERS.iter().find(|(_, it)| *it == next) {
            self.push(TokenKind::Sign('^'), start);
            return self.push(TokenKind::Digits((*digits).to_owned()), start);
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
            '≈' | '≡' | '≅' => '=',
            '∶' => ':',
            '′' | '’' => '\'',
            'º' => '°',
            '（' => '(',
            '）' => ')',
            '，' | '、' => ',',
            '：' => ':',
            other => other,
        };
        self.push(TokenKind::Sign(sign), start);
    }

    fn follows_value(&self) -> bool {
        self.found.last().is_some_and(|token| match &token.kind {
            TokenKind::Digits(_) | TokenKind::Letter(_) => true,
            TokenKind::Sign(sign) => matches!(sign, ')' | ']' | '}'),
            _ => false,
        })
    }

    fn backslash(&mut self, start: usize) {
        let rest = &self.rest()[1..];
        let Some(next) = rest.chars().next() else {
            self.at += 1;
            return;
        };
        match next {
            '\\' => self.double_backslash(start),
            'a'..='z' | 'A'..='Z' => {
                let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                self.at += 1 + end;
                self.command(&rest[..end], start);
            }
            '{' => self.escaped(TokenKind::Sign(OPEN_SET), start),
            '}' => self.escaped(TokenKind::Sign(CLOSE_SET), start),
            // Money, where a bare `$` only delimits mathematics.
            '$' => self.escaped(TokenKind::Sign(DOLLAR), start),
            '%' | '&' | '#' | '_' => self.escaped(TokenKind::Sign(next), start),
            '|' => self.escaped(TokenKind::Sign('|'), start),
            '!' => {
                self.at += 2;
                self.joined = true;
            }
            ',' | ';' | ':' | ' ' | '>' | '/' | '(' | ')' | '[' | ']' | '\n' => self.space(2),
            _ => self.space(1),
        }
    }

    fn escaped(&mut self, kind: TokenKind, start: usize) {
        self.at += 2;
        self.push(kind, start);
    }

    /// `\\` is a row of a matrix, and elsewhere a command that was escaped twice.
    fn double_backslash(&mut self, start: usize) {
        let rest = &self.rest()[2..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let twice = letters > 0 && self.matrix_depth == 0 && is_command(&rest[..letters]);
        if twice || (self.matrix_depth == 0 && rest.starts_with(['{', '}', '%', ','])) {
            self.at += 1;
            return self.backslash(start);
        }
        self.at += 2;
        self.push(TokenKind::Row, start);
    }

    fn command(&mut self, name: &str, start: usize) {
        match name {
            "mathrm" if self.holds_function() => self.operator_name(start),
            // Styles and sizes: what they hold is read as if they weren't there.
            "left" | "right" | "middle" => self.after_size(),
            "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" | "biggl"
            | "biggr" | "displaystyle" | "textstyle" | "limits" | "nolimits" | "mathrm"
            | "mathbf" | "mathit" | "mathsf" | "mathcal" | "boldsymbol" | "bf" | "rm" | "it"
            | "ensuremath" | "vec" | "overrightarrow" | "hat" | "underline" | "tilde"
            | "mathop" | "boxed" | "fbox" | "phantom" | "hphantom" | "vphantom"
            | "displaylimits" | "no" | "tiny" | "small" | "normalsize" | "large" | "Large"
            | "LARGE" | "huge" | "Huge" | "scriptstyle" | "num" | "qty" | "SI" => {}
            "color" | "textcolor" => self.skip_group(),
            "operatorname" => self.operator_name(start),
            "bar" | "dot" => {
                // Digits that repeat; elsewhere it adorns a name.
                if self.follows_point() {
                    self.push(TokenKind::Command("overline".to_owned()), start);
                }
            }
            "quad" | "qquad" | "space" | "thinspace" | "hspace" | "enspace" | "nbsp" => {
                self.spaced = true;
            }
            "mathbb" | "Bbb" => self.blackboard(start),
            "text" | "textbf" | "textit" | "textrm" | "mbox" | "hbox" | "textnormal" | "textsf"
            | "texttt" | "emph" => self.text_command(start),
            "begin" => self.environment(start, true),
            "end" => self.environment(start, false),
            "cr" => self.push(TokenKind::Row, start),
            "dots" | "ldots" | "cdots" | "dotsc" => self.push(TokenKind::Sign('…'), start),
            _ if name.starts_with("quad") || name.starts_with("qquad") => {
                // A space that runs into the next letter: `\quadx`.
                self.spaced = true;
                self.at -= name.len() - name.find("quad").unwrap_or(0) - 4;
            }
            _ => {
                if let Some((_, sign)) = SIGN_COMMANDS.iter().find(|(it, _)| *it == name) {
                    return self.push(TokenKind::Sign(*sign), start);
                }
                let name = match name {
                    "dfrac" | "tfrac" | "cfrac" => "frac",
                    "dbinom" | "tbinom" => "binom",
                    other => other,
                };
                let kind = if GREEK.contains(&name) {
                    TokenKind::Letter(
                        GREEK_SAME
                            .iter()
                            .find(|(it, _)| *it == name)
                            .map_or(name, |it| it.1)
                            .to_owned(),
                    )
                } else {
                    TokenKind::Command(name.to_owned())
                };
                self.push(kind, start);
            }
        }
    }

    /// `{red}` behind `\color`.
    fn skip_group(&mut self) {
        let trimmed = self.rest().trim_start();
        if let Some(inside) = trimmed.strip_prefix('{') {
            let end = self.text.len() - inside.len() + closing_brace(inside) + 1;
            self.at = end.min(self.text.len());
        }
    }

    /// `{lcm}`, as some set functions without a command.
    fn holds_function(&self) -> bool {
        const NAMES: [&str; 10] =
            ["lcm", "gcd", "sin", "cos", "tan", "log", "ln", "arctan", "min", "max"];
        let inside = self.rest().trim_start().strip_prefix('{');
        inside.is_some_and(|inside| NAMES.contains(&&inside[..closing_brace(inside)]))
    }

    /// `\operatorname{arctan}` is the word.
    fn operator_name(&mut self, start: usize) {
        let trimmed = self.rest().trim_start_matches(['*', ' ']);
        let Some(inside) = trimmed.strip_prefix('{') else { return };
        let name = &inside[..closing_brace(inside)];
        if name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            self.at = (self.text.len() - inside.len() + name.len() + 1).min(self.text.len());
            self.push(TokenKind::Word(name.to_owned()), start);
        }
    }

    fn follows_point(&self) -> bool {
        self.found.last().is_some_and(|token| match &token.kind {
            TokenKind::Digits(digits) => digits.contains('.'),
            TokenKind::Sign(sign) => *sign == '.',
            _ => false,
        })
    }

    /// `\left.` and `\right.` stand for no bracket at all.
    fn after_size(&mut self) {
        if self.rest().starts_with('.') {
            self.at += 1;
        }
    }

    /// `\mathbb{R}` is a set, other letters of this style are letters.
    fn blackboard(&mut self, start: usize) {
        let trimmed = self.rest().trim_start();
        for spelling in ["{R}", "R"] {
            if trimmed.starts_with(spelling) {
                self.at = self.text.len() - trimmed.len() + spelling.len();
                return self.push(TokenKind::Sign(REALS), start);
            }
        }
    }

    fn text_command(&mut self, start: usize) {
        let trimmed = self.rest().trim_start();
        let Some(inside) = trimmed.strip_prefix('{') else { return };
        let begin = self.text.len() - inside.len();
        let end = closing_brace(inside);
        self.at = (begin + end + 1).min(self.text.len());
        let content = inside[..end].trim();
        // Mathematics inside text, and numbers set as text, are read as what they are.
        let plain = content.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'))
            || is_list_of_letters(content);
        if content.is_empty() {
            self.spaced = true;
        } else if plain || content.contains(['\\', '$']) {
            let shift = begin + inside[..end].len() - inside[..end].trim_start().len();
            for mut token in tokens(content) {
                token.position += shift;
                self.found.push(token);
            }
        } else if let Some((scale, rest)) = content.split_once(' ')
            && number_word(scale).is_some()
        {
            // `million people`: a part of the number, and a unit.
            self.push(TokenKind::Text(scale.to_owned()), start);
            self.push(TokenKind::Text(rest.trim().to_owned()), start);
        } else {
            self.push(TokenKind::Text(content.to_owned()), start);
        }
    }

    fn environment(&mut self, start: usize, begin: bool) {
        let trimmed = self.rest().trim_start();
        let Some(inside) = trimmed.strip_prefix('{') else { return };
        let end = closing_brace(inside);
        let name = inside[..end].trim_end_matches('*').to_owned();
        self.at = (self.text.len() - inside.len() + end + 1).min(self.text.len());
        if begin {
            self.matrix_depth += 1;
            if name == "array" && self.rest().trim_start().starts_with('{') {
                let columns = &self.rest().trim_start()[1..];
                self.at = (self.text.len() - columns.len() + closing_brace(columns) + 1)
                    .min(self.text.len());
            }
            self.push(TokenKind::Begin(name), start);
        } else {
            self.matrix_depth = self.matrix_depth.saturating_sub(1);
            self.push(TokenKind::End(name), start);
        }
    }
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

/// `A, C`: choices, set as text.
fn is_list_of_letters(text: &str) -> bool {
    let mut parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    text.contains(',')
        && parts.all(|part| part.len() == 1 && part.as_bytes()[0].is_ascii_uppercase())
}

/// The number that a word behind a number multiplies it by.
pub(crate) fn number_word(word: &str) -> Option<u64> {
    NUMBER_WORDS.iter().find(|(it, _)| it.eq_ignore_ascii_case(word)).map(|(_, value)| *value)
}

fn is_command(name: &str) -> bool {
    const OTHERS: [&str; 22] = [
        "frac", "dfrac", "tfrac", "sqrt", "boxed", "fbox", "text", "mbox", "mathrm", "left",
        "right", "binom", "begin", "end", "sin", "cos", "tan", "log", "ln", "quad", "sum", "prod",
    ];
    OTHERS.contains(&name)
        || GREEK.contains(&name)
        || SIGN_COMMANDS.iter().any(|(it, _)| *it == name)
}
