//! Equality by value: both sides computed to many digits at seeded points.
//!
//! Each side is computed twice, with different precision; how far the two results lie apart bounds
//! the error, since rounding is all that differs. Two values are different if they are further apart
//! than their errors explain, and equal if they agree to [`AGREEING_BITS`] bits at every point.
//!
//! Invariant: a difference is only reported where it is larger than the error; agreement at seeded
//! points is no proof, but an accident would need an expression made for these points.

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign};
use num_bigint::BigInt;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};

use crate::expression::{Constant, Expression, Function, Rational, Series, SeriesKind};

/// Precisions of the two computations, in bits.
const PRECISIONS: [usize; 2] = [192, 320];
/// Bits to which equal values agree, relative to the size of what was added up.
const AGREEING_BITS: i32 = 120;
/// Points that are tried where there are symbols, and how many of them must give a value.
const POINTS: u64 = 10;
const ENOUGH_POINTS: usize = 3;
/// Operations of one comparison, all points together.
const MAX_OPERATIONS: usize = 20_000;
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
    let mut machine = Machine::new()?;
    let value = machine.evaluate(expression)?;
    value.imaginary.is_zero().then(|| to_f64(&value.real, &mut machine.constants))?
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

fn to_f64(value: &BigFloat, constants: &mut Consts) -> Option<f64> {
    if value.is_zero() {
        return Some(0.0);
    }
    value.format(astro_float_num::Radix::Dec, ROUND, constants).ok()?.parse().ok()
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
        if self.operations > MAX_OPERATIONS {
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
        self.from_real(BigFloat::from_f64(value, self.precision))
    }

    fn from_real(&self, real: BigFloat) -> Complex {
        Complex { real, imaginary: BigFloat::from_f64(0.0, self.precision) }
    }

    fn real_rational(&mut self, value: &Rational) -> Complex {
        let real = self.rational(value);
        self.from_real(real)
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
        // A fraction that no short expression is made for, in (0.3, 3.3).
        let size = 0.3 + 3.0 * ((bits >> 12) as f64 / (1_u64 << 52) as f64);
        let negative = self.point >= 5 && bits & 1 == 1;
        self.real(if negative { -size } else { size })
    }

    fn constant(&mut self, constant: Constant) -> Option<Complex> {
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
        Some(self.from_real(value))
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
            return self.from_real(left.real.mul(&right.real, p, ROUND));
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
            return Some(self.from_real(value.real.reciprocal(p, ROUND)));
        }
        let square = |it: &BigFloat| it.mul(it, p, ROUND);
        let norm = square(&value.real).add(&square(&value.imaginary), p, ROUND);
        let conjugate = Complex { real: value.real.clone(), imaginary: value.imaginary.neg() };
        Some(self.scaled(&conjugate, &norm.reciprocal(p, ROUND)))
    }

    fn power(&mut self, base: &Complex, exponent: &Complex) -> Option<Complex> {
        if exponent.is_real() && exponent.real.is_int() {
            let whole = to_f64(&exponent.real, &mut self.constants)?;
            if whole.abs() <= 1024.0 {
                return self.whole_power(base, whole as i64);
            }
        }
        if base.is_zero() {
            return exponent.real.is_positive().then(|| self.real(0.0));
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

    fn logarithm(&mut self, value: &Complex) -> Option<Complex> {
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

    fn exponential(&mut self, value: &Complex) -> Option<Complex> {
        // Beyond this the result is of no use and takes long.
        if value.real.exponent().unwrap_or(0) > 16 {
            return None;
        }
        let p = self.precision;
        let size = value.real.exp(p, ROUND, &mut self.constants);
        if value.is_real() {
            return Some(self.from_real(size));
        }
        let direction = Complex {
            real: value.imaginary.cos(p, ROUND, &mut self.constants),
            imaginary: value.imaginary.sin(p, ROUND, &mut self.constants),
        };
        Some(self.scaled(&direction, &size))
    }

    fn apply(&mut self, function: Function, arguments: &[Expression]) -> Option<Complex> {
        self.operations += 20;
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
                Some(self.from_real(norm.sqrt(self.precision, ROUND)))
            }
            _ if values.iter().all(Complex::is_real) => {
                let reals: Vec<BigFloat> = values.into_iter().map(|it| it.real).collect();
                let value = self.real_function(function, &reals)?;
                Some(self.from_real(value))
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
                    self.from_real(size)
                });
            }
            let half = self.real(0.5);
            return self.power(value, &half);
        };
        let inverse = self.inverted(degree)?;
        let whole = to_f64(&degree.real, &mut self.constants)?;
        // Odd roots of negative numbers are read as real.
        if value.is_real() && value.real.is_negative() && whole.rem_euclid(2.0) == 1.0 {
            let positive = self.from_real(value.real.neg());
            let root = self.power(&positive, &inverse)?;
            return Some(self.scaled(&root, &BigFloat::from_f64(-1.0, p)));
        }
        self.power(value, &inverse)
    }

    fn real_function(&mut self, function: Function, values: &[BigFloat]) -> Option<BigFloat> {
        let p = self.precision;
        let first = values.first()?;
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
                let whole = to_f64(first, c)
                    .filter(|it| (0.0..=170.0).contains(it) && it.fract() == 0.0)?;
                let step =
                    |product: BigFloat, it| product.mul(&BigFloat::from_i64(it, p), p, ROUND);
                (1..=whole as i64).fold(BigFloat::from_f64(1.0, p), step)
            }
            Function::Binomial => {
                let k = to_f64(values.get(1)?, c)
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
    fn call(&mut self, name: &str, arguments: &[Expression]) -> Option<Complex> {
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

    fn series(&mut self, series: &Series) -> Option<Complex> {
        let (from, to) = (self.evaluate(&series.from)?, self.evaluate(&series.to)?);
        if !from.is_real() || !to.is_real() || !from.real.is_int() || !to.real.is_int() {
            return None;
        }
        let first = to_f64(&from.real, &mut self.constants)? as i64;
        let last = to_f64(&to.real, &mut self.constants)? as i64;
        if last.checked_sub(first)? > 500 {
            return None;
        }
        let mut total = self.real(if series.kind == SeriesKind::Sum { 0.0 } else { 1.0 });
        for index in first..=last {
            let value = self.from_real(BigFloat::from_i64(index, self.precision));
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

/// Bits that depend on a name and a point alone.
fn seeded(name: &str, point: u64) -> u64 {
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
