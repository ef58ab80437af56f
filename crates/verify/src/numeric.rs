//! Equality by value: both sides computed to many digits at seeded points.
//!
//! Each side is computed twice, with different precision; how far the two results lie apart bounds
//! the error, since rounding is all that differs. Two values are different if they are further apart
//! than their errors explain, and equal if they agree to [`AGREEING_BITS`] bits at every point.
//!
//! Invariant: a difference is only reported where it is larger than the error; agreement at seeded
//! points is no proof, but an accident would need an expression made for these points.

mod elementary;
mod functions;

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign};
use num_bigint::BigInt;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};

use crate::exact::normal_form;
use crate::expression::{Constant, Expression, Function, Rational};
use crate::work;

/// Precisions of the two computations, in bits.
const PRECISIONS: [usize; 2] = [192, 320];
/// Bits to which equal values agree, relative to the size of what was added up.
const AGREEING_BITS: i32 = 120;
/// Points that are tried where there are symbols, and how many of them must give a value.
const POINTS: u64 = 10;
const ENOUGH_POINTS: usize = 3;
/// Operations of one comparison, all points together.
const MAX_OPERATIONS: usize = 20_000;
/// Largest argument of a function, in bits.
const MAX_ANGLE_BITS: i32 = 256;
const ROUND: RoundingMode = RoundingMode::ToEven;

/// What the numbers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numeric {
    /// They agree at every point.
    Equal,
    /// They differ at a point, by more than the error.
    Different,
    /// No point gave values on both sides, or it took too long.
    Unknown,
}

/// Compares two expressions by value.
pub(crate) fn compare(left: &Expression, right: &Expression) -> Numeric {
    let Some(mut machine) = Machine::new() else { return Numeric::Unknown };
    let mut symbols = Vec::new();
    collect_symbols(left, &mut symbols);
    collect_symbols(right, &mut symbols);
    machine.whole_symbols = counts(left) || counts(right);
    let (points, enough) = if symbols.is_empty() { (1, 1) } else { (POINTS, ENOUGH_POINTS) };
    let mut agreeing = 0;
    for point in 0..points {
        machine.point = point;
        match machine.agree(left, right) {
            Some(true) => agreeing += 1,
            Some(false) => return Numeric::Different,
            None => {}
        }
    }
    if agreeing >= enough { Numeric::Equal } else { Numeric::Unknown }
}

/// The value of a constant real expression, rounded to `f64` for order and display.
pub(crate) fn approximate(expression: &Expression) -> Option<f64> {
    let mut symbols = Vec::new();
    collect_symbols(expression, &mut symbols);
    if !symbols.is_empty() {
        return None;
    }
    if let Some(value) = normal_form(expression).ok().and_then(|form| form.as_rational()) {
        let (above, below) = (value.numer().to_f64()?, value.denom().to_f64()?);
        return Some(above / below).filter(|it| it.is_finite());
    }
    let mut machine = Machine::new()?;
    let value = machine.evaluate(expression)?;
    value.imaginary.is_zero().then(|| to_f64(&value.real))?
}

/// `|left − right| ≤ tolerance` for constant real expressions, `None` where that isn't known.
pub(crate) fn within(left: &Expression, right: &Expression, tolerance: &Rational) -> Option<bool> {
    let difference =
        Expression::Sum(vec![left.clone(), right.clone().negated(), Expression::integer(0)]);
    let mut symbols = Vec::new();
    collect_symbols(&difference, &mut symbols);
    let mut machine = Machine::new().filter(|_| symbols.is_empty())?;
    let value = machine.evaluate(&difference)?;
    if !negligible(&value.imaginary, &BigFloat::from_f64(1.0, 64)) {
        return Some(false);
    }
    let bound = machine.rational(tolerance);
    Some(value.real.abs().cmp(&bound)? <= 0)
}

