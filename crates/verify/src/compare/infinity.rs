//! Infinite values: an end of an interval, or a limit.
//!
//! Invariant: infinity is no number. It equals itself by sign, differs from every finite value, and
//! arithmetic with it decides nothing.

use super::Found;
use crate::expression::{Constant, Expression};
use crate::verdict::Rule;

/// Whether `expression` is ∞ (`true`) or −∞ (`false`); nothing for all else.
pub(crate) fn sign(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Constant(Constant::Infinity) => Some(true),
        Expression::Product(factors) => match factors.as_slice() {
            [factor, rest] if *factor == Expression::integer(-1) => sign(rest).map(|it| !it),
            _ => None,
        },
        _ => None,
    }
}

/// Compares where a side is infinite.
pub(super) fn compare(left: &Expression, right: &Expression) -> Option<Found> {
    let has = |it: &Expression| it.any(&|part| *part == Expression::Constant(Constant::Infinity));
    let (has_left, has_right) = (has(left), has(right));
    if !has_left && !has_right {
        return None;
    }
    Some(match (sign(left), sign(right)) {
        (Some(a), Some(b)) if a == b => Found::Same(Rule::Exact),
        (Some(_), Some(_)) => Found::different("infinities of two signs"),
        (Some(_), None) if !has_right => Found::different("infinity and a finite value"),
        (None, Some(_)) if !has_left => Found::different("a finite value and infinity"),
        _ => Found::Unknown("arithmetic with infinity".to_owned()),
    })
}
