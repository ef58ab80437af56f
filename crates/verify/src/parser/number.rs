//! Numbers as people write them: thousands in groups, decimals, repeating decimals, powers of ten,
//! mixed numbers, other bases.
//!
//! Invariant: digits are never lost or invented. `1,000` is a thousand and `1, 000` two numbers;
//! `1,22` has two readings, of which [`decimal_comma`] gives the second.

use num_bigint::BigInt;
use num_traits::{One as _, Pow as _, Zero as _};

use super::{Parse, Parser};
use crate::expression::{Expression, Number, Rational};
use crate::lexer::{Token, TokenKind, number_word};

/// Most digits of a number, and the largest power of ten.
const MAX_DIGITS: usize = 3_000;
const MAX_POWER_OF_TEN: u32 = 4_000;

impl Parser<'_> {
    pub(super) fn number(&mut self) -> Parse<Expression> {
        let text = self.grouped_digits();
        if text.len() > MAX_DIGITS {
            return Err(self.error("fewer digits"));
        }
        if let Some(repeating) = self.repeating(&text)? {
            return Ok(repeating);
        }
        if !text.contains('.') {
            let text = self.with_letter_digits(&text);
            if self.is_sign('_') {
                return self.in_base(&text);
            }
        }
        let number = decimal(&text).ok_or_else(|| self.error("a number"))?;
        if number.decimal_places.is_none() {
            self.skip_ordinal();
        }
        if self.take_sign('…')
            && let Some(value) = endless(&text)
        {
            return Ok(Expression::exact(value));
        }
        if let Some(power) = self.power_of_ten()? {
            return Ok(Expression::Number(Number {
                value: number.value * power,
                decimal_places: number.decimal_places,
            }));
        }
        if number.decimal_places.is_none()
            && let Some(fraction) = self.mixed_fraction()
        {
            return Ok(self.scaled(Number { value: number.value + fraction, ..number }));
        }
        Ok(self.scaled(number))
    }

    /// `7th`, `7^{\text{th}}`: a number all the same.
    fn skip_ordinal(&mut self) {
        let is_ending = |ahead: usize| match self.kind_at(ahead) {
            Some(TokenKind::Word(word) | TokenKind::Text(word)) => {
                ["st", "nd", "rd", "th"].contains(&word.as_str())
            }
            _ => false,
        };
        let sign = |ahead, sign| self.kind_at(ahead) == Some(&TokenKind::Sign(sign));
        let spaced = self.tokens.get(self.at).is_some_and(|token| token.spaced);
        self.at += match (is_ending(0), sign(0, '^')) {
            (true, _) if !spaced => 1,
            (_, true) if is_ending(1) => 2,
            (_, true) if sign(1, '{') && is_ending(2) && sign(3, '}') => 4,
            _ => 0,
        };
    }

    /// A number, or as many thousands or millions as the word behind it says.
    fn scaled(&mut self, number: Number) -> Expression {
        let scale = match self.kind() {
            Some(TokenKind::Word(word) | TokenKind::Text(word)) => number_word(word),
            _ => None,
        };
        let Some(scale) = scale else { return Expression::Number(number) };
        self.at += 1;
        let value = number.value * Rational::from_integer(scale.into());
        Expression::Number(Number { value, ..number })
    }

    /// Digits with their thousands: `1,000`, `14{,}912`, `1 000`, `32,\! 349.5`.
    fn grouped_digits(&mut self) -> String {
        let Some(TokenKind::Digits(first)) = self.kind() else { return String::new() };
        let mut text = first.clone();
        self.at += 1;
        if text.len() > 3 || text.contains('.') || text.starts_with('0') {
            return text;
        }
        while let Some((group, taken)) = self.group_ahead() {
            let last = group.contains('.');
            text.push_str(group);
            self.at += taken;
            if last {
                break;
            }
        }
        text
    }

    /// Three digits after a separator, and the tokens they take.
    fn group_ahead(&self) -> Option<(&str, usize)> {
        let token = |ahead: usize| self.tokens.get(self.at + ahead);
        let sign = |ahead, sign| self.kind_at(ahead) == Some(&TokenKind::Sign(sign));
        let braced = sign(0, '{') && sign(1, ',') && sign(2, '}');
        let (skip, by_space) = if braced {
            (3, false)
        } else if sign(0, ',') && self.brackets == 0 && !token(1)?.spaced {
            (1, false)
        } else if token(0)?.spaced && self.brackets == 0 {
            (0, true)
        } else {
            return None;
        };
        let Some(TokenKind::Digits(group)) = self.kind_at(skip) else { return None };
        let whole = group.split('.').next()?;
        let fraction = by_space && self.kind_at(skip + 1) == Some(&TokenKind::Sign('/'));
        (whole.len() == 3 && !fraction).then_some((group.as_str(), skip + 1))
    }

    /// `0.\overline{3}`, `1.2\overline{34}`.
    fn repeating(&mut self, text: &str) -> Parse<Option<Expression>> {
        let overline = TokenKind::Command("overline".into());
        // `0.(3)`: behind the point itself, where it can be no product.
        let round = self.is_sign('.') && self.kind_at(1) == Some(&TokenKind::Sign('('));
        let point = round || (self.is_sign('.') && self.kind_at(1) == Some(&overline));
        let inside = text.contains('.') && self.kind() == Some(&overline);
        if !(point || inside) {
            return Ok(None);
        }
        self.at += 1 + usize::from(point && !round);
        self.expect_sign(if round { '(' } else { '{' })?;
        let Some(TokenKind::Digits(period)) = self.kind() else {
            return Err(self.error("digits that repeat"));
        };
        self.at += 1;
        self.expect_sign(if round { ')' } else { '}' })?;
        if self
            .tokens
            .get(self.at)
            .is_some_and(|next| matches!(next.kind, TokenKind::Digits(_)) && !next.spaced)
        {
            return Err(self.error("nothing behind digits that repeat"));
        }
        let (Some(before), Some(period_value)) = (decimal(text), decimal(period)) else {
            return Err(self.error("digits that repeat"));
        };
        let places = before.decimal_places.unwrap_or(0);
        let nines = BigInt::from(10).pow(period.len() as u32) - BigInt::one();
        let scale = Rational::from_integer(nines * BigInt::from(10).pow(places));
        Ok(Some(Expression::exact(before.value + period_value.value / scale)))
    }

    /// `text` and the letters and digits behind it that a base follows: `1A_{16}`.
    fn with_letter_digits(&mut self, text: &str) -> String {
        let mut all = text.to_owned();
        let mut ahead = 0;
        while let Some(token) = self.tokens.get(self.at + ahead).filter(|token| !token.spaced) {
            match &token.kind {
                TokenKind::Letter(part) | TokenKind::Word(part)
                    if part.bytes().all(|byte| byte.is_ascii_uppercase()) =>
                {
                    all.push_str(part);
                }
                TokenKind::Digits(part) if ahead > 0 && !part.contains('.') => all.push_str(part),
                _ => break,
            }
            ahead += 1;
        }
        // Bases that have such digits; `3A_1` is a product.
        let sign = |ahead, sign| self.kind_at(ahead) == Some(&TokenKind::Sign(sign));
        let base = match self.kind_at(ahead + 2) {
            Some(TokenKind::Digits(base)) if sign(ahead, '_') && sign(ahead + 1, '{') => base,
            _ => return text.to_owned(),
        };
        if ahead > 0 && base.parse().is_ok_and(|base: u32| base > 10) {
            self.at += ahead;
            return all;
        }
        text.to_owned()
    }

    /// `(1011)_2`.
    pub(super) fn bracketed_in_base(&mut self) -> Parse<Option<Expression>> {
        let Some(TokenKind::Digits(digits)) = self.kind_at(1) else { return Ok(None) };
        let sign = |ahead, sign| self.kind_at(ahead) == Some(&TokenKind::Sign(sign));
        if digits.contains('.') || !sign(2, ')') || !sign(3, '_') {
            return Ok(None);
        }
        self.at += 3;
        self.in_base(digits).map(Some)
    }

    /// `1011_2`, `1011_{\text{two}}`.
    fn in_base(&mut self, text: &str) -> Parse<Expression> {
        let ahead = usize::from(self.kind_at(1) == Some(&TokenKind::Sign('{')));
        let base = match self.kind_at(1 + ahead) {
            Some(TokenKind::Digits(base)) => base.parse().unwrap_or(0),
            Some(TokenKind::Word(word) | TokenKind::Text(word)) => named_base(word),
            _ => 0_u32,
        };
        if !(2..=36).contains(&base) {
            self.at += 1;
            return Err(self.error("a base from 2 to 36"));
        }
        self.at += 2 + 2 * ahead;
        BigInt::parse_bytes(text.as_bytes(), base)
            .map(Expression::integer)
            .ok_or_else(|| self.error("digits of that base"))
    }

    /// `e10`, `E-3`, right behind the digits.
    fn power_of_ten(&mut self) -> Parse<Option<Rational>> {
        let unspaced = |ahead: usize| self.tokens.get(self.at + ahead).is_some_and(|it| !it.spaced);
        let is_e = match self.kind() {
            Some(TokenKind::Letter(letter)) => letter == "e" || letter == "E",
            _ => false,
        };
        if !is_e || !unspaced(0) {
            return Ok(None);
        }
        let (negative, ahead) = match self.kind_at(1) {
            Some(TokenKind::Sign('-')) => (true, 2),
            Some(TokenKind::Sign('+')) => (false, 2),
            _ => (false, 1),
        };
        let Some(TokenKind::Digits(digits)) = self.kind_at(ahead) else { return Ok(None) };
        if !unspaced(ahead) {
            return Ok(None);
        }
        let power: u32 = digits.parse().unwrap_or(u32::MAX);
        if power > MAX_POWER_OF_TEN {
            return Err(self.error("a smaller power of ten"));
        }
        self.at += ahead + 1;
        let scale = Rational::from_integer(BigInt::from(10).pow(power));
        Ok(Some(if negative { scale.recip() } else { scale }))
    }

    /// The fraction of `3\frac{1}{2}` or `3 1/2`.
    fn mixed_fraction(&mut self) -> Option<Rational> {
        if self.kind() == Some(&TokenKind::Command("frac".into())) {
            return self.attempt(|parser| {
                parser.at += 1;
                let above = parser.plain_integer();
                let below = parser.plain_integer();
                Ok(above.zip(below).and_then(|(above, below)| proper(above, below)))
            });
        }
        let spaced = self.tokens.get(self.at).is_some_and(|token| token.spaced);
        let slash = self.kind_at(1) == Some(&TokenKind::Sign('/'));
        let (Some(TokenKind::Digits(above)), true, true) = (self.kind(), spaced, slash) else {
            return None;
        };
        let Some(TokenKind::Digits(below)) = self.kind_at(2) else { return None };
        let fraction = proper(above.parse().ok()?, below.parse().ok()?)?;
        self.at += 3;
        Some(fraction)
    }

    /// `{12}` or the next digit, as an argument of `\frac`.
    fn plain_integer(&mut self) -> Option<BigInt> {
        if self.take_sign('{') {
            let Some(TokenKind::Digits(digits)) = self.kind() else { return None };
            self.at += 1;
            return self.take_sign('}').then(|| digits.parse().ok())?;
        }
        match self.one_digit().ok()? {
            Expression::Number(number) => Some(number.value.to_integer()),
            _ => None,
        }
    }

    /// The first digit of a token of digits; the rest stays for what follows.
    pub(super) fn one_digit(&mut self) -> Parse<Expression> {
        let (at, from) = self.split.unwrap_or((self.at, 0));
        let Some(TokenKind::Digits(digits)) = self.tokens.get(at).map(|token| &token.kind) else {
            return Err(self.error("a digit"));
        };
        let digit = digits[from..].chars().next().and_then(|digit| digit.to_digit(10));
        let digit = digit.ok_or_else(|| self.error("a digit"))?;
        if from + 1 < digits.len() {
            self.split = Some((at, from + 1));
        } else {
            self.split = None;
            self.at = at + 1;
        }
        Ok(Expression::integer(digit))
    }

    /// What arguments and factors left of a token: the `3` of `\frac123`, the `y` of `xy^2`.
    pub(super) fn rest_of_token(&mut self) -> Parse<Expression> {
        let split = self.split.take();
        let rest = split.and_then(|(at, from)| Some((at, from, &self.tokens.get(at)?.kind)));
        match rest {
            Some((at, from, TokenKind::Digits(digits))) => {
                self.at = at + 1;
                let number = decimal(&digits[from..]).map(Expression::Number);
                number.ok_or_else(|| self.error("a number"))
            }
            Some((at, from, TokenKind::Word(word))) => {
                self.at = at;
                self.letter(word[from..].to_owned())
            }
            _ => Err(self.error("digits or letters")),
        }
    }
}

