//! Two values: marks first, then exact algebra, then decimals by their digits, then numbers.

use num_bigint::BigInt;
use num_traits::{Pow as _, Signed as _, Zero as _};

use super::{Found, infinity};
use crate::exact::{NoForm, Quotient, normal_form};
use crate::expression::{Constant, Expression, Function, Mark, Rational, Value};
use crate::modular;
use crate::numeric::{self, Numeric};
use crate::verdict::{Options, Rule};

/// Letters that are units where they multiply a number and the other side has no variables.
const UNIT_LETTERS: [&str; 13] =
    ["m", "s", "g", "h", "L", "l", "N", "J", "W", "V", "A", "K", "Omega"];

pub(super) fn same(gold: &Value, answer: &Value, options: &Options) -> Found {
    let (left, right) = (&gold.expression, &answer.expression);
    match (&gold.mark, &answer.mark) {
        (Mark::Unit(a), Mark::Unit(b)) if a != b => {
            return Found::Different(format!("units `{a}` and `{b}`"));
        }
        (Mark::Percent, Mark::None | Mark::Unit(_)) => return percent(left, right, options),
        (Mark::None | Mark::Unit(_), Mark::Percent) => return percent(right, left, options),
        (Mark::Degree, Mark::None) if has_pi(right) => {
            return same_expression(&radians(left), right, options);
        }
        (Mark::None, Mark::Degree) if has_pi(left) => {
            return same_expression(left, &radians(right), options);
        }
        (Mark::Percent, Mark::Degree) | (Mark::Degree, Mark::Percent) => {
            return Found::different("per cent and degrees");
        }
        _ => {}
    }
    let found = same_expression(left, right, options);
    if found.is_same() {
        return found;
    }
    // `5 m` for 5: a letter that can only be a unit.
    let without = match (without_unit(left), without_unit(right)) {
        (None, Some(bare)) if is_constant(left) => same_expression(left, &bare, options),
        (Some(bare), None) if is_constant(right) => same_expression(&bare, right, options),
        _ => return found,
    };
    if without.is_same() { Found::Same(Rule::Unit) } else { found }
}

/// A percentage is its number, or a hundredth of it.
fn percent(percentage: &Expression, plain: &Expression, options: &Options) -> Found {
    let found = same_expression(percentage, plain, options);
    if found.is_same() {
        return Found::Same(Rule::Unit);
    }
    let hundredth = Expression::exact(Rational::new(BigInt::from(1), BigInt::from(100)));
    let part = Expression::Product(vec![percentage.clone(), hundredth]);
    match same_expression(&part, plain, options) {
        Found::Same(_) => Found::Same(Rule::Unit),
        _ => found,
    }
}

fn radians(degrees: &Expression) -> Expression {
    let turn = Expression::exact(Rational::new(BigInt::from(1), BigInt::from(180)));
    Expression::Product(vec![degrees.clone(), turn, Expression::Constant(Constant::Pi)])
}

fn has_pi(expression: &Expression) -> bool {
    expression.any(&|it| *it == Expression::Constant(Constant::Pi))
}

fn is_constant(expression: &Expression) -> bool {
    !expression.any(&|it| matches!(it, Expression::Symbol(_) | Expression::Call(..)))
}

/// The number of `5 m` or `5 m²`, if that is what it is.
fn without_unit(expression: &Expression) -> Option<Expression> {
    let Expression::Product(factors) = expression else { return None };
    let is_unit = |it: &&Expression| match it {
        Expression::Symbol(name) => UNIT_LETTERS.contains(&name.as_str()),
        Expression::Power(base, exponent) => {
            matches!(base.as_ref(), Expression::Symbol(name) if UNIT_LETTERS.contains(&name.as_str()))
                && is_constant(exponent)
        }
        _ => false,
    };
    let (units, rest): (Vec<&Expression>, Vec<&Expression>) = factors.iter().partition(is_unit);
    let numeric = !rest.is_empty() && rest.iter().all(|it| is_constant(it));
    (numeric && !units.is_empty()).then(|| Expression::product(rest.into_iter().cloned().collect()))
}

/// Compares two expressions.
pub(super) fn same_expression(left: &Expression, right: &Expression, options: &Options) -> Found {
    let renamed;
    let (left, right) = if options.strict {
        (left, right)
    } else {
        renamed = (renamed_symbols(left), renamed_symbols(right));
        (&renamed.0, &renamed.1)
    };
    if let Some(found) = infinity::compare(left, right) {
        return found;
    }
    let (left_form, right_form) = (normal_form(left), normal_form(right));
    if [&left_form, &right_form].iter().any(|it| matches!(it, Err(NoForm::Undefined))) {
        return Found::Unknown("a side has no value".to_owned());
    }
    if left == right {
        return Found::Same(Rule::Exact);
    }
    by_form((left, left_form.ok().as_ref()), (right, right_form.ok().as_ref()), options)
}

