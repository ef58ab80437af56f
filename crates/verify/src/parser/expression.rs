//! Sums, products, powers and functions, with multiplication that nobody writes.
//!
//! Invariant: a juxtaposition multiplies unless the left side is a function. `x(y + 1)` is a
//! product; only the letters that texts use for functions call: `f(x)`, `P(A)`.

use super::matrix::is_determinant;
use super::names::{KnownWord, function, is_product_of_letters, known_word, single};
use super::{Parse, Parser};
use crate::expression::{Constant, Expression, Function, Rational};
use crate::lexer::{OPEN_SET, TokenKind};
use crate::units;

impl Parser<'_> {
    pub(super) fn sum(&mut self) -> Parse<Expression> {
        let mut terms = vec![self.signed_product()?];
        let mut in_degrees = usize::from(self.is_after_degrees());
        while let Some(TokenKind::Sign('+' | '-' | '±' | '∓')) = self.kind() {
            terms.push(self.signed_product()?);
            in_degrees += usize::from(self.is_after_degrees());
        }
        if in_degrees > 0 && in_degrees < terms.len() {
            return Err(self.error("degrees in every term or in none"));
        }
        Ok(Expression::sum(terms))
    }

    fn signed_product(&mut self) -> Parse<Expression> {
        let mut negative = false;
        while let Some(TokenKind::Sign(sign)) = self.kind() {
            match sign {
                '+' => {}
                '-' => negative = !negative,
                '±' | '∓' => {
                    self.met_plus_minus = true;
                    negative ^= (*sign == '±') == (self.plus_minus < 0);
                }
                _ => break,
            }
            self.at += 1;
        }
        let product = self.deeper(Self::product)?;
        Ok(if negative { product.negated() } else { product })
    }

    pub(super) fn product(&mut self) -> Parse<Expression> {
        let mut factors = vec![self.power()?];
        loop {
            let before = self.at;
            if self.take_sign('*') {
                let negative = self.take_sign('-');
                let factor = self.deeper(Self::power)?;
                factors.push(if negative { factor.negated() } else { factor });
            } else if self.take_sign('/') {
                let divisor = self.deeper(Self::power)?;
                factors.push(divisor.inverted());
            } else if self.begins_factor() {
                factors.push(self.deeper(Self::power)?);
            } else {
                return Ok(Expression::product(factors));
            }
            if self.at == before && self.split.is_none() {
                return Err(self.error("a factor"));
            }
        }
    }

    /// The next token can only be a factor of the product so far.
    pub(super) fn begins_factor(&self) -> bool {
        match self.kind() {
            Some(TokenKind::Digits(_)) => self.split.is_some() || !self.after_digits(),
            Some(TokenKind::Letter(_)) => true,
            Some(TokenKind::Word(word)) => {
                known_word(word).is_some() || is_product_of_letters(word)
            }
            Some(TokenKind::Command(name)) => {
                matches!(
                    name.as_str(),
                    "frac" | "sqrt" | "binom" | "sum" | "prod" | "overline" | "det"
                ) || function(name).is_some()
            }
            Some(TokenKind::Sign(sign)) => match sign {
                '(' | '{' | '[' | '⌊' | '⌈' | '√' | '∛' | '∞' => true,
                '|' => self.bars == 0,
                _ => false,
            },
            _ => false,
        }
    }

    fn after_digits(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_some_and(|token| matches!(token.kind, TokenKind::Digits(_)))
    }

    /// A power; of letters that stand together only the last is raised: `xy^2` is x · y².
    pub(super) fn power(&mut self) -> Parse<Expression> {
        let mut factors = self.leading_letters();
        let base = self.deeper(Self::postfix)?;
        factors.push(if self.take_degree_sign() || !self.take_sign('^') {
            base
        } else {
            let exponent = self.exponent()?;
            self.factorials(base.power(exponent))?
        });
        Ok(Expression::product(factors))
    }

    /// All but the last letter of a product of letters; the last stays for what follows.
    fn leading_letters(&mut self) -> Vec<Expression> {
        let (at, from) = self.split.unwrap_or((self.at, 0));
        let Some(TokenKind::Word(word)) = self.tokens.get(at).map(|token| &token.kind) else {
            return Vec::new();
        };
        let in_base = || {
            let next = self.tokens.get(at + 1).map(|token| &token.kind);
            let is_digit = |letter: u8| (b'A'..=b'F').contains(&letter);
            next == Some(&TokenKind::Sign('_')) && word.bytes().all(is_digit)
        };
        if self.split.is_none() && (word == "cis" || !is_product_of_letters(word) || in_base()) {
            return Vec::new();
        }
        let last = word.len() - 1;
        if from < last {
            self.split = Some((at, last));
        }
        word[from..last].chars().map(single).collect()
    }

    /// The first letter of a product of letters, which alone is an argument: `\frac ab`.
    pub(super) fn one_letter(&mut self) -> Option<Expression> {
        let (at, from) = self.split.unwrap_or((self.at, 0));
        let TokenKind::Word(word) = &self.tokens.get(at)?.kind else { return None };
        if self.split.is_none() && !is_product_of_letters(word) {
            return None;
        }
        self.split = (from + 1 < word.len()).then_some((at, from + 1));
        self.at = if self.split.is_some() { at } else { at + 1 };
        word[from..].chars().next().map(single)
    }

    /// `°`, `^\circ` or `^{\circ}`: a mark of the value, not a power.
    fn take_degree_sign(&mut self) -> bool {
        let sign = |ahead, sign| self.kind_at(ahead) == Some(&TokenKind::Sign(sign));
        let tokens = if sign(0, '°') {
            1
        } else if sign(0, '^') && sign(1, '°') {
            2
        } else if sign(0, '^') && sign(1, '{') && sign(2, '°') && sign(3, '}') {
            4
        } else {
            return false;
        };
        self.at += tokens;
        self.degrees_until = Some(self.at);
        true
    }

    /// The value that ends here was given in degrees.
    pub(super) fn is_after_degrees(&self) -> bool {
        self.degrees_until == Some(self.at)
    }

    /// An argument in degrees as radians.
    pub(super) fn in_radians(&self, argument: Expression) -> Expression {
        if !self.is_after_degrees() {
            return argument;
        }
        let turn = Expression::exact(Rational::new(1.into(), 180.into()));
        Expression::Product(vec![argument, turn, Expression::Constant(Constant::Pi)])
    }

    pub(super) fn exponent(&mut self) -> Parse<Expression> {
        let negative = self.take_sign('-');
        let exponent = if self.is_sign('{') { self.group()? } else { self.deeper(Self::postfix)? };
        Ok(if negative { exponent.negated() } else { exponent })
    }

    fn postfix(&mut self) -> Parse<Expression> {
        let primary = self.primary()?;
        self.factorials(primary)
    }

    fn factorials(&mut self, mut value: Expression) -> Parse<Expression> {
        while self.take_sign('!') {
            value = match self.take_sign('!') {
                true => Self::double_factorial(&value),
                false => Expression::Apply(Function::Factorial, vec![value]),
            };
        }
        Ok(value)
    }

    pub(super) fn primary(&mut self) -> Parse<Expression> {
        if self.split.is_some() {
            return self.rest_of_token();
        }
        if let Some(value) = self.attempt(Self::choices) {
            return Ok(value);
        }
        match self.kind() {
            Some(TokenKind::Digits(_)) => self.number(),
            Some(TokenKind::Begin(name)) if is_determinant(name) => self.determinant(),
            Some(TokenKind::Letter(letter) | TokenKind::Word(letter))
                if letter.starts_with(|first: char| ('A'..='F').contains(&first))
                    && let Some(value) = self.letters_in_base_16() =>
            {
                Ok(value)
            }
            Some(TokenKind::Letter(letter)) => self.letter(letter.clone()),
            Some(TokenKind::Word(word)) => self.word(word),
            Some(TokenKind::Command(name)) => self.command(name),
            Some(TokenKind::Sign(sign)) => self.sign_primary(*sign),
            _ => Err(self.error("a value")),
        }
    }

    fn sign_primary(&mut self, sign: char) -> Parse<Expression> {
        match sign {
            '(' => match self.attempt(Self::bracketed_in_base) {
                Some(value) => Ok(value),
                None => self.enclosed('(', ')'),
            },
            '[' => self.enclosed('[', ']'),
            '{' => self.group(),
            '⌊' => Ok(Expression::Apply(Function::Floor, vec![self.enclosed('⌊', '⌋')?])),
            '⌈' => Ok(Expression::Apply(Function::Ceiling, vec![self.enclosed('⌈', '⌉')?])),
            '|' if self.bars == 0 => {
                self.at += 1;
                self.bars += 1;
                let inside = self.deeper(Self::sum);
                self.bars -= 1;
                let inside = inside?;
                self.expect_sign('|')?;
                Ok(Expression::Apply(Function::Abs, vec![inside]))
            }
            '√' => {
                self.at += 1;
                let radicand = self.deeper(Self::postfix)?;
                Ok(Expression::Apply(Function::Root, vec![radicand]))
            }
            '∛' => {
                self.at += 1;
                let radicand = self.deeper(Self::postfix)?;
                Ok(Expression::Apply(Function::Root, vec![radicand, Expression::integer(3)]))
            }
            '∞' => {
                self.at += 1;
                Ok(Expression::Constant(Constant::Infinity))
            }
            // Money before its number.
            _ if units::currency(sign).is_some() => {
                self.at += 1;
                self.money = units::currency(sign);
                let negative = self.take_sign('-');
                let amount = self.deeper(Self::postfix)?;
                Ok(if negative { amount.negated() } else { amount })
            }
            OPEN_SET => self.enclosed(OPEN_SET, crate::lexer::CLOSE_SET),
            _ => Err(self.error("a value")),
        }
    }

    fn enclosed(&mut self, open: char, close: char) -> Parse<Expression> {
        self.expect_sign(open)?;
        // Bars outside don't close bars inside.
        let bars = std::mem::replace(&mut self.bars, 0);
        let inside = self.deeper(Self::sum);
        self.bars = bars;
        let inside = inside?;
        self.expect_sign(close)?;
        Ok(inside)
    }

    /// `{…}`, also `{n \choose k}`.
    pub(super) fn group(&mut self) -> Parse<Expression> {
        self.expect_sign('{')?;
        let inside = self.deeper(Self::sum)?;
        if self.kind() == Some(&TokenKind::Command("choose".into())) {
            self.at += 1;
            let below = self.deeper(Self::sum)?;
            self.expect_sign('}')?;
            return Ok(Expression::Apply(Function::Binomial, vec![inside, below]));
        }
        if self.kind() == Some(&TokenKind::Command("over".into())) {
            self.at += 1;
            let below = self.deeper(Self::sum)?;
            self.expect_sign('}')?;
            return Ok(Expression::Product(vec![inside, below.inverted()]));
        }
        self.expect_sign('}')?;
        Ok(inside)
    }

    pub(super) fn letter(&mut self, letter: String) -> Parse<Expression> {
        self.at += 1;
        match letter.as_str() {
            "pi" => return Ok(Expression::Constant(Constant::Pi)),
            "e" if !self.is_sign('_') => return Ok(Expression::Constant(Constant::E)),
            "i" if !self.is_sign('_') => return Ok(Expression::Constant(Constant::I)),
            _ => {}
        }
        let mut name = letter;
        if self.take_sign('_') {
            name.push('_');
            name.push_str(&self.subscript()?);
        }
        while self.take_sign('\'') {
            name.push('\'');
        }
        if name.starts_with(['f', 'g', 'h', 'F', 'G', 'H', 'P', 'Q', 'T', 'W'])
            && self.is_sign('(')
            && let Some(arguments) = self.attempt(|parser| parser.arguments().map(Some))
        {
            return Ok(Expression::Call(name, arguments));
        }
        if name == "C"
            && self.is_sign('(')
            && let Some(arguments) = self.attempt(|parser| parser.arguments().map(Some))
            && arguments.len() == 2
        {
            return Ok(Expression::Apply(Function::Binomial, arguments));
        }
        Ok(Expression::Symbol(name))
    }

    /// The text of a subscript: `1`, `{37}`, `{MBCN}`, `{n-k-1}`.
    fn subscript(&mut self) -> Parse<String> {
        let mut text = String::new();
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                Some(TokenKind::Sign('{')) => depth += 1,
                Some(TokenKind::Sign('}')) if depth > 0 => depth -= 1,
                Some(
                    TokenKind::Digits(part)
                    | TokenKind::Letter(part)
                    | TokenKind::Word(part)
                    | TokenKind::Text(part),
                ) => text.push_str(part),
                Some(TokenKind::Sign(sign)) if depth > 0 => text.push(*sign),
                Some(TokenKind::Command(name)) if depth > 0 => text.push_str(name),
                _ => return Err(self.error("a subscript")),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(text);
            }
        }
    }

    pub(super) fn arguments(&mut self) -> Parse<Vec<Expression>> {
        self.expect_sign('(')?;
        self.brackets += 1;
        let mut arguments = Vec::new();
        loop {
            let argument = self.deeper(Self::sum)?;
            arguments.push(self.in_radians(argument));
            if !self.take_sign(',') {
                break;
            }
        }
        self.brackets -= 1;
        self.expect_sign(')')?;
        Ok(arguments)
    }

    fn word(&mut self, word: &str) -> Parse<Expression> {
        match known_word(word) {
            Some(KnownWord::Function(function)) => {
                self.at += 1;
                self.apply(function, word)
            }
            Some(KnownWord::Constant(constant)) => {
                self.at += 1;
                Ok(Expression::Constant(constant))
            }
            None if word == "cis" => {
                self.at += 1;
                let turn = match self.is_sign('(') {
                    true => Expression::product(self.arguments()?),
                    false => self.bare_argument()?,
                };
                let turn = Expression::product(vec![Expression::Constant(Constant::I), turn]);
                Ok(Expression::Constant(Constant::E).power(turn))
            }
            None if is_product_of_letters(word) => {
                self.at += 1;
                let last = word.len() - 1;
                let mut factors: Vec<Expression> = word[..last].chars().map(single).collect();
                // The last letter may carry a subscript or a call of its own.
                let tail = word[last..].to_owned();
                self.at -= 1;
                factors.push(self.letter(tail)?);
                Ok(Expression::product(factors))
            }
            None => Err(self.error("a value")),
        }
    }
}
