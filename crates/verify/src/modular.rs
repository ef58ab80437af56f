//! Equality of rational expressions too large to multiply out: their values modulo two primes.
//!
//! Numbers, symbols, sums, products and whole powers have a value modulo a prime at any point where
//! nothing divides by zero. Two rational functions that differ at one such point are different, with
//! no doubt. Two that agree at every point but are not the same would have to meet a zero of their
//! difference each time, which at most `degree` of the 2⁶¹ points are.
//!
//! Invariant: everything else (roots, functions, constants such as π) has no value here.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{Signed as _, ToPrimitive as _};

use crate::exact::normal_form;
use crate::expression::{Expression, Rational};
use crate::numeric::seeded;
use crate::work;

/// 2⁶¹ − 1 and 2⁶¹ − 31, both prime.
const PRIMES: [u64; 2] = [(1 << 61) - 1, (1 << 61) - 31];
/// Points for each prime; all of them need a value.
const POINTS: u64 = 3;

/// Whether both sides are the same rational function; nothing where one is none, or is undefined.
pub(crate) fn compare(left: &Expression, right: &Expression) -> Option<bool> {
    for prime in PRIMES {
        for point in 0..POINTS {
            let field = Field { prime, point };
            if field.value(left)? != field.value(right)? {
                return Some(false);
            }
        }
    }
    Some(true)
}

struct Field {
    prime: u64,
    point: u64,
}

impl Field {
    fn value(&self, expression: &Expression) -> Option<u64> {
        if !work::pay(4) {
            return None;
        }
        match expression {
            Expression::Number(number) => self.rational(&number.value),
            Expression::Symbol(name) => Some(seeded(name, self.point) % self.prime),
            Expression::Sum(terms) => terms.iter().try_fold(0, |sum, term| {
                let term = self.value(term)?;
                Some((sum + term) % self.prime)
            }),
            Expression::Product(factors) => factors.iter().try_fold(1, |product, factor| {
                let factor = self.value(factor)?;
                Some(self.times(product, factor))
            }),
            Expression::Power(base, exponent) => self.power(base, exponent),
            Expression::Constant(_)
            | Expression::Apply(..)
            | Expression::Call(..)
            | Expression::Series(_) => None,
        }
    }

    fn power(&self, base: &Expression, exponent: &Expression) -> Option<u64> {
        let exponent = normal_form(exponent).ok()?.as_rational()?;
        let base = self.value(base)?;
        if !exponent.is_integer() {
            return None;
        }
        if base == 0 {
            return exponent.is_positive().then_some(0);
        }
        // The order of the group: a negative exponent is a large positive one.
        let order = BigInt::from(self.prime - 1);
        let mut left = exponent.numer().mod_floor(&order).to_u64()?;
        let (mut result, mut square) = (1, base);
        while left > 0 {
            if left & 1 == 1 {
                result = self.times(result, square);
            }
            square = self.times(square, square);
            left >>= 1;
        }
        Some(result)
    }

    fn rational(&self, value: &Rational) -> Option<u64> {
        let prime = BigInt::from(self.prime);
        let above = value.numer().mod_floor(&prime).to_u64()?;
        let below = value.denom().mod_floor(&prime).to_u64()?;
        if below == 1 {
            return Some(above);
        }
        if below == 0 {
            return None;
        }
        let inverse = BigInt::from(below).modpow(&(prime.clone() - 2), &prime).to_u64()?;
        Some(self.times(above, inverse))
    }

    const fn times(&self, left: u64, right: u64) -> u64 {
        ((left as u128 * right as u128) % self.prime as u128) as u64
    }
}
