//! Powers, logarithms and exponentials of complex numbers, on the principal branch.

use astro_float_num::{BigFloat, Sign};

use super::{Complex, MAX_ANGLE_BITS, Machine, ROUND, to_f64};
use crate::work;

impl Machine {
    pub(super) fn power(&mut self, base: &Complex, exponent: &Complex) -> Option<Complex> {
        if exponent.is_real() && exponent.real.is_int() {
            let whole = to_f64(&exponent.real)?;
            if whole.abs() <= 1024.0 {
                return self.whole_power(base, whole as i64);
            }
        }
        if base.is_zero() {
            return exponent.real.is_positive().then(|| self.real(0.0));
        }
        if !work::pay(400) {
            return None;
        }
        let logarithm = self.logarithm(base)?;
        let product = self.multiply(&logarithm, exponent);
        self.exponential(&product)
    }

    fn whole_power(&mut self, base: &Complex, exponent: i64) -> Option<Complex> {
        let mut result = self.real(1.0);
        let mut square = base.clone();
        let mut left = exponent.unsigned_abs();
        while left > 0 {
            if left & 1 == 1 {
                result = self.multiply(&result, &square);
            }
            square = self.multiply(&square, &square);
            left >>= 1;
        }
        if exponent < 0 { self.inverted(&result) } else { Some(result) }
    }

    pub(super) fn logarithm(&mut self, value: &Complex) -> Option<Complex> {
        if value.is_zero() {
            return None;
        }
        let p = self.precision;
        if value.is_real() {
            let real = value.real.abs().ln(p, ROUND, &mut self.constants);
            let imaginary = if value.real.is_negative() {
                self.constants.pi(p, ROUND)
            } else {
                BigFloat::from_f64(0.0, p)
            };
            return Some(Complex { real, imaginary });
        }
        let square = |it: &BigFloat| it.mul(it, p, ROUND);
        let norm = square(&value.real).add(&square(&value.imaginary), p, ROUND);
        let half = BigFloat::from_f64(0.5, p);
        let real = norm.ln(p, ROUND, &mut self.constants).mul(&half, p, ROUND);
        Some(Complex { real, imaginary: self.angle(value) })
    }

    /// The argument of a complex number, in (−π, π].
    fn angle(&mut self, value: &Complex) -> BigFloat {
        let p = self.precision;
        let pi = self.constants.pi(p, ROUND);
        if value.real.is_zero() {
            let half = pi.mul(&BigFloat::from_f64(0.5, p), p, ROUND);
            return if value.imaginary.is_negative() { half.neg() } else { half };
        }
        let ratio = value.imaginary.div(&value.real, p, ROUND);
        let angle = ratio.atan(p, ROUND, &mut self.constants);
        match (value.real.sign(), value.imaginary.sign()) {
            (Some(Sign::Neg), Some(Sign::Neg)) => angle.sub(&pi, p, ROUND),
            (Some(Sign::Neg), _) => angle.add(&pi, p, ROUND),
            _ => angle,
        }
    }

    pub(super) fn exponential(&mut self, value: &Complex) -> Option<Complex> {
        // Beyond this the result is of no use and takes long.
        let large = |it: &BigFloat, bits| it.exponent().is_some_and(|it| it > bits);
        if large(&value.real, 16) || large(&value.imaginary, MAX_ANGLE_BITS) {
            return None;
        }
        let p = self.precision;
        let size = value.real.exp(p, ROUND, &mut self.constants);
        if value.is_real() {
            return Some(self.as_complex(size));
        }
        let direction = Complex {
            real: value.imaginary.cos(p, ROUND, &mut self.constants),
            imaginary: value.imaginary.sin(p, ROUND, &mut self.constants),
        };
        Some(self.scaled(&direction, &size))
    }
}
