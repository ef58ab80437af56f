//! Exact equality of expressions: rational functions over the rationals, in atoms.
//!
//! An atom is whatever arithmetic can't open: a symbol, a constant, a root, a function of something.
//! Two expressions whose difference is zero as a rational function in their atoms are equal, with no
//! doubt. If it is not zero and the atoms are plain symbols, they differ, with no doubt either.
//! Where atoms may depend on each other (`sin²x + cos²x`), the answer is left to the numeric test.
//!
//! Invariant: no verdict without a proof; sizes are capped, and past the cap there is no verdict.

mod functions;
mod polynomial;

use functions::{function_form, series_form};
use num_traits::{One as _, Pow as _, Signed as _, ToPrimitive as _, Zero as _};
use polynomial::{
    IMAGINARY, MAX_BITS, Monomial, Polynomial, ROOT, SYMBOL, bits, extract_root, polynomial_text,
};

pub(crate) use functions::substituted;

use crate::expression::{Constant, Expression, Rational};
use crate::work;

/// A quotient of two polynomials; the divisor is not zero.
#[derive(Debug, Clone)]
pub(crate) struct Quotient {
    above: Polynomial,
    below: Polynomial,
}

/// Why an expression has no normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoForm {
    /// It is too large to work out, or nothing that is known here.
    TooLarge,
    /// It has no value: a division by zero, a logarithm of zero.
    Undefined,
}

impl Quotient {
    fn whole(above: Polynomial) -> Self {
        Self { above, below: Polynomial::constant(Rational::one()) }
    }

    fn constant(value: Rational) -> Self {
        Self::whole(Polynomial::constant(value))
    }

    fn atom(name: String) -> Self {
        Self::whole(Polynomial::term(Monomial::from([(name, 1)]), Rational::one()))
    }

    fn plus(&self, other: &Self) -> Result<Self, NoForm> {
        if self.below == other.below {
            return Ok(Self { above: self.above.plus(&other.above)?, below: self.below.clone() });
        }
        let above = self.above.times(&other.below)?.plus(&other.above.times(&self.below)?)?;
        Ok(Self { above, below: self.below.times(&other.below)? })
    }

    fn times(&self, other: &Self) -> Result<Self, NoForm> {
        let (above, below) = (self.above.times(&other.above)?, self.below.times(&other.below)?);
        Ok(Self { above, below }.simplified())
    }

    /// Constant divisors are divided out.
    fn simplified(self) -> Self {
        match self.below.as_constant() {
            Some(divisor) if !divisor.is_one() && !divisor.is_zero() => {
                let inverse = divisor.recip();
                let terms = self.above.terms.into_iter().map(|(it, value)| (it, value * &inverse));
                Self::whole(Polynomial { terms: terms.collect() })
            }
            _ => self,
        }
    }

    fn power(&self, exponent: i64) -> Result<Self, NoForm> {
        let size = u32::try_from(exponent.unsigned_abs()).map_err(|_| NoForm::TooLarge)?;
        // A number's power is bounded by its bits, everything else by its terms.
        let size_bits = self.as_rational().map_or(0, |it| bits(&it));
        if size_bits.saturating_mul(u64::from(size)) > MAX_BITS {
            return Err(NoForm::TooLarge);
        }
        let (above, below) = (self.above.power(size)?, self.below.power(size)?);
        if exponent >= 0 {
            return Ok(Self { above, below }.simplified());
        }
        if above.is_zero() {
            return Err(NoForm::Undefined);
        }
        Ok(Self { above: below, below: above }.simplified())
    }

    /// `r` where it is `r · π`.
    pub(super) fn multiple_of_pi(&self) -> Option<Rational> {
        let below = self.below.as_constant()?;
        match self.above.terms.iter().next() {
            None => Some(Rational::zero()),
            Some((monomial, value)) if self.above.terms.len() == 1 => {
                let is_pi = monomial.len() == 1 && monomial.get("pi") == Some(&1);
                (is_pi && !below.is_zero()).then(|| value / below)
            }
            Some(_) => None,
        }
    }

    /// The rational number that it is, if it is one.
    pub(crate) fn as_rational(&self) -> Option<Rational> {
        let (above, below) = (self.above.as_constant()?, self.below.as_constant()?);
        (!below.is_zero()).then(|| above / below)
    }

    /// As text, the same for every spelling of the same quotient of the same terms.
    pub(crate) fn text(&self) -> String {
        let above = polynomial_text(&self.above);
        match self.below.as_constant() {
            Some(one) if one.is_one() => above,
            _ => format!("({above})/({})", polynomial_text(&self.below)),
        }
    }

