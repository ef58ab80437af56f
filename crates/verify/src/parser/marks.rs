//! What stands after a value: per cent, degrees, units, money.
//!
//! Invariant: a mark changes no value; the comparison decides what it means.

use super::Parser;
use crate::expression::Mark;
use crate::lexer::{Token, TokenKind};
use crate::units;

/// `p.m.` and `PM` behind a time are words: `3:00 p.m.`, not 3 : (0 · p · m).
pub(super) fn half_of_day(tokens: &mut Vec<Token>) {
    let time = tokens.iter().position(|token| token.kind == TokenKind::Sign(':'));
    let Some(start) = time.map(|colon| colon + 2).filter(|start| *start < tokens.len()) else {
        return;
    };
    let (mut letters, mut idle) = (String::new(), true);
    for token in &tokens[start..] {
        match &token.kind {
            TokenKind::Letter(part) | TokenKind::Word(part) => letters.push_str(part),
            TokenKind::Sign('.') => {}
            _ => idle = false,
        }
    }
    let half = letters.to_ascii_lowercase();
    if idle && (half == "am" || half == "pm") {
        tokens[start].kind = TokenKind::Text(half);
        tokens.truncate(start + 1);
    }
}

impl Parser<'_> {
    /// What stands after a value: per cent, degrees, a unit.
    pub(super) fn mark(&mut self) -> Mark {
        let money = self.money.take();
        let mut mark = match money {
            Some(unit) => Mark::Unit(unit.to_owned()),
            None if self.is_after_degrees() => Mark::Degree,
            None => Mark::None,
        };
        loop {
            match self.kind() {
                Some(TokenKind::Sign('%')) => mark = Mark::Percent,
                Some(TokenKind::Sign(sign)) if units::currency(*sign).is_some() => {
                    let unit = units::currency(*sign).unwrap_or_default();
                    mark = Mark::Unit(unit.to_owned());
                }
                Some(TokenKind::Text(text) | TokenKind::Word(text)) if !self.is_separator() => {
                    let text = text.clone();
                    let Some(found) =
                        units::mark(&text, matches!(self.kind(), Some(TokenKind::Text(_))))
                    else {
                        return mark;
                    };
                    self.at += 1;
                    mark = self.unit_power(found);
                    continue;
                }
                _ => return mark,
            }
            self.at += 1;
        }
    }

    /// `cm^2`, `cm²`.
    fn unit_power(&mut self, mark: Mark) -> Mark {
        let Mark::Unit(unit) = mark else { return mark };
        if self.is_sign('^') {
            let (digits, tokens) = match (self.kind_at(1), self.kind_at(2)) {
                (Some(TokenKind::Digits(digits)), _) => (digits, 2),
                (Some(TokenKind::Sign('{')), Some(TokenKind::Digits(digits)))
                    if self.kind_at(3) == Some(&TokenKind::Sign('}')) =>
                {
                    (digits, 4)
                }
                _ => return Mark::Unit(unit),
            };
            self.at += tokens;
            return Mark::Unit(format!("{unit}^{digits}"));
        }
        Mark::Unit(unit)
    }
}