fn collect_symbols<'e>(expression: &'e Expression, symbols: &mut Vec<&'e str>) {
    match expression {
        Expression::Symbol(name) => symbols.push(name),
        Expression::Call(name, arguments) => {
            symbols.push(name);
            arguments.iter().for_each(|it| collect_symbols(it, symbols));
        }
        Expression::Number(_) | Expression::Constant(_) => {}
        Expression::Sum(items) | Expression::Product(items) | Expression::Apply(_, items) => {
            items.iter().for_each(|it| collect_symbols(it, symbols));
        }
        Expression::Power(base, exponent) => {
            collect_symbols(base, symbols);
            collect_symbols(exponent, symbols);
        }
        Expression::Series(series) => {
            collect_symbols(&series.from, symbols);
            collect_symbols(&series.to, symbols);
            let mut inner = Vec::new();
            collect_symbols(&series.body, &mut inner);
            symbols.extend(inner.into_iter().filter(|name| *name != series.index));
        }
    }
}

/// Whether a symbol stands where only whole numbers make sense: in a factorial, a binomial
/// coefficient, a bound of a sum.
fn counts(expression: &Expression) -> bool {
    let has_symbol = |it: &Expression| {
        let mut symbols = Vec::new();
        collect_symbols(it, &mut symbols);
        !symbols.is_empty()
    };
    match expression {
        Expression::Number(_) | Expression::Symbol(_) | Expression::Constant(_) => false,
        Expression::Sum(items) | Expression::Product(items) | Expression::Call(_, items) => {
            items.iter().any(counts)
        }
        Expression::Power(base, exponent) => counts(base) || counts(exponent),
        Expression::Apply(function, items) => {
            let whole = matches!(function, Function::Factorial | Function::Binomial);
            whole && items.iter().any(has_symbol) || items.iter().any(counts)
        }
        Expression::Series(series) => {
            has_symbol(&series.from) || has_symbol(&series.to) || counts(&series.body)
        }
    }
}

fn to_f64(value: &BigFloat) -> Option<f64> {
    if value.is_zero() {
        return Some(0.0);
    }
    let (words, _, sign, exponent, _) = value.as_raw_parts()?;
    // The mantissa is a fraction in [½, 1), its highest word last.
    let mut size = 0.0;
    for (index, word) in words.iter().rev().take(3).enumerate() {
        size += *word as f64 * f64::powi(2.0, -64 * (index as i32 + 1));
    }
    size *= f64::powi(2.0, exponent.clamp(-1100, 1100));
    let size = if sign == Sign::Neg { -size } else { size };
    size.is_finite().then_some(size)
}

/// Smaller than agreeing values of `scale` may differ.
fn negligible(value: &BigFloat, scale: &BigFloat) -> bool {
    value.is_zero()
        || match (value.exponent(), scale.exponent()) {
            (Some(value), Some(scale)) => value <= scale.saturating_sub(AGREEING_BITS),
            _ => false,
        }
}

#[derive(Debug, Clone)]
struct Complex {
    real: BigFloat,
    imaginary: BigFloat,
}

impl Complex {
    fn is_usable(&self) -> bool {
        let finite = |it: &BigFloat| !it.is_nan() && !it.is_inf();
        finite(&self.real) && finite(&self.imaginary)
    }

    fn is_real(&self) -> bool {
        self.imaginary.is_zero()
    }

    fn is_zero(&self) -> bool {
        self.real.is_zero() && self.imaginary.is_zero()
    }
}

struct Machine {
    constants: Consts,
    precision: usize,
    point: u64,
    operations: usize,
    /// Symbols are whole and positive, since something counts with them.
    whole_symbols: bool,
    /// The largest value that was added up, which errors are measured by.
    scale: BigFloat,
    /// Values of the indices of the sums around.
    indices: Vec<(String, Complex)>,
}

