//! Polynomials over the rationals in named atoms, with powers of `i` and of roots worked out.
//!
//! Invariant: no term is zero; sizes are capped, and every product pays for its work.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{One as _, Pow as _, Signed as _, Zero as _};

use super::NoForm;
use crate::expression::Rational;
use crate::work;

/// Most terms of a polynomial.
const MAX_TERMS: usize = 600;
/// Largest exponent that is multiplied out.
const MAX_EXPONENT: u32 = 64;
/// Most bits of a coefficient.
pub(super) const MAX_BITS: u64 = 20_000;

/// A product of atoms with positive exponents.
pub(super) type Monomial = BTreeMap<String, u32>;

/// A polynomial in atoms: its terms without zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Polynomial {
    pub(super) terms: BTreeMap<Monomial, Rational>,
}

impl Polynomial {
    pub(super) fn constant(value: Rational) -> Self {
        Self::term(Monomial::new(), value)
    }

    pub(super) fn term(monomial: Monomial, value: Rational) -> Self {
        let mut terms = BTreeMap::new();
        if !value.is_zero() {
            terms.insert(monomial, value);
        }
        Self { terms }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn as_constant(&self) -> Option<Rational> {
        match self.terms.len() {
            0 => Some(Rational::zero()),
            1 => self.terms.get(&Monomial::new()).cloned(),
            _ => None,
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Result<Self, NoForm> {
        let mut sum = self.clone();
        for (monomial, value) in &other.terms {
            let words = (bits(value) + sum.terms.get(monomial).map_or(0, bits)) / 64;
            if !work::pay(2 + words * words / 3) {
                return Err(NoForm::TooLarge);
            }
            sum.add(monomial.clone(), value.clone());
        }
        sum.capped()
    }

    pub(super) fn times(&self, other: &Self) -> Result<Self, NoForm> {
        if self.terms.len() * other.terms.len() > MAX_TERMS * 4 {
            return Err(NoForm::TooLarge);
        }
        let mut product = Self::default();
        for (left, left_value) in &self.terms {
            for (right, right_value) in &other.terms {
                let words = bits(left_value).max(bits(right_value)) / 64;
                if !work::pay(3 + words * words / 3) {
                    return Err(NoForm::TooLarge);
                }
                let mut monomial = left.clone();
                for (atom, exponent) in right {
                    *monomial.entry(atom.clone()).or_insert(0) += exponent;
                }
                let (monomial, value) = reduced(monomial, left_value * right_value)?;
                product.add(monomial, value);
            }
        }
        product.capped()
    }

    fn add(&mut self, monomial: Monomial, value: Rational) {
        match self.terms.entry(monomial) {
            Entry::Vacant(place) => {
                if !value.is_zero() {
                    place.insert(value);
                }
            }
            Entry::Occupied(mut place) => {
                *place.get_mut() += value;
                if place.get().is_zero() {
                    place.remove();
                }
            }
        }
    }

    fn capped(self) -> Result<Self, NoForm> {
        let fits =
            self.terms.len() <= MAX_TERMS && self.terms.values().all(|it| bits(it) < MAX_BITS);
        fits.then_some(self).ok_or(NoForm::TooLarge)
    }

    pub(super) fn power(&self, exponent: u32) -> Result<Self, NoForm> {
        if exponent > MAX_EXPONENT && self.as_constant().is_none() && self.terms.len() > 1 {
            return Err(NoForm::TooLarge);
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
    pub(super) fn is_free(&self) -> bool {
        self.terms.keys().flat_map(BTreeMap::keys).all(|atom| atom.starts_with(SYMBOL))
    }
}

/// What an atom's name begins with tells its rules.
pub(super) const SYMBOL: char = '$';
/// The imaginary unit's name.
pub(super) const IMAGINARY: &str = "i";
/// `r:degree:radicand` with a whole radicand free of powers of that degree.
pub(super) const ROOT: &str = "r:";

/// A term in which powers of `i` and of roots of whole numbers are worked out.
fn reduced(mut monomial: Monomial, mut value: Rational) -> Result<(Monomial, Rational), NoForm> {
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
fn merged_square_roots(
    mut monomial: Monomial,
    mut value: Rational,
) -> Result<(Monomial, Rational), NoForm> {
    let prefix = format!("{ROOT}2:");
    let roots: Vec<String> =
        monomial.keys().filter(|atom| atom.starts_with(&prefix)).cloned().collect();
    if roots.len() > 1 {
        let mut radicand = BigInt::one();
        for atom in roots {
            monomial.remove(&atom);
            radicand *= atom[prefix.len()..].parse::<BigInt>().map_err(|_| NoForm::TooLarge)?;
        }
        let (outside, inside) = extract_root(&radicand, 2);
        value *= Rational::from_integer(outside);
        if !inside.is_one() {
            monomial.insert(format!("{prefix}{inside}"), 1);
        }
    }
    Ok((monomial, value))
}

/// Size of a number.
pub(super) fn bits(value: &Rational) -> u64 {
    value.numer().bits() + value.denom().bits()
}

/// `n = outside^degree · inside`, for small prime factors; what is left stays inside.
pub(super) fn extract_root(number: &BigInt, degree: u32) -> (BigInt, BigInt) {
    let mut outside = BigInt::one();
    let mut inside = BigInt::one();
    let mut rest = number.clone();
    let mut prime = 2_u32;
    // Past the square of the prime, what is left is prime itself.
    while prime < 2_000 && BigInt::from(prime * prime) <= rest {
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

/// As text, terms in a fixed order.
pub(super) fn polynomial_text(polynomial: &Polynomial) -> String {
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
