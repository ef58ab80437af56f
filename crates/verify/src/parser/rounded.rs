//! `x = \sqrt{2} \approx 1.41`: a value, and what it is near.
//!
//! Invariant: the exact value is the answer. What it was rounded to is another reading of it, and only
//! where it is near: after `\frac13 \approx 11` nothing else was said than a third.

use super::answer;
use crate::compare::reduced;
use crate::expression::{Answer, Expression, Value};
use crate::lexer::{ABOUT, Token, TokenKind};
use crate::numeric;

/// How far from the value, as a share of it, what it was rounded to may be.
const NEAR: f64 = 0.01;

/// Makes each sign of nearness one of equality; what stands before the first, where that is a value.
pub(super) fn taken_as_equal(tokens: &mut [Token], end_position: usize) -> Option<Answer> {
    let is_about = |token: &Token| token.kind == TokenKind::Sign(ABOUT);
    let first = tokens.iter().position(is_about)?;
    let exact = answer(&tokens[..first], end_position).ok().filter(|exact| value(exact).is_some());
    for token in tokens.iter_mut().filter(|token| is_about(token)) {
        token.kind = TokenKind::Sign('=');
    }
    exact
}

/// The answer, and its other reading.
pub(super) fn first_and_other(exact: Option<Answer>, all: Answer) -> (Answer, Option<Answer>) {
    let Some(exact) = exact else { return (all, None) };
    let is_near = value(&exact)
        .zip(value(&all))
        .is_some_and(|(exact, rounded)| (exact - rounded).abs() <= NEAR * exact.abs());
    (exact, is_near.then_some(all))
}

/// The value of what names nothing but one.
fn value(answer: &Answer) -> Option<f64> {
    let Answer::Value(Value { expression, .. }) = reduced(answer) else { return None };
    let is_name = matches!(expression, Expression::Symbol(_));
    numeric::approximate(&expression).filter(|_| !is_name)
}
