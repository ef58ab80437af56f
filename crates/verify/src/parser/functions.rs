//! Commands and functions, and what they take: `\frac ab`, `\sqrt[3]{x}`, `\sin^2 x`, `\sum`.
//!
//! Invariant: an argument without braces is one token, of letters and digits the first.

use super::names::{KnownWord, function, inverse, known_word};
use super::{Parse, Parser};
use crate::exact::substituted;
use crate::expression::{Constant, Expression, Function, Series, SeriesKind};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn command(&mut self, name: &str) -> Parse<Expression> {
        self.at += 1;
        match name {
            "frac" => {
                let (above, below) = (self.argument()?, self.argument()?);
                if is_derivative(&above, &below) {
                    return Err(self.error("no derivative"));
                }
                Ok(Expression::Product(vec![above, below.inverted()]))
            }
            "binom" => {
                let arguments = vec![self.argument()?, self.argument()?];
                Ok(Expression::Apply(Function::Binomial, arguments))
            }
            "sqrt" => {
                let mut arguments = Vec::new();
                if self.take_sign('[') {
                    arguments.push(self.deeper(Self::sum)?);
                    self.expect_sign(']')?;
                }
                arguments.insert(0, self.argument()?);
                Ok(Expression::Apply(Function::Root, arguments))
            }
            // Over letters it is a segment, over a complex number its conjugate, which isn't known.
            "overline" => match self.argument()? {
                complex if complex.any(&|part| *part == Expression::Constant(Constant::I)) => {
                    Err(self.error("no conjugate"))
                }
                segment => Ok(segment),
            },
            "det" => match self.kind() {
                Some(TokenKind::Begin(_)) => self.determinant(),
                _ => Err(self.error("a matrix")),
            },
            "sum" => self.series(SeriesKind::Sum),
            "prod" => self.series(SeriesKind::Product),
            _ => match function(name) {
                Some(function) => self.apply(function, name),
                None => {
                    self.at -= 1;
                    // An unknown command in a chain of equalities is some name: `1 = \zzz = 0`.
                    let names = |token: Option<&TokenKind>| token == Some(&TokenKind::Sign('='));
                    if names(self.kind_at(1)) {
                        self.at += 1;
                        return Ok(Expression::Symbol(format!("\\{name}")));
                    }
                    Err(self.error(&format!("a command that is known instead of `\\{name}`")))
                }
            },
        }
    }

    /// A TeX argument: a group, or one token, of digits the first.
    fn argument(&mut self) -> Parse<Expression> {
        if self.is_sign('{') {
            return self.group();
        }
        if let Some(letter) = self.one_letter() {
            return Ok(letter);
        }
        if self.split.is_some() || matches!(self.kind(), Some(TokenKind::Digits(_))) {
            return self.one_digit();
        }
        self.deeper(Self::primary)
    }

    fn series(&mut self, kind: SeriesKind) -> Parse<Expression> {
        self.expect_sign('_')?;
        self.expect_sign('{')?;
        let Some(TokenKind::Letter(index)) = self.kind() else {
            return Err(self.error("the index of a sum"));
        };
        let index = index.clone();
        self.at += 1;
        self.expect_sign('=')?;
        let from = self.deeper(Self::sum)?;
        self.expect_sign('}')?;
        self.expect_sign('^')?;
        let to = self.exponent()?;
        let mut body = self.deeper(Self::product)?;
        if index == "i" {
            // Here it counts, and is no imaginary unit.
            body = substituted(&body, &index, &Expression::Symbol(index.clone()));
        }
        Ok(Expression::Series(Box::new(Series { kind, index, from, to, body })))
    }

    /// A function and what it applies to: `\sin x`, `\sin^2(y)`, `\log_2 8`.
    pub(super) fn apply(&mut self, function: Function, name: &str) -> Parse<Expression> {
        let mut base = None;
        if self.take_sign('_') {
            base = Some(self.argument()?);
        }
        let mut exponent = None;
        if self.take_sign('^') {
            exponent = Some(self.exponent()?);
        }
        let mut arguments = match self.is_sign('(') {
            true => self.arguments()?,
            false => vec![self.bare_argument()?],
        };
        if let (Function::Log, None, "log") = (function, &base, name)
            && arguments.len() == 1
        {
            base = None;
        }
        if name == "lg" {
            base = Some(Expression::integer(10));
        }
        arguments.extend(base);
        if exponent == Some(Expression::integer(-1))
            && let Some(inverse) = inverse(function)
        {
            return Ok(Expression::Apply(inverse, arguments));
        }
        let value = Expression::Apply(function, arguments);
        Ok(match exponent {
            Some(exponent) => value.power(exponent),
            None => value,
        })
    }

    /// What a function without brackets takes: factors up to a sign, a slash or another function.
    pub(super) fn bare_argument(&mut self) -> Parse<Expression> {
        let mut factors = vec![self.deeper(Self::power)?];
        while self.begins_factor() && !self.begins_function() {
            factors.push(self.deeper(Self::power)?);
        }
        Ok(self.in_radians(Expression::product(factors)))
    }

    fn begins_function(&self) -> bool {
        match self.kind() {
            Some(TokenKind::Command(name)) => function(name).is_some(),
            Some(TokenKind::Word(word)) => {
                matches!(known_word(word), Some(KnownWord::Function(_)))
            }
            Some(TokenKind::Sign(sign)) => *sign == '(',
            _ => false,
        }
    }
}

/// `\frac{d}{dx}`: letters that are no factors.
fn is_derivative(above: &Expression, below: &Expression) -> bool {
    let is_d = |it: &Expression| *it == Expression::Symbol("d".to_owned());
    is_d(above)
        && matches!(below, Expression::Product(factors) if factors.first().is_some_and(is_d))
}
