//! Exact equality of expressions: rational functions over the rationals, in atoms.
//!
//! An atom is whatever arithmetic can't open: a symbol, a constant, a root, a function of something.
//! Two expressions whose difference is zero as a rational function in their atoms are equal, with no
//! doubt. If it is not zero and the atoms are plain symbols, they differ, with no doubt either.
//! Where atoms may depend on each other (`sin²x + cos²x`), the answer is left to the numeric test.
//!
//! Invariant: no verdict without a proof; sizes are capped, and past the cap there is no verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{One as _, Pow as _, Signed as _, ToPrimitive as _, Zero as _};

use crate::expression::{Constant, Expression, Function, Rational};

/// Most terms of a polynomial.
const MAX_TERMS: usize = 600;
/// Largest exponent that is multiplied out.
const MAX_EXPONENT: u32 = 64;
/// Most bits of a coefficient.
const MAX_BITS: u64 = 40_000;
/// Largest argument of a factorial and of a binomial coefficient.
const MAX_FACTORIAL: u32 = 1_000;
/// Most terms of a sum over a range that is written out.
const MAX_SERIES: i64 = 200;

/// A product of atoms with positive exponents.
type Monomial = BTreeMap<String, u32>;

/// A polynomial in atoms: its terms without zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Polynomial {
    terms: BTreeMap<Monomial, Rational>,
}

/// A quotient of two polynomials; the divisor is not zero.
#[derive(Debug, Clone)]
pub(crate) struct Quotient {
    above: Polynomial,
    below: Polynomial,
}

/// Too large, or a division by zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoForm;

impl Polynomial {
    fn constant(value: Rational) -> Self {
        Self::term(Monomial::new(), value)
    }

    fn term(monomial: Monomial, value: Rational) -> Self {
        let mut terms = BTreeMap::new();
        if !value.is_zero() {
            terms.insert(monomial, value);
        }
        Self { terms }
    }

    fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    fn as_constant(&self) -> Option<Rational> {
        match self.terms.len() {
            0 => Some(Rational::zero()),
            1 => self.terms.get(&Monomial::new()).cloned(),
            _ => None,
        }
    }

    fn plus(&self, other: &Self) -> Result<Self, NoForm> {
        let mut terms = self.terms.clone();
        for (monomial, value) in &other.terms {
            let sum = terms.entry(monomial.clone()).or_insert_with(Rational::zero);
            *sum += value;
            if sum.is_zero() {
                terms.remove(monomial);
            }
        }
        Self { terms }.capped()
    }

    fn times(&self, other: &Self) -> Result<Self, NoForm> {
        if self.terms.len() * other.terms.len() > MAX_TERMS * 4 {
            return Err(NoForm);
        }
        let mut product = Self::default();
        for (left, left_value) in &self.terms {
            for (right, right_value) in &other.terms {
                let mut monomial = left.clone();
                for (atom, exponent) in right {
                    *monomial.entry(atom.clone()).or_insert(0) += exponent;
                }
                let term = reduced(monomial, left_value * right_value)?;
                product = product.plus(&term)?;
            }
        }
        product.capped()
    }

    fn capped(self) -> Result<Self, NoForm> {
        let small = |value: &Rational| value.numer().bits() + value.denom().bits() < MAX_BITS;
        let fits = self.terms.len() <= MAX_TERMS && self.terms.values().all(small);
        fits.then_some(self).ok_or(NoForm)
    }

    fn power(&self, exponent: u32) -> Result<Self, NoForm> {
        if exponent > MAX_EXPONENT && self.as_constant().is_none() && self.terms.len() > 1 {
            return Err(NoForm);
        }
        let mut result = Self::constant(Rational::one());
        let mut square = self.clone();
        let mut left = exponent;
        while left > 0 {
            if left & 1 == 1 {
                result = result.times(&square)?;
            }
            left >>= 1;
            if left > 0 {
                square = square.times(&square)?;
            }
        }
        Ok(result)
    }

