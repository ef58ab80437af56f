//! Functions of exact values, and sums over ranges of whole numbers.
//!
//! Invariant: a function is worked out only where its value is rational and cheap; elsewhere it is
//! an atom, named by its arguments' normal forms.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use super::{NoForm, Quotient, normal_form, root_form};
use crate::expression::{Constant, Expression, Function, Rational, Series, SeriesKind};
use crate::work;

/// Largest argument of a factorial and of a binomial coefficient.
const MAX_FACTORIAL: u32 = 1_000;
/// Most terms of a sum over a range that is written out.
const MAX_SERIES: i64 = 200;

pub(super) fn function_form(
    function: Function,
    arguments: &[Expression],
) -> Result<Quotient, NoForm> {
    let forms: Result<Vec<Quotient>, NoForm> = arguments.iter().map(normal_form).collect();
    let forms = forms?;
    let values: Option<Vec<Rational>> = forms.iter().map(Quotient::as_rational).collect();
    if function == Function::Root {
        let degree = match forms.get(1) {
            None => 2,
            Some(degree) => degree
                .as_rational()
                .and_then(|it| it.to_integer().to_u32())
                .ok_or(NoForm::TooLarge)?,
        };
        let base = forms.first().ok_or(NoForm::TooLarge)?;
        return if (2..=64).contains(&degree) {
            root_form(base, degree)
        } else {
            Err(NoForm::TooLarge)
        };
    }
    if function == Function::Exp {
        let exponent = forms.first().ok_or(NoForm::TooLarge)?;
        if let Some(power) = exponent.as_rational().filter(|it| it.is_integer()) {
            return Quotient::atom("e".to_owned())
                .power(power.numer().to_i64().ok_or(NoForm::TooLarge)?);
        }
        return Ok(Quotient::atom(format!("(e)^({})", exponent.text())));
    }
    if is_undefined(function, &forms) {
        return Err(NoForm::Undefined);
    }
    if let Some(value) = values.and_then(|values| on_rationals(function, &values)) {
        return Ok(Quotient::constant(value));
    }
    let texts: Vec<String> = forms.iter().map(Quotient::text).collect();
    Ok(Quotient::atom(format!("{function:?}({})", texts.join(","))))
}

/// Where a function has no value: log 0, tan(π/2), and so on.
fn is_undefined(function: Function, forms: &[Quotient]) -> bool {
    let Some(first) = forms.first() else { return true };
    let turns = || first.multiple_of_pi();
    match function {
        Function::Log => first.as_rational().is_some_and(|it| it.is_zero()),
        Function::Tan | Function::Sec => {
            turns().is_some_and(|it| !it.is_integer() && (it * BigInt::from(2)).is_integer())
        }
        Function::Cot | Function::Csc => turns().is_some_and(|it| it.is_integer()),
        _ => false,
    }
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
            let last = small(first)?;
            let product = (1..=last).fold(BigInt::one(), |product, it| product * it);
            work::pay(u64::from(last)).then(|| Rational::from_integer(product))
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
                let words = (sum.bits() + value.bits()) / 64;
                let paid = work::pay(1 + words * words / 3);
                let both =
                    || if function == Function::Gcd { sum.gcd(&value) } else { sum.lcm(&value) };
                paid.then(both)
            });
            combined.map(Rational::from_integer)
        }
        Function::Log => logarithm(&whole(first)?, &whole(values.get(1)?)?),
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

pub(super) fn series_form(series: &Series) -> Result<Quotient, NoForm> {
    let (from, to) = (normal_form(&series.from)?, normal_form(&series.to)?);
    let bounds = from.as_rational().zip(to.as_rational());
    let Some((first, last)) = bounds.filter(|(a, b)| a.is_integer() && b.is_integer()) else {
        let body = normal_form(&series.body)?.text();
        let (from, to, index) = (from.text(), to.text(), &series.index);
        return Ok(Quotient::atom(format!("{:?}[{index}={from}..{to}]({body})", series.kind)));
    };
    let count = (last.numer() - first.numer())
        .to_i64()
        .filter(|it| *it < MAX_SERIES)
        .ok_or(NoForm::TooLarge)?;
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

/// log_b(b^n): a whole power of a whole base.
fn logarithm(number: &BigInt, base: &BigInt) -> Option<Rational> {
    if number.is_one() {
        return Some(Rational::zero());
    }
    if *base < BigInt::from(2) {
        return None;
    }
    let mut power = BigInt::one();
    let mut exponent = 0_u32;
    while power < *number {
        power *= base;
        exponent += 1;
    }
    (power == *number).then(|| Rational::from_integer(exponent.into()))
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
