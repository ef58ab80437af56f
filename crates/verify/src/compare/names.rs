//! What only names an answer, and what it names: `x = 5` is 5, `a = 1, b = 2` are two named values.

use super::{Found, at, same, value};
use crate::expression::{Answer, Expression, Function, Sign, Value};
use crate::verdict::{Options, Rule};

/// `x = 5` is 5, `x ∈ S` is S, `a = b = c` is c; inside lists and tuples too.
pub(crate) fn reduced(answer: &Answer) -> Answer {
    match answer {
        Answer::Relation { sides, signs } => {
            let last = sides.last();
            let equal = signs.iter().all(|sign| *sign == Sign::Equal);
            let named = sides.len() > 2 || sides.first().is_some_and(is_name);
            match (last, signs.as_slice()) {
                (Some(last), _) if equal && (named || sides.iter().all(is_known)) => reduced(last),
                // `5 = x`.
                (Some(last), [Sign::Equal]) if is_name(last) && is_known(&sides[0]) => {
                    reduced(&sides[0])
                }
                (Some(last), [Sign::In]) => reduced(last),
                _ => answer.clone(),
            }
        }
        Answer::List(items) => {
            let mut flat = Vec::new();
            for item in items.iter().map(reduced) {
                match item {
                    Answer::List(inner) => flat.extend(inner),
                    other => flat.push(other),
                }
            }
            Answer::List(flat)
        }
        Answer::Set(items) => match items.iter().map(reduced).collect::<Vec<_>>() {
            mut one if one.len() == 1 && matches!(one[0], Answer::List(_)) => match one.remove(0) {
                Answer::List(items) => Answer::Set(items),
                other => other,
            },
            items => Answer::Set(items),
        },
        Answer::Tuple(items) => Answer::Tuple(items.iter().map(reduced).collect()),
        Answer::Value(_)
        | Answer::Interval(_)
        | Answer::Union(_)
        | Answer::Without { .. }
        | Answer::Matrix(_)
        | Answer::Proportion(_)
        | Answer::Words(_) => answer.clone(),
    }
}

/// A side that only names what the other side says: `x`, `f(x)`, `AB`, `V_1 : V_2`, `(x, y)`.
fn is_name(side: &Answer) -> bool {
    match side {
        Answer::Value(Value { expression, .. }) => is_name_expression(expression),
        Answer::Proportion(parts) => parts.iter().all(is_name_expression),
        Answer::Tuple(items) | Answer::List(items) => items.iter().all(is_name),
        Answer::Words(_) => true,
        Answer::Set(_)
        | Answer::Interval(_)
        | Answer::Union(_)
        | Answer::Without { .. }
        | Answer::Matrix(_)
        | Answer::Relation { .. } => false,
    }
}

/// A value without unknowns.
fn is_known(side: &Answer) -> bool {
    matches!(side, Answer::Value(Value { expression, .. }) if value::has_no_unknown(expression))
}

fn is_name_expression(expression: &Expression) -> bool {
    match expression {
        Expression::Symbol(_) | Expression::Call(..) => true,
        Expression::Product(factors) => {
            factors.iter().all(|factor| matches!(factor, Expression::Symbol(_)))
                || is_length(expression)
        }
        _ => is_length(expression),
    }
}

/// A length of geometry or a ratio of two: `|AB|`, `\frac{NO}{BO}`.
fn is_length(expression: &Expression) -> bool {
    let is_point = |it: &Expression| matches!(it, Expression::Symbol(name) if name.starts_with(|first: char| first.is_ascii_uppercase()));
    let is_segment = |it: &Expression| matches!(it, Expression::Product(ends) if ends.len() == 2 && ends.iter().all(is_point));
    match expression {
        Expression::Apply(Function::Abs, inside) => inside.iter().all(is_segment),
        Expression::Product(factors) => factors.iter().all(|factor| match factor {
            Expression::Power(base, exponent) => {
                is_segment(base) && **exponent == Expression::integer(-1)
            }
            other => is_segment(other),
        }),
        _ => is_segment(expression),
    }
}

/// The items of `a = 1, b = 2` with their names; nothing unless each item has a name of its own.
pub(crate) fn named_items(answer: &Answer) -> Option<Vec<(String, &Answer)>> {
    let items = match answer {
        Answer::List(items) | Answer::Set(items) => items.as_slice(),
        _ => return None,
    };
    let mut named = Vec::new();
    for item in items {
        let Answer::Relation { sides, signs } = item else { return None };
        let ([Answer::Value(name), value], [Sign::Equal]) = (sides.as_slice(), signs.as_slice())
        else {
            return None;
        };
        let Expression::Symbol(name) = &name.expression else { return None };
        if named.iter().any(|(other, _)| other == name) {
            return None;
        }
        named.push((name.clone(), value));
    }
    Some(named)
}

/// Names on both sides must have the same values; other names leave it to the values.
pub(super) fn by_name(
    left: &[(String, &Answer)],
    right: &[(String, &Answer)],
    options: &Options,
) -> Option<Found> {
    let find = |name: &str| right.iter().find(|(other, _)| other == name);
    if left.len() != right.len() || left.iter().any(|(name, _)| find(name).is_none()) {
        return None;
    }
    let start = Found::Same(Rule::Exact);
    Some(left.iter().fold(start, |found, (name, value)| {
        found.and(|| {
            let other = find(name).map_or(*value, |(_, other)| other);
            at(same(&reduced(value), &reduced(other), options), || format!("`{name}`"))
        })
    }))
}