impl Machine {
    fn new() -> Option<Self> {
        Some(Self {
            constants: Consts::new().ok()?,
            precision: PRECISIONS[0],
            point: 0,
            operations: 0,
            whole_symbols: false,
            scale: BigFloat::from_f64(0.0, 64),
            indices: Vec::new(),
        })
    }

    /// Whether both sides agree at this point; `None` where one has no value there.
    fn agree(&mut self, left: &Expression, right: &Expression) -> Option<bool> {
        let mut values = Vec::new();
        let mut scales = Vec::new();
        for precision in PRECISIONS {
            self.precision = precision;
            self.scale = BigFloat::from_f64(0.0, 64);
            values.push((self.evaluate(left)?, self.evaluate(right)?));
            scales.push(self.scale.clone());
        }
        let [(left_rough, right_rough), (left, right)] = values.as_slice() else { return None };
        let apart = self.distance(left, right);
        let error = self.distance(left, left_rough);
        let error = error.add(&self.distance(right, right_rough), 64, ROUND);
        let size = self.size(left).max(&self.size(right));
        if negligible(&apart, &size) || (negligible(&apart, &scales[1]) && apart.cmp(&error)? <= 0)
        {
            return Some(true);
        }
        // Well beyond the error, or nothing is known.
        let bound = error.mul(&BigFloat::from_f64(1024.0, 64), 64, ROUND);
        if apart.cmp(&bound)? <= 0 {
            return None;
        }
        // Branches of roots and logarithms differ off the real line; that decides nothing.
        let real = |value: &Complex| negligible(&value.imaginary, &size);
        let on_line = (real(left) && real(right)) || self.point == 0 || real(left) != real(right);
        on_line.then_some(false)
    }

    fn distance(&self, left: &Complex, right: &Complex) -> BigFloat {
        let precision = self.precision;
        let real = left.real.sub(&right.real, precision, ROUND).abs();
        real.add(&left.imaginary.sub(&right.imaginary, precision, ROUND).abs(), 64, ROUND)
    }

    fn size(&self, value: &Complex) -> BigFloat {
        value.real.abs().add(&value.imaginary.abs(), 64, ROUND)
    }

    fn evaluate(&mut self, expression: &Expression) -> Option<Complex> {
        self.operations += 1;
        if self.operations > MAX_OPERATIONS || !work::pay(3) {
            return None;
        }
        let value = match expression {
            Expression::Number(number) => self.real_rational(&number.value),
            Expression::Symbol(name) => self.symbol(name),
            Expression::Constant(constant) => self.constant(*constant)?,
            Expression::Sum(terms) => {
                let mut sum = self.real(0.0);
                for term in terms {
                    let value = self.evaluate(term)?;
                    self.scale = self.scale.max(&self.size(&value));
                    sum = self.add(&sum, &value);
                }
                sum
            }
            Expression::Product(factors) => {
                let mut product = self.real(1.0);
                for factor in factors {
                    let value = self.evaluate(factor)?;
                    product = self.multiply(&product, &value);
                }
                product
            }
            Expression::Power(base, exponent) => {
                let (base, exponent) = (self.evaluate(base)?, self.evaluate(exponent)?);
                self.power(&base, &exponent)?
            }
            Expression::Apply(function, arguments) => self.apply(*function, arguments)?,
            Expression::Call(name, arguments) => self.call(name, arguments)?,
            Expression::Series(series) => self.series(series)?,
        };
        value.is_usable().then_some(value)
    }

    fn real(&self, value: f64) -> Complex {
        self.as_complex(BigFloat::from_f64(value, self.precision))
    }

    fn as_complex(&self, real: BigFloat) -> Complex {
        Complex { real, imaginary: BigFloat::from_f64(0.0, self.precision) }
    }

    fn real_rational(&mut self, value: &Rational) -> Complex {
        let real = self.rational(value);
        self.as_complex(real)
    }