/// A base by its name; 0 for others.
fn named_base(word: &str) -> u32 {
    const NAMES: [(&str, u32); 10] = [
        ("two", 2),
        ("three", 3),
        ("four", 4),
        ("five", 5),
        ("six", 6),
        ("seven", 7),
        ("eight", 8),
        ("nine", 9),
        ("ten", 10),
        ("sixteen", 16),
    ];
    NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map_or(0, |(_, base)| *base)
}

/// What `0.333…` or `0.1212…` means: its last digits go on, where they stand there twice (a single
/// one three times). Nothing else is known of an endless decimal.
fn endless(text: &str) -> Option<Rational> {
    let (whole, fraction) = text.split_once('.')?;
    let bytes = fraction.as_bytes();
    let length = (1..=bytes.len() / 2).find(|length| {
        let times = if *length == 1 { 3 } else { 2 };
        let Some(start) = bytes.len().checked_sub(length * times) else { return false };
        let period = &bytes[bytes.len() - length..];
        bytes[start..].chunks_exact(*length).all(|chunk| chunk == period)
    })?;
    let (before, period) = fraction.split_at(fraction.len() - length);
    let start = decimal(&format!("{whole}.{before}"))?;
    let nines = BigInt::from(10).pow(length as u32) - BigInt::one();
    let scale = nines * BigInt::from(10).pow(before.len() as u32);
    let period: BigInt = period.parse().ok()?;
    Some(start.value + Rational::new(period, scale))
}

