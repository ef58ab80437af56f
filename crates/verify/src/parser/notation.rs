//! Notation that is rarer: choices written `₅C₂`, double factorials, determinants, digits of base 16.

use num_bigint::BigInt;

use super::{Parse, Parser};
use crate::expression::{Expression, Function, Number};
use crate::lexer::TokenKind;

/// Largest number whose double factorial is written out.
const MAX_DOUBLE_FACTORIAL: u32 = 300;
/// Largest determinant that is written out.
const MAX_DETERMINANT_ROWS: usize = 4;

impl Parser<'_> {
    /// `{}^5C_2`, `_5C_2` and the same with `P`: choices and arrangements.
    pub(super) fn choices(&mut self) -> Parse<Option<Expression>> {
        if self.is_sign('{') && self.kind_at(1) == Some(&TokenKind::Sign('}')) {
            self.at += 2;
        }
        if !self.take_sign('^') && !self.take_sign('_') {
            return Ok(None);
        }
        let of = self.script()?;
        let Some(TokenKind::Letter(letter)) = self.kind() else { return Ok(None) };
        self.at += 1;
        if !self.take_sign('_') {
            return Ok(None);
        }
        let taken = self.script()?;
        let factorial = |value| Expression::Apply(Function::Factorial, vec![value]);
        Ok(match letter.as_str() {
            "C" => Some(Expression::Apply(Function::Binomial, vec![of, taken])),
            "P" => {
                let left = Expression::Sum(vec![of.clone(), taken.negated()]);
                Some(Expression::Product(vec![factorial(of), factorial(left).inverted()]))
            }
            _ => None,
        })
    }

    /// `{5}`, or a number as it stands.
    fn script(&mut self) -> Parse<Expression> {
        if self.is_sign('{') { self.group() } else { self.deeper(Self::primary) }
    }

    /// `7!!` is 7 · 5 · 3 · 1; of what is no small number, a function.
    pub(super) fn double_factorial(value: &Expression) -> Expression {
        let whole = match value {
            Expression::Number(Number { value, .. }) if value.is_integer() => {
                u32::try_from(value.to_integer()).ok()
            }
            _ => None,
        };
        match whole.filter(|whole| *whole <= MAX_DOUBLE_FACTORIAL) {
            Some(whole) => {
                let factors = (1..=whole).rev().step_by(2);
                Expression::integer(factors.fold(BigInt::from(1), |product, it| product * it))
            }
            None => Expression::Call("!!".to_owned(), vec![value.clone()]),
        }
    }

    /// A matrix between bars, or behind `\det`.
    pub(super) fn determinant(&mut self) -> Parse<Expression> {
        let rows = self.matrix()?;
        if rows.is_empty() || rows.len() > MAX_DETERMINANT_ROWS || rows[0].len() != rows.len() {
            return Err(self.error("a small square matrix"));
        }
        Ok(expanded(&rows))
    }

    /// `FF_{16}`, whose first digit is a letter.
    pub(super) fn letters_in_base_16(&mut self) -> Option<Expression> {
        self.attempt(|parser| {
            let mut digits = String::new();
            while let Some(token) = parser.tokens.get(parser.at) {
                match &token.kind {
                    _ if token.spaced && !digits.is_empty() => break,
                    TokenKind::Letter(part) | TokenKind::Word(part) | TokenKind::Digits(part)
                        if part
                            .bytes()
                            .all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte)) =>
                    {
                        digits.push_str(part);
                    }
                    _ => break,
                }
                parser.at += 1;
            }
            let is_16 = |ahead| parser.kind_at(ahead) == Some(&TokenKind::Digits("16".to_owned()));
            let braces = usize::from(parser.kind_at(1) == Some(&TokenKind::Sign('{')));
            if digits.len() < 2 || !parser.is_sign('_') || !is_16(1 + braces) {
                return Ok(None);
            }
            parser.at += 2 + 2 * braces;
            Ok(BigInt::parse_bytes(digits.as_bytes(), 16).map(Expression::integer))
        })
    }
}

/// The determinant along the first row.
fn expanded(rows: &[Vec<Expression>]) -> Expression {
    let [first, rest @ ..] = rows else { return Expression::integer(1) };
    let terms = first.iter().enumerate().map(|(column, cell)| {
        let minor: Vec<Vec<Expression>> = rest
            .iter()
            .map(|row| {
                let cells = row.iter().enumerate().filter(|(at, _)| *at != column);
                cells.map(|(_, cell)| cell.clone()).collect()
            })
            .collect();
        let term = Expression::product(vec![cell.clone(), expanded(&minor)]);
        if column % 2 == 0 { term } else { term.negated() }
    });
    Expression::sum(terms.collect())
}
