//! Answers with a parameter and the set that it runs through: `x = π/2 + kπ, k ∈ ℤ`.
//!
//! Invariant: a parameter's name says nothing. Over the whole numbers, one value that is linear in it
//! is the same set whether it begins elsewhere or runs backwards: 2k + 1 and 1 − 2m.

use num_traits::Zero as _;

use super::{Found, names, same};
use crate::exact::{normal_form, substituted};
use crate::expression::{Answer, Expression, Interval, Mark, Rational, Sign, Value};
use crate::numeric;
use crate::verdict::{Options, Rule};

/// Most steps that two starts may be apart.
const MOST_STEPS: f64 = 1e9;

/// A parameter, and the set that it runs through.
struct Parameter {
    name: String,
    set: String,
}

/// Compares where a side has a parameter; nothing where none has.
pub(super) fn compare(gold: &Answer, answer: &Answer, options: &Options) -> Option<Found> {
    match (split(gold), split(answer)) {
        (None, None) => None,
        // The set is left out where it goes without saying.
        (Some((_, left)), None) => Some(same(&left, &names::reduced(answer), options)),
        (None, Some((_, right))) => Some(same(&names::reduced(gold), &right, options)),
        (Some((one, left)), Some((other, right))) => {
            if one.set != other.set {
                let why = format!("parameters in {} and in {}", one.set, other.set);
                return Some(Found::Different(why));
            }
            let right = renamed(&right, &other.name, &Expression::Symbol(one.name.clone()));
            let found = same(&left, &right, options);
            let is_family = one.set == "Z" && is_same_family(&left, &right, &one.name);
            Some(if !found.is_same() && is_family { Found::Same(Rule::Algebra) } else { found })
        }
    }
}

/// The one parameter that an answer gives a set for, and what depends on it.
fn split(answer: &Answer) -> Option<(Parameter, Answer)> {
    let Answer::List(items) = answer else { return None };
    let (mut parameters, mut rest) = (Vec::new(), Vec::new());
    for item in items {
        match parameter(item) {
            Some(found) => parameters.push(found),
            None => rest.push(item.clone()),
        }
    }
    let (Some(parameter), true) = (parameters.pop(), parameters.is_empty()) else { return None };
    let rest = if rest.len() == 1 { rest.remove(0) } else { Answer::List(rest) };
    let rest = names::reduced(&rest);
    // A set of something else is an item like the others.
    mentions(&rest, &parameter.name).then_some((parameter, rest))
}

fn parameter(item: &Answer) -> Option<Parameter> {
    let Answer::Relation { sides, signs } = item else { return None };
    let ([name, set], [Sign::In]) = (sides.as_slice(), signs.as_slice()) else { return None };
    let name = symbol(name)?;
    let set = match set {
        Answer::Interval(Interval { low_closed: false, high_closed: false, .. }) => "R".to_owned(),
        other => symbol(other).filter(|set| ["Z", "N", "Q", "R", "C"].contains(&set.as_str()))?,
    };
    Some(Parameter { name, set })
}

fn symbol(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Value(Value { expression: Expression::Symbol(name), mark: Mark::None }) => {
            Some(name.clone())
        }
        _ => None,
    }
}

fn mentions(answer: &Answer, name: &str) -> bool {
    match answer {
        Answer::Value(value) => {
            value.expression.any(&|part| matches!(part, Expression::Symbol(it) if it == name))
        }
        Answer::Tuple(items) | Answer::List(items) | Answer::Set(items) => {
            items.iter().any(|item| mentions(item, name))
        }
        _ => false,
    }
}

fn renamed(answer: &Answer, name: &str, to: &Expression) -> Answer {
    let all = |items: &[Answer]| items.iter().map(|item| renamed(item, name, to)).collect();
    match answer {
        Answer::Value(value) => {
            let expression = substituted(&value.expression, name, to);
            Answer::Value(Value { expression, mark: value.mark.clone() })
        }
        Answer::Tuple(items) => Answer::Tuple(all(items)),
        Answer::List(items) => Answer::List(all(items)),
        Answer::Set(items) => Answer::Set(all(items)),
        other => other.clone(),
    }
}

/// Whether two values that are linear in the parameter give the same ones as it runs through ℤ: their
/// steps are the same but for the sign, and they meet.
fn is_same_family(left: &Answer, right: &Answer, name: &str) -> bool {
    let (Answer::Value(left), Answer::Value(right)) = (left, right) else { return false };
    let linear = |value: &Value| {
        let at = |number: i32| substituted(&value.expression, name, &Expression::integer(number));
        let difference = |from: i32, to: i32| Expression::Sum(vec![at(to), at(from).negated()]);
        let bend = Expression::Sum(vec![difference(1, 2), difference(0, 1).negated()]);
        rational(&bend)?.is_zero().then(|| (at(0), difference(0, 1)))
    };
    let (Some((start, step)), Some((other_start, other_step))) = (linear(left), linear(right))
    else {
        return false;
    };
    // How many steps something is: guessed from the values, then shown.
    let steps = |far: Expression| {
        let ratio = Expression::product(vec![far.clone(), step.clone().inverted()]);
        let count = numeric::approximate(&ratio)?.round();
        let count = (count.abs() < MOST_STEPS).then_some(count as i32)?;
        let rest = vec![Expression::integer(-count), step.clone()];
        let rest = Expression::Sum(vec![far, Expression::product(rest)]);
        rational(&rest)?.is_zero().then_some(count)
    };
    let apart = Expression::Sum(vec![other_start, start.negated()]);
    steps(other_step).is_some_and(|count| count.abs() == 1) && steps(apart).is_some()
}

fn rational(expression: &Expression) -> Option<Rational> {
    normal_form(expression).ok()?.as_rational()
}
