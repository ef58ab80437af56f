//! Sets in rarer spellings: brackets turned outward, sets by description, halves of the reals, and
//! bounds that "and" or a comma joins.
//!
//! Invariant: a spelling is only taken for one of these where it can be nothing else.

use super::{Parse, Parser, is_or, words};
use crate::expression::{Answer, Constant, Expression, Interval, Sign, Value};
use crate::lexer::{CLOSE_SET, REALS, Token, TokenKind};
use crate::numeric;

/// `]0, 1]` becomes `(0, 1]`, and `[0, 1[` becomes `[0, 1)`: if all square brackets pair up around a
/// comma each, and one is turned outward.
pub(super) fn turn_outward_ones(tokens: &mut [Token]) {
    let is = |token: &Token, signs: &[char]| matches!(token.kind, TokenKind::Sign(sign) if signs.contains(&sign));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| is(&tokens[*at], &['[', ']'])).collect();
    if places.len() % 2 == 1 {
        return;
    }
    let pairs = || places.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let holds_ends =
        |(open, close): (usize, usize)| tokens[open..close].iter().any(|it| is(it, &[',', ';']));
    let is_turned =
        |(open, close): (usize, usize)| is(&tokens[open], &[']']) || is(&tokens[close], &['[']);
    if !pairs().all(holds_ends) || !pairs().any(is_turned) {
        return;
    }
    let mut turned = Vec::new();
    for (open, close) in pairs() {
        if is(&tokens[open], &[']']) {
            turned.push((open, '('));
        }
        if is(&tokens[close], &['[']) {
            turned.push((close, ')'));
        }
    }
    for (at, sign) in turned {
        tokens[at].kind = TokenKind::Sign(sign);
    }
}

/// `x > 1 and x < 2` is `1 < x < 2`, where that holds of some number.
pub(super) fn join_bounds(items: &mut Vec<Answer>) {
    let [.., first, second] = items.as_slice() else { return };
    let (Some(first), Some(second)) = (bound(first), bound(second)) else { return };
    if first.0 != second.0 {
        return;
    }
    let (low, high) = match (first.1, second.1) {
        (Sign::Greater | Sign::GreaterOrEqual, Sign::Less | Sign::LessOrEqual) => (first, second),
        (Sign::Less | Sign::LessOrEqual, Sign::Greater | Sign::GreaterOrEqual) => (second, first),
        _ => return,
    };
    let place = |end: &Value| numeric::approximate(&end.expression);
    let closed = low.1 == Sign::GreaterOrEqual && high.1 == Sign::LessOrEqual;
    let holds = |(low, high): (f64, f64)| low < high || (closed && low == high);
    if !place(&low.2).zip(place(&high.2)).is_some_and(holds) {
        return;
    }
    let below = if low.1 == Sign::Greater { Sign::Less } else { Sign::LessOrEqual };
    let joined = Answer::Relation {
        sides: vec![Answer::Value(low.2), Answer::Value(low.0), Answer::Value(high.2)],
        signs: vec![below, high.1],
    };
    items.truncate(items.len() - 2);
    items.push(joined);
}

/// `x > 1` as `x`, `>`, `1`.
fn bound(item: &Answer) -> Option<(Value, Sign, Value)> {
    let Answer::Relation { sides, signs } = item else { return None };
    match (sides.as_slice(), signs.as_slice()) {
        ([Answer::Value(name), Answer::Value(end)], [sign]) => {
            Some((name.clone(), *sign, end.clone()))
        }
        _ => None,
    }
}

/// The set of what all relations hold of: one of them, less the points that others exclude.
fn all_of(items: Vec<Answer>) -> Option<Answer> {
    let mut points = Vec::new();
    let mut others = Vec::new();
    for item in items {
        match bound(&item) {
            Some((_, Sign::NotEqual, point)) => points.push(Answer::Value(point)),
            _ => others.push(item),
        }
    }
    let set = match others.len() {
        0 => words::all_reals(),
        1 => Answer::Set(others),
        _ => return None,
    };
    if points.is_empty() {
        return Some(set);
    }
    Some(Answer::Without { set: Box::new(set), points: Box::new(Answer::Set(points)) })
}

impl Parser<'_> {
    /// `∪`, or a `U` between two sets.
    pub(super) fn is_union(&self, before: &Answer) -> bool {
        let is_letter = self.kind() == Some(&TokenKind::Letter("U".to_owned()));
        let opens = matches!(self.kind_at(1), Some(TokenKind::Sign('(' | '[')));
        let is_set = matches!(before, Answer::Tuple(_) | Answer::Interval(_));
        self.is_sign('∪') || (is_letter && opens && is_set)
    }

    /// What stands behind `ℝ`: nothing, or the sign of the numbers that are meant.
    pub(super) fn half_of_reals(&mut self) -> Parse<Answer> {
        let sign = |ahead: usize| match self.kind_at(ahead) {
            Some(TokenKind::Sign(sign)) => *sign,
            _ => ' ',
        };
        let raised = sign(0) == '^' || sign(0) == '_';
        let braces = usize::from(sign(1) == '{');
        let (positive, closed, taken) = match (raised, sign(1 + braces)) {
            (true, '+') => (true, false, 2),
            (true, '-') => (false, false, 2),
            (true, '>') => (true, false, 3),
            (true, '≥') => (true, true, 3),
            (true, '<') => (false, false, 3),
            (true, '≤') => (false, true, 3),
            _ => return Ok(words::all_reals()),
        };
        let zero = TokenKind::Digits("0".to_owned());
        if taken == 3 && self.kind_at(2 + braces) != Some(&zero) {
            return Err(self.error("0 behind the sign"));
        }
        self.at += taken + braces;
        if braces == 1 {
            self.expect_sign('}')?;
        }
        let infinity = Expression::Constant(Constant::Infinity);
        let zero = Expression::integer(0);
        Ok(Answer::Interval(match positive {
            true => Interval { low: zero, high: infinity, low_closed: closed, high_closed: false },
            false => Interval {
                low: infinity.negated(),
                high: zero,
                low_closed: false,
                high_closed: closed,
            },
        }))
    }

    /// The rest of `{x | x > 3}`: a set of the relation.
    pub(super) fn described(&mut self) -> Parse<Option<Answer>> {
        let Some(name @ TokenKind::Letter(_)) = self.kind().cloned() else { return Ok(None) };
        self.at += 1;
        if self.take_sign('∈') && !self.take_sign(REALS) {
            return Ok(None);
        }
        if !self.take_sign('|') && !self.take_sign(':') {
            return Ok(None);
        }
        let start = self.at;
        let items = self.items()?;
        let said = &self.tokens[start..self.at];
        let relations = items.iter().all(|item| matches!(item, Answer::Relation { .. }));
        let is_of_name = said.iter().any(|token| token.kind == name);
        let is_any = said.iter().any(is_or);
        if !relations || !is_of_name || !self.take_sign(CLOSE_SET) {
            return Ok(None);
        }
        Ok(if is_any { Some(Answer::Set(items)) } else { all_of(items) })
    }
}