fn proper(above: BigInt, below: BigInt) -> Option<Rational> {
    let fits = !below.is_zero() && above > BigInt::zero() && above < below;
    fits.then(|| Rational::new(above, below))
}

/// `12`, `0.5`, `.5`.
fn decimal(text: &str) -> Option<Number> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let digits = format!("{whole}{}", fraction.unwrap_or_default());
    let value: BigInt = digits.parse().ok()?;
    let places = fraction.map(|it| it.len() as u32);
    let scale = BigInt::from(10).pow(places.unwrap_or(0));
    Some(Number { value: Rational::new(value, scale), decimal_places: places })
}

/// The reading of a whole text `1,22` as one number, where the digits aren't thousands.
pub(super) fn decimal_comma(tokens: &[Token]) -> Option<Expression> {
    let negative = matches!(tokens.first(), Some(Token { kind: TokenKind::Sign('-'), .. }));
    let [whole, comma, fraction] = tokens.get(usize::from(negative)..)? else { return None };
    let (TokenKind::Digits(whole), TokenKind::Digits(digits)) = (&whole.kind, &fraction.kind)
    else {
        return None;
    };
    // `1.234,56`: points part thousands where a comma follows.
    let plain = whole.split_once('.').filter(|(_, group)| group.len() == 3);
    let plain = plain.map_or_else(|| whole.clone(), |(first, group)| format!("{first}{group}"));
    let grouped = plain.len() < whole.len();
    let whole = &plain;
    if comma.kind != TokenKind::Sign(',')
        || fraction.spaced
        || whole.contains('.')
        || digits.contains('.')
        // `2,1` are two numbers far more often than one; `0,5` is one.
        || (digits.len() == 1 && whole != "0")
        || (!grouped && digits.len() == 3 && whole.len() <= 3 && !whole.starts_with('0'))
    {
        return None;
    }
    let number = decimal(&format!("{whole}.{digits}"))?;
    let value = if negative { -number.value } else { number.value };
    Some(Expression::Number(Number { value, decimal_places: number.decimal_places }))
}