/// Compares by normal forms, then by decimals, then by values.
fn by_form(
    (left, left_form): (&Expression, Option<&Quotient>),
    (right, right_form): (&Expression, Option<&Quotient>),
    options: &Options,
) -> Found {
    let mut decimal = is_decimal(left) || is_decimal(right);
    let rational = |form: Option<&Quotient>| form.and_then(Quotient::as_rational);
    let whole = |form| rational(form).is_some_and(|it| it.is_integer());
    // An irrational value is no whole number, however near.
    if whole(left_form) != whole(right_form) && !(is_decimal(left) && is_decimal(right)) {
        decimal &= rational(left_form).is_some() && rational(right_form).is_some();
    }
    let allowed = || allowed([(left, left_form), (right, right_form)], options);
    if let Some((left_form, right_form)) = left_form.zip(right_form) {
        if let Some((a, b)) = left_form.as_rational().zip(right_form.as_rational()) {
            return rationals(&a, &b, decimal.then(allowed));
        }
        match left_form.equals(right_form) {
            Some(true) => return Found::Same(Rule::Algebra),
            Some(false) if !decimal => {
                return Found::Different(format!("{} and {}", left_form.text(), right_form.text()));
            }
            _ => {}
        }
    }
    if decimal && let Some(found) = decimals(left, right, &allowed(), options) {
        return found;
    }
    if let Some(same) = modular::compare(left, right) {
        return if same {
            Found::Same(Rule::Modular)
        } else {
            Found::different("their values modulo a prime differ")
        };
    }
    match numeric::compare(left, right) {
        Numeric::Equal => Found::Same(Rule::Numeric),
        Numeric::Different => Found::different("their values differ"),
        Numeric::Unknown => Found::Unknown("no value could be computed on both sides".to_owned()),
    }
}

fn rationals(left: &Rational, right: &Rational, bound: Option<Rational>) -> Found {
    if left == right {
        return Found::Same(Rule::Exact);
    }
    // Whole numbers match exactly or not at all, however they are written.
    let whole = left.is_integer() || right.is_integer();
    if !whole && bound.is_some_and(|bound| (left - right).abs() <= bound) {
        return Found::Same(Rule::Decimal);
    }
    Found::Different(format!("{left} and {right}"))
}

/// Half a unit of the last digit that counts.
fn tolerance(options: &Options) -> Rational {
    Rational::new(BigInt::from(1), BigInt::from(2) * BigInt::from(10).pow(options.precision))
}

/// How far two values may be apart of which one or both are decimals. Of decimals that go on behind
/// the digits that count, half as many digits must agree from the first that isn't 0, too: 1.6 · 10⁻¹⁹
/// is not 9.1 · 10⁻³¹, though both are nothing to six digits.
fn allowed(sides: [(&Expression, Option<&Quotient>); 2], options: &Options) -> Rational {
    let written = sides.into_iter().filter(|(side, _)| is_decimal(side));
    let written: Option<Vec<Rational>> = written.map(|(_, form)| form?.as_rational()).collect();
    let count = BigInt::from(10).pow(options.precision);
    let goes_on = |value: &Rational| !(&count % value.denom()).is_zero();
    let finer = written.filter(|values| values.iter().all(goes_on));
    let size = finer.and_then(|values| values.into_iter().map(|value| value.abs()).max());
    let most = tolerance(options);
    let share = Rational::new(BigInt::from(1), BigInt::from(10).pow(options.precision / 2));
    size.map_or_else(|| most.clone(), |size| (size * share).min(most.clone()))
}

/// A decimal beside an irrational constant.
fn decimals(
    left: &Expression,
    right: &Expression,
    bound: &Rational,
    options: &Options,
) -> Option<Found> {
    if !is_constant(left) || !is_constant(right) {
        return None;
    }
    Some(if numeric::within(left, right, bound)? {
        Found::Same(Rule::Decimal)
    } else {
        Found::Different(format!("more than {} decimal digits apart", options.precision))
    })
}

fn is_decimal(expression: &Expression) -> bool {
    expression.any(&|it| matches!(it, Expression::Number(number) if number.decimal_places.is_some_and(|it| it > 0)))
}

/// Symbols named by the order in which they appear.
fn renamed_symbols(expression: &Expression) -> Expression {
    fn walk(expression: &Expression, names: &mut Vec<String>) -> Expression {
        let mut index = |name: &String| {
            let found = names.iter().position(|it| it == name).unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            format!("v{found}")
        };
        match expression {
            Expression::Symbol(name) => Expression::Symbol(index(name)),
            Expression::Number(_) | Expression::Constant(_) | Expression::Series(_) => {
                expression.clone()
            }
            Expression::Sum(items) => {
                Expression::Sum(items.iter().map(|it| walk(it, names)).collect())
            }
            Expression::Product(items) => {
                Expression::Product(items.iter().map(|it| walk(it, names)).collect())
            }
            Expression::Power(base, exponent) => {
                let base = walk(base, names);
                base.power(walk(exponent, names))
            }
            Expression::Apply(function, items) => {
                Expression::Apply(*function, items.iter().map(|it| walk(it, names)).collect())
            }
            Expression::Call(name, items) => {
                Expression::Call(name.clone(), items.iter().map(|it| walk(it, names)).collect())
            }
        }
    }
    walk(expression, &mut Vec::new())
}

/// The symbol inside `|…|`, if `expression` is an absolute value of one.
pub(super) fn inside_bars(expression: &Expression) -> Option<&Expression> {
    match expression {
        Expression::Apply(Function::Abs, arguments) => arguments.first(),
        _ => None,
    }
}

/// No symbol in it.
pub(super) fn has_no_unknown(expression: &Expression) -> bool {
    is_constant(expression)
}