    /// Only symbols: nothing in it can vanish by an identity.
    fn is_free(&self) -> bool {
        self.terms.keys().flat_map(BTreeMap::keys).all(|atom| atom.starts_with(SYMBOL))
    }
}

/// What an atom's name begins with tells its rules.
const SYMBOL: char = '$';
const IMAGINARY: &str = "i";
/// `r:degree:radicand` with a whole radicand free of powers of that degree.
const ROOT: &str = "r:";

/// A term in which powers of `i` and of roots of whole numbers are worked out.
fn reduced(mut monomial: Monomial, mut value: Rational) -> Result<Polynomial, NoForm> {
    if let Some(exponent) = monomial.remove(IMAGINARY) {
        if exponent % 4 >= 2 {
            value = -value;
        }
        if exponent % 2 == 1 {
            monomial.insert(IMAGINARY.to_owned(), 1);
        }
    }
    let roots: Vec<(String, u32)> = monomial
        .iter()
        .filter(|(atom, _)| atom.starts_with(ROOT))
        .map(|(atom, exponent)| (atom.clone(), *exponent))
        .collect();
    for (atom, exponent) in roots {
        let mut parts = atom[ROOT.len()..].splitn(2, ':');
        let (Some(degree), Some(radicand)) = (parts.next(), parts.next()) else { continue };
        let (Ok(degree), Ok(radicand)) = (degree.parse::<u32>(), radicand.parse::<BigInt>()) else {
            continue;
        };
        if exponent >= degree {
            value *= Rational::from_integer(radicand.pow(exponent / degree));
            monomial.remove(&atom);
            if exponent % degree > 0 {
                monomial.insert(atom, exponent % degree);
            }
        }
    }
    merged_square_roots(monomial, value)
}

/// √2·√3 is √6: at most one square root is left in a term.
fn merged_square_roots(mut monomial: Monomial, mut value: Rational) -> Result<Polynomial, NoForm> {
    let prefix = format!("{ROOT}2:");
    let roots: Vec<String> =
        monomial.keys().filter(|atom| atom.starts_with(&prefix)).cloned().collect();
    if roots.len() > 1 {
        let mut radicand = BigInt::one();
        for atom in roots {
            monomial.remove(&atom);
            radicand *= atom[prefix.len()..].parse::<BigInt>().map_err(|_| NoForm)?;
        }
        let (outside, inside) = extract_root(&radicand, 2);
        value *= Rational::from_integer(outside);
        if !inside.is_one() {
            monomial.insert(format!("{prefix}{inside}"), 1);
        }
    }
    Polynomial::term(monomial, value).capped()
}

