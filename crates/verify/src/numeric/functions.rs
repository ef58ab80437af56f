//! Values of functions, of unknown functions, and of sums over a range.
//!
//! Invariant: a function gives a value only where it is defined and cheap.

use astro_float_num::BigFloat;

use super::{Complex, MAX_ANGLE_BITS, Machine, ROUND, to_f64};
use crate::expression::{Expression, Function, Series, SeriesKind};
use crate::work;

impl Machine {
    pub(super) fn apply(
        &mut self,
        function: Function,
        arguments: &[Expression],
    ) -> Option<Complex> {
        self.operations += 20;
        if !work::pay(200) {
            return None;
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.evaluate(argument)?);
        }
        let first = values.first()?.clone();
        match function {
            Function::Root => self.root(&first, values.get(1)),
            Function::Log => {
                let logarithm = self.logarithm(&first)?;
                match values.get(1) {
                    None => Some(logarithm),
                    Some(base) => {
                        let base = self.logarithm(base)?;
                        let inverse = self.inverted(&base)?;
                        Some(self.multiply(&logarithm, &inverse))
                    }
                }
            }
            Function::Exp => self.exponential(&first),
            Function::Abs => {
                let square = |it: &BigFloat| it.mul(it, self.precision, ROUND);
                let norm =
                    square(&first.real).add(&square(&first.imaginary), self.precision, ROUND);
                Some(self.as_complex(norm.sqrt(self.precision, ROUND)))
            }
            _ if values.iter().all(Complex::is_real) => {
                let reals: Vec<BigFloat> = values.into_iter().map(|it| it.real).collect();
                let value = self.real_function(function, &reals)?;
                Some(self.as_complex(value))
            }
            _ => None,
        }
    }

    fn root(&mut self, value: &Complex, degree: Option<&Complex>) -> Option<Complex> {
        let p = self.precision;
        let Some(degree) = degree else {
            if value.is_real() {
                let size = value.real.abs().sqrt(p, ROUND);
                let zero = BigFloat::from_f64(0.0, p);
                return Some(if value.real.is_negative() {
                    Complex { real: zero, imaginary: size }
                } else {
                    self.as_complex(size)
                });
            }
            let half = self.real(0.5);
            return self.power(value, &half);
        };
        let inverse = self.inverted(degree)?;
        let whole = to_f64(&degree.real)?;
        // Odd roots of negative numbers are read as real.
        if value.is_real() && value.real.is_negative() && whole.rem_euclid(2.0) == 1.0 {
            let positive = self.as_complex(value.real.neg());
            let root = self.power(&positive, &inverse)?;
            return Some(self.scaled(&root, &BigFloat::from_f64(-1.0, p)));
        }
        self.power(value, &inverse)
    }

    fn real_function(&mut self, function: Function, values: &[BigFloat]) -> Option<BigFloat> {
        let p = self.precision;
        let first = values.first()?;
        // To bring a large angle into one turn takes as many digits of π as it has.
        if first.exponent().is_some_and(|it| it > MAX_ANGLE_BITS) {
            return None;
        }
        let c = &mut self.constants;
        Some(match function {
            Function::Sin => first.sin(p, ROUND, c),
            Function::Cos => first.cos(p, ROUND, c),
            Function::Tan => first.tan(p, ROUND, c),
            Function::Cot => first.tan(p, ROUND, c).reciprocal(p, ROUND),
            Function::Sec => first.cos(p, ROUND, c).reciprocal(p, ROUND),
            Function::Csc => first.sin(p, ROUND, c).reciprocal(p, ROUND),
            Function::Arcsin => first.asin(p, ROUND, c),
            Function::Arccos => first.acos(p, ROUND, c),
            Function::Arctan => first.atan(p, ROUND, c),
            Function::Sinh => first.sinh(p, ROUND, c),
            Function::Cosh => first.cosh(p, ROUND, c),
            Function::Tanh => first.tanh(p, ROUND, c),
            Function::Floor => first.floor(),
            Function::Ceiling => first.ceil(),
            Function::Min => values.iter().skip(1).fold(first.clone(), |it, other| it.min(other)),
            Function::Max => values.iter().skip(1).fold(first.clone(), |it, other| it.max(other)),
            Function::Factorial => {
                let whole =
                    to_f64(first).filter(|it| (0.0..=170.0).contains(it) && it.fract() == 0.0)?;
                let step =
                    |product: BigFloat, it| product.mul(&BigFloat::from_i64(it, p), p, ROUND);
                (1..=whole as i64).fold(BigFloat::from_f64(1.0, p), step)
            }
            Function::Binomial => {
                let k = to_f64(values.get(1)?)
                    .filter(|it| (0.0..=200.0).contains(it) && it.fract() == 0.0)?;
                let mut product = BigFloat::from_f64(1.0, p);
                for index in 0..k as i64 {
                    let above = first.sub(&BigFloat::from_i64(index, p), p, ROUND);
                    product = product.mul(&above, p, ROUND);
                    product = product.div(&BigFloat::from_i64(index + 1, p), p, ROUND);
                }
                product
            }
            Function::Root
            | Function::Log
            | Function::Exp
            | Function::Abs
            | Function::Gcd
            | Function::Lcm => return None,
        })
    }

    /// An unknown function has a seeded value for each list of arguments, the same for equal lists.
    pub(super) fn call(&mut self, name: &str, arguments: &[Expression]) -> Option<Complex> {
        let mut weight = self.symbol(name);
        for (index, argument) in arguments.iter().enumerate() {
            let value = self.evaluate(argument)?;
            let factor = self.symbol(&format!("{name}#{index}"));
            let product = self.multiply(&value, &factor);
            weight = self.add(&weight, &product);
            weight = self.multiply(&weight, &weight);
        }
        Some(weight)
    }

    pub(super) fn series(&mut self, series: &Series) -> Option<Complex> {
        let (from, to) = (self.evaluate(&series.from)?, self.evaluate(&series.to)?);
        if !from.is_real() || !to.is_real() || !from.real.is_int() || !to.real.is_int() {
            return None;
        }
        let first = to_f64(&from.real)? as i64;
        let last = to_f64(&to.real)? as i64;
        if last.checked_sub(first)? > 500 {
            return None;
        }
        let mut total = self.real(if series.kind == SeriesKind::Sum { 0.0 } else { 1.0 });
        for index in first..=last {
            let value = self.as_complex(BigFloat::from_i64(index, self.precision));
            self.indices.push((series.index.clone(), value));
            let term = self.evaluate(&series.body);
            self.indices.pop();
            let term = term?;
            total = match series.kind {
                SeriesKind::Sum => self.add(&total, &term),
                SeriesKind::Product => self.multiply(&total, &term),
            };
        }
        Some(total)
    }
}