    /// Both have the same value wherever both have one; `None` where that is not proven.
    pub(crate) fn equals(&self, other: &Self) -> Option<bool> {
        let left = self.above.times(&other.below).ok()?;
        let right = other.above.times(&self.below).ok()?;
        if left == right {
            return Some(true);
        }
        (left.is_free() && right.is_free()).then_some(false)
    }

    /// `self = factor · other` for a rational factor: two spellings of one equation to zero.
    pub(crate) fn is_multiple_of(&self, other: &Self) -> bool {
        let (left, right) = (&self.above.terms, &other.above.terms);
        let (Some((_, first)), Some((_, second))) = (left.iter().next(), right.iter().next())
        else {
            return left.is_empty() && right.is_empty();
        };
        let factor = first / second;
        left.len() == right.len()
            && left.iter().zip(right).all(|((a, x), (b, y))| a == b && *x == y * &factor)
    }
}

/// The normal form of `expression`.
///
/// # Errors
/// It is too large, or divides by zero.
pub(crate) fn normal_form(expression: &Expression) -> Result<Quotient, NoForm> {
    if !work::pay(1) {
        return Err(NoForm::TooLarge);
    }
    match expression {
        Expression::Number(number) => Ok(Quotient::constant(number.value.clone())),
        Expression::Symbol(name) => Ok(Quotient::atom(format!("{SYMBOL}{name}"))),
        // Infinity is no number; what is done with it has no value here.
        Expression::Constant(Constant::Infinity) => Err(NoForm::TooLarge),
        Expression::Constant(constant) => Ok(Quotient::atom(constant_name(*constant).to_owned())),
        Expression::Sum(terms) => {
            let start = Quotient::constant(Rational::zero());
            terms.iter().try_fold(start, |sum, term| sum.plus(&normal_form(term)?))
        }
        Expression::Product(factors) => {
            let start = Quotient::constant(Rational::one());
            factors.iter().try_fold(start, |product, it| product.times(&normal_form(it)?))
        }
        Expression::Power(base, exponent) => power_form(base, exponent),
        Expression::Apply(function, arguments) => function_form(*function, arguments),
        Expression::Call(name, arguments) => {
            let texts: Result<Vec<String>, NoForm> =
                arguments.iter().map(|it| Ok(normal_form(it)?.text())).collect();
            Ok(Quotient::atom(format!("{name}({})", texts?.join(","))))
        }
        Expression::Series(series) => series_form(series),
    }
}

const fn constant_name(constant: Constant) -> &'static str {
    match constant {
        Constant::Pi => "pi",
        Constant::E => "e",
        Constant::I => IMAGINARY,
        Constant::Infinity => "infinity",
    }
}

fn power_form(base: &Expression, exponent: &Expression) -> Result<Quotient, NoForm> {
    let exponent_form = normal_form(exponent)?;
    let base_form = normal_form(base)?;
    let Some(power) = exponent_form.as_rational() else {
        return Ok(Quotient::atom(format!("({})^({})", base_form.text(), exponent_form.text())));
    };
    let numerator = power.numer().to_i64().ok_or(NoForm::TooLarge)?;
    if power.is_integer() {
        return base_form.power(numerator);
    }
    let degree = power.denom().to_u32().filter(|it| *it <= 64).ok_or(NoForm::TooLarge)?;
    root_form(&base_form, degree)?.power(numerator)
}

fn root_form(base: &Quotient, degree: u32) -> Result<Quotient, NoForm> {
    let Some(value) = base.as_rational() else {
        return Ok(Quotient::atom(format!("root{degree}[{}]", base.text())));
    };
    if value.is_zero() {
        return Ok(Quotient::constant(value));
    }
    // √(a/b) = √(a·b^(d−1)) / b.
    let denominator = value.denom().clone();
    let radicand = value.numer().abs() * denominator.clone().pow(degree - 1);
    if radicand.bits() > 4_000 || !work::pay(20 + radicand.bits()) {
        return Err(NoForm::TooLarge);
    }
    let (outside, inside) = extract_root(&radicand, degree);
    let scale = Rational::new(outside, denominator);
    let mut root = Quotient::constant(scale);
    if !inside.is_one() {
        root = root.times(&Quotient::atom(format!("{ROOT}{degree}:{inside}")))?;
    }
    match (value.is_negative(), degree % 2) {
        (false, _) => Ok(root),
        // Odd roots of negative numbers are read as real.
        (true, 1) => root.times(&Quotient::constant(-Rational::one())),
        (true, _) if degree == 2 => root.times(&Quotient::atom(IMAGINARY.to_owned())),
        (true, _) => Err(NoForm::TooLarge),
    }
}
