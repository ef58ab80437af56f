//! Backslashes: spaces, escaped signs, rows, styles, environments and the commands that stay.
//!
//! Invariant: a command that only says how something looks leaves no token.

use super::tables::{GREEK, GREEK_SAME, SIGN_COMMANDS};
use super::{
    CLOSE_SET, DOLLAR, Lexer, OPEN_SET, REALS, TokenKind, closing_brace, number_word, tokens,
};

impl<'t> Lexer<'t> {
    pub(super) fn backslash(&mut self, start: usize) {
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
        // `\\[4pt]`: room between rows.
        self.skip_option(|inside| {
            let unit = inside
                .trim_start_matches(['-', '.', ' '])
                .trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
            unit.len() < inside.len()
                && ["pt", "em", "ex", "mm", "cm", "in", "mu"].contains(&unit.trim())
        });
    }

    /// Passes over `[…]` whose inside is such an option of LaTeX, in a matrix.
    fn skip_option(&mut self, is_option: impl Fn(&str) -> bool) {
        let trimmed = self.rest().trim_start();
        if let Some(inside) = trimmed.strip_prefix('[').filter(|_| self.matrix_depth > 0)
            && let Some((option, rest)) = inside.split_once(']')
            && is_option(option)
        {
            self.at = self.text.len() - rest.len();
        }
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
            | "LARGE" | "huge" | "Huge" | "scriptstyle" | "num" | "qty" | "SI" | "hline"
            | "framebox" => {}
            "color" | "textcolor" => self.skip_group(),
            "operatorname" => self.operator_name(start),
            "bar" | "dot" => {
                // Digits that repeat; elsewhere it adorns a name.
                if self.follows_point() {
                    self.push(TokenKind::Command("overline".to_owned()), start);
                    self.dotted_period(start);
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

    /// `{1}2\dot{3}`: a period whose first and last digits carry dots, as one group.
    fn dotted_period(&mut self, start: usize) {
        let one = |text: &'t str| -> Option<(&'t str, &'t str)> {
            let (digit, rest) = text.strip_prefix('{')?.split_once('}')?;
            (digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit()).then_some((digit, rest))
        };
        let Some((first, rest)) = one(self.rest()) else { return };
        let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let (middle, rest) = rest.split_at(end);
        let Some((last, rest)) = rest.strip_prefix("\\dot").and_then(one) else { return };
        self.at = self.text.len() - rest.len();
        self.push(TokenKind::Sign('{'), start);
        self.push(TokenKind::Digits(format!("{first}{middle}{last}")), start);
        self.push(TokenKind::Sign('}'), start);
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
            // `[r]`: how columns are set.
            self.skip_option(|inside| ["c", "l", "r", "t", "b"].contains(&inside.trim()));
        } else {
            self.matrix_depth = self.matrix_depth.saturating_sub(1);
            self.push(TokenKind::End(name), start);
        }
    }
}

/// `A, C`: choices, set as text.
fn is_list_of_letters(text: &str) -> bool {
    let mut parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    text.contains(',')
        && parts.all(|part| part.len() == 1 && part.as_bytes()[0].is_ascii_uppercase())
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