    fn rational(&mut self, value: &Rational) -> BigFloat {
        let (above, below) = (self.integer(value.numer()), self.integer(value.denom()));
        above.div(&below, self.precision, ROUND)
    }

    fn integer(&mut self, value: &BigInt) -> BigFloat {
        let precision = self.precision;
        if let Some(small) = value.to_i64() {
            return BigFloat::from_i64(small, precision);
        }
        let text = value.to_string();
        BigFloat::parse(&text, astro_float_num::Radix::Dec, precision, ROUND, &mut self.constants)
    }

    /// A symbol's value at this point: positive at first, later of both signs.
    fn symbol(&mut self, name: &str) -> Complex {
        if let Some((_, value)) = self.indices.iter().rev().find(|(index, _)| index == name) {
            return value.clone();
        }
        let bits = seeded(name, self.point);
        if self.whole_symbols {
            return self.real((2 + bits % 19) as f64);
        }
        // A fraction that no short expression is made for, in (0.3, 3.3).
        let size = 0.3 + 3.0 * ((bits >> 12) as f64 / (1_u64 << 52) as f64);
        let negative = self.point >= 5 && bits & 1 == 1;
        self.real(if negative { -size } else { size })
    }

    fn constant(&mut self, constant: Constant) -> Option<Complex> {
        if !work::pay(20) {
            return None;
        }
        let precision = self.precision;
        let value = match constant {
            Constant::Pi => self.constants.pi(precision, ROUND),
            Constant::E => self.constants.e(precision, ROUND),
            Constant::I => {
                let one = BigFloat::from_f64(1.0, precision);
                return Some(Complex { real: BigFloat::from_f64(0.0, precision), imaginary: one });
            }
            Constant::Infinity => return None,
        };
        Some(self.as_complex(value))
    }

    fn add(&self, left: &Complex, right: &Complex) -> Complex {
        Complex {
            real: left.real.add(&right.real, self.precision, ROUND),
            imaginary: left.imaginary.add(&right.imaginary, self.precision, ROUND),
        }
    }

    fn multiply(&self, left: &Complex, right: &Complex) -> Complex {
        let p = self.precision;
        if left.is_real() && right.is_real() {
            return self.as_complex(left.real.mul(&right.real, p, ROUND));
        }
        let product = |a: &BigFloat, b: &BigFloat| a.mul(b, p, ROUND);
        let (a, b, c, d) = (&left.real, &left.imaginary, &right.real, &right.imaginary);
        Complex {
            real: product(a, c).sub(&product(b, d), p, ROUND),
            imaginary: product(a, d).add(&product(b, c), p, ROUND),
        }
    }

    fn scaled(&self, value: &Complex, factor: &BigFloat) -> Complex {
        Complex {
            real: value.real.mul(factor, self.precision, ROUND),
            imaginary: value.imaginary.mul(factor, self.precision, ROUND),
        }
    }

    fn inverted(&self, value: &Complex) -> Option<Complex> {
        if value.is_zero() {
            return None;
        }
        let p = self.precision;
        if value.is_real() {
            return Some(self.as_complex(value.real.reciprocal(p, ROUND)));
        }
        let square = |it: &BigFloat| it.mul(it, p, ROUND);
        let norm = square(&value.real).add(&square(&value.imaginary), p, ROUND);
        let conjugate = Complex { real: value.real.clone(), imaginary: value.imaginary.neg() };
        Some(self.scaled(&conjugate, &norm.reciprocal(p, ROUND)))
    }
}

/// Bits that depend on a name and a point alone.
pub(crate) fn seeded(name: &str, point: u64) -> u64 {
    // FNV-1a over the name, then the finaliser of SplitMix64.
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ point.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = name
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Whether a rational is zero or has a sign; kept here so that callers need no number traits.
pub(crate) fn sign(value: &Rational) -> std::cmp::Ordering {
    if value.is_zero() {
        std::cmp::Ordering::Equal
    } else if value.is_positive() {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Less
    }
}