/// `n = outside^degree · inside`, for small prime factors; what is left stays inside.
fn extract_root(number: &BigInt, degree: u32) -> (BigInt, BigInt) {
    let mut outside = BigInt::one();
    let mut inside = BigInt::one();
    let mut rest = number.clone();
    let mut prime = 2_u32;
    while prime < 2_000 && rest > BigInt::one() {
        let mut count = 0;
        while rest.is_multiple_of(&BigInt::from(prime)) {
            rest /= prime;
            count += 1;
        }
        outside *= BigInt::from(prime).pow(count / degree);
        inside *= BigInt::from(prime).pow(count % degree);
        prime += if prime == 2 { 1 } else { 2 };
    }
    let root = rest.nth_root(degree);
    if root.clone().pow(degree) == rest {
        (outside * root, inside)
    } else {
        (outside, inside * rest)
    }
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
        let size = u32::try_from(exponent.unsigned_abs()).map_err(|_| NoForm)?;
        // A number's power is bounded by its bits, everything else by its terms.
        let bits = self.as_rational().map_or(0, |it| it.numer().bits() + it.denom().bits());
        if bits.saturating_mul(u64::from(size)) > MAX_BITS {
            return Err(NoForm);
        }
        let (above, below) = (self.above.power(size)?, self.below.power(size)?);
        if exponent >= 0 {
            return Ok(Self { above, below }.simplified());
        }
        if above.is_zero() {
            return Err(NoForm);
        }
        Ok(Self { above: below, below: above }.simplified())
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

fn polynomial_text(polynomial: &Polynomial) -> String {
    if polynomial.is_zero() {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (monomial, value) in polynomial.terms.iter().rev() {
        let sign = if value.is_negative() { "-" } else { "+" };
        if !text.is_empty() || sign == "-" {
            text.push_str(sign);
        }
        let size = value.abs();
        let mut parts = Vec::new();
        if monomial.is_empty() || !size.is_one() {
            parts.push(size.to_string());
        }
        for (atom, exponent) in monomial {
            let mut part = atom_text(atom);
            if *exponent > 1 {
                let _ = write!(part, "^{exponent}");
            }
            parts.push(part);
        }
        text.push_str(&parts.join("*"));
    }
    text
}

fn atom_text(atom: &str) -> String {
    if let Some(root) = atom.strip_prefix(ROOT)
        && let Some((degree, radicand)) = root.split_once(':')
    {
        return if degree == "2" {
            format!("sqrt({radicand})")
        } else {
            format!("root{degree}({radicand})")
        };
    }
    atom.trim_start_matches(SYMBOL).to_owned()
}

/// The normal form of `expression`.
///
/// # Errors
/// It is too large, or divides by zero.
pub(crate) fn normal_form(expression: &Expression) -> Result<Quotient, NoForm> {
    match expression {
        Expression::Number(number) => Ok(Quotient::constant(number.value.clone())),
        Expression::Symbol(name) => Ok(Quotient::atom(format!("{SYMBOL}{name}"))),
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
    let numerator = power.numer().to_i64().ok_or(NoForm)?;
    if power.is_integer() {
        return base_form.power(numerator);
    }
    let degree = power.denom().to_u32().filter(|it| *it <= 64).ok_or(NoForm)?;
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
    if radicand.bits() > 4_000 {
        return Err(NoForm);
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
        (true, _) => Err(NoForm),
    }
}

fn function_form(function: Function, arguments: &[Expression]) -> Result<Quotient, NoForm> {
    let forms: Result<Vec<Quotient>, NoForm> = arguments.iter().map(normal_form).collect();
    let forms = forms?;
    let values: Option<Vec<Rational>> = forms.iter().map(Quotient::as_rational).collect();
    if function == Function::Root {
        let degree = match forms.get(1) {
            None => 2,
            Some(degree) => {
                degree.as_rational().and_then(|it| it.to_integer().to_u32()).ok_or(NoForm)?
            }
        };
        let base = forms.first().ok_or(NoForm)?;
        return if (2..=64).contains(&degree) { root_form(base, degree) } else { Err(NoForm) };
    }
    if function == Function::Exp {
        let exponent = forms.first().ok_or(NoForm)?;
        if let Some(power) = exponent.as_rational().filter(|it| it.is_integer()) {
            return Quotient::atom("e".to_owned()).power(power.numer().to_i64().ok_or(NoForm)?);
        }
        return Ok(Quotient::atom(format!("(e)^({})", exponent.text())));
    }
    if let Some(value) = values.and_then(|values| on_rationals(function, &values)) {
        return Ok(Quotient::constant(value));
    }
    let texts: Vec<String> = forms.iter().map(Quotient::text).collect();
    Ok(Quotient::atom(format!("{function:?}({})", texts.join(","))))
}

/// The value of a function of rational numbers where it is rational and cheap.
fn on_rationals(function: Function, values: &[Rational]) -> Option<Rational> {
    let first = values.first()?;
    let whole = |value: &Rational| value.is_integer().then(|| value.numer().clone());
    let small = |value: &Rational| whole(value)?.to_u32().filter(|it| *it <= MAX_FACTORIAL);
    match function {
        Function::Abs => Some(first.abs()),
        Function::Floor => Some(first.floor()),
        Function::Ceiling => Some(first.ceil()),
        Function::Min => values.iter().min().cloned(),
        Function::Max => values.iter().max().cloned(),
        Function::Factorial => {
            let product = (1..=small(first)?).fold(BigInt::one(), |product, it| product * it);
            Some(Rational::from_integer(product))
        }
        Function::Binomial => {
            let (n, k) = (small(first)?, small(values.get(1)?)?);
            if k > n {
                return Some(Rational::zero());
            }
            let step = |product: BigInt, it: u32| product * (n - it) / (it + 1);
            Some(Rational::from_integer((0..k.min(n - k)).fold(BigInt::one(), step)))
        }
        Function::Gcd | Function::Lcm => {
            let mut whole_values = values.iter().map(whole);
            let start = whole_values.next()??;
            let combined = whole_values.try_fold(start, |sum, value| {
                let value = value?;
                Some(if function == Function::Gcd { sum.gcd(&value) } else { sum.lcm(&value) })
            });
            combined.map(Rational::from_integer)
        }
        Function::Log => {
            // log_b(b^n): a whole power of a whole base.
            if first.is_one() {
                return Some(Rational::zero());
            }
            let (number, base) = (whole(first)?, whole(values.get(1)?)?);
            if base < BigInt::from(2) {
                return None;
            }
            let mut power = BigInt::one();
            (0..=2_000_u32).find_map(|exponent| {
                let hit = power == number;
                power *= &base;
                hit.then(|| Rational::from_integer(exponent.into()))
            })
        }
        Function::Root
        | Function::Sin
        | Function::Cos
        | Function::Tan
        | Function::Cot
        | Function::Sec
        | Function::Csc
        | Function::Arcsin
        | Function::Arccos
        | Function::Arctan
        | Function::Sinh
        | Function::Cosh
        | Function::Tanh
        | Function::Exp => None,
    }
}

fn series_form(series: &crate::expression::Series) -> Result<Quotient, NoForm> {
    use crate::expression::SeriesKind;
    let (from, to) = (normal_form(&series.from)?, normal_form(&series.to)?);
    let bounds = from.as_rational().zip(to.as_rational());
    let Some((first, last)) = bounds.filter(|(a, b)| a.is_integer() && b.is_integer()) else {
        let body = normal_form(&series.body)?.text();
        let (from, to, index) = (from.text(), to.text(), &series.index);
        return Ok(Quotient::atom(format!("{:?}[{index}={from}..{to}]({body})", series.kind)));
    };
    let count =
        (last.numer() - first.numer()).to_i64().filter(|it| *it < MAX_SERIES).ok_or(NoForm)?;
    let mut total = Quotient::constant(match series.kind {
        SeriesKind::Sum => Rational::zero(),
        SeriesKind::Product => Rational::one(),
    });
    for offset in 0..=count {
        let value = Expression::integer(first.numer() + offset);
        let term = normal_form(&substituted(&series.body, &series.index, &value))?;
        total = match series.kind {
            SeriesKind::Sum => total.plus(&term)?,
            SeriesKind::Product => total.times(&term)?,
        };
    }
    Ok(total)
}

/// `expression` with `value` for the symbol `name`.
pub(crate) fn substituted(expression: &Expression, name: &str, value: &Expression) -> Expression {
    let all = |items: &[Expression]| items.iter().map(|it| substituted(it, name, value)).collect();
    match expression {
        Expression::Symbol(symbol) if symbol == name => value.clone(),
        Expression::Constant(Constant::I) if name == "i" => value.clone(),
        Expression::Number(_) | Expression::Symbol(_) | Expression::Constant(_) => {
            expression.clone()
        }
        Expression::Sum(terms) => Expression::Sum(all(terms)),
        Expression::Product(factors) => Expression::Product(all(factors)),
        Expression::Power(base, exponent) => {
            substituted(base, name, value).power(substituted(exponent, name, value))
        }
        Expression::Apply(function, arguments) => Expression::Apply(*function, all(arguments)),
        Expression::Call(call, arguments) => Expression::Call(call.clone(), all(arguments)),
        Expression::Series(series) => {
            let mut inner = series.as_ref().clone();
            inner.from = substituted(&inner.from, name, value);
            inner.to = substituted(&inner.to, name, value);
            if inner.index != name {
                inner.body = substituted(&inner.body, name, value);
            }
            Expression::Series(Box::new(inner))
        }
    }
}
