//! Sets of real numbers: intervals, their unions, single points, and relations that describe them.
//!
//! Invariant: ends are compared exactly; their approximate values only put them in order, and where
//! they have none, an order is not claimed.

use super::{Found, at, inequality, infinity, value};
use crate::expression::{Answer, Constant, Expression, Interval, Mark, Sign, Value};
use crate::numeric;
use crate::verdict::{Options, Rule};

/// A relation, or several joined by "or", beside a set of real numbers.
pub(super) fn relations_and_set(relations: &Answer, set: &Answer, options: &Options) -> Found {
    match (described(relations), pieces(set)) {
        (Err(why), _) => Found::different(why),
        (Ok((_, found)), Some(pieces)) => sets(found, pieces, options),
        (Ok(_), None) => Found::different("a relation and a set"),
    }
}

/// A relation beside several that "or" joins: as sets of real numbers.
pub(super) fn relation_lists(gold: &Answer, answer: &Answer, options: &Options) -> Found {
    match (described(gold), described(answer)) {
        (Ok((left, _)), Ok((right, _))) if options.strict && left != right => {
            Found::different("different unknowns")
        }
        (Ok((_, left)), Ok((_, right))) => sets(left, right, options),
        _ => Found::Different(format!("{} and {}", super::kind(gold), super::kind(answer))),
    }
}

/// The unknown of one or several relations, and the set that any of them describes.
fn described(relations: &Answer) -> Result<(Option<Expression>, Vec<Interval>), &'static str> {
    let relations = match relations {
        Answer::List(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found = Vec::new();
    let mut unknown = None;
    for relation in relations {
        let solved = match relation {
            Answer::Relation { sides, signs } => inequality::solved(sides, signs),
            _ => None,
        };
        let Some(solved) = solved else { return Err("no relation that is a set") };
        if *unknown.get_or_insert_with(|| solved.unknown.clone()) != solved.unknown {
            return Err("relations of several unknowns");
        }
        found.extend(solved.pieces);
    }
    Ok((unknown, found))
}

/// The intervals that a set of real numbers is made of; a single number is a closed one.
pub(super) fn pieces(answer: &Answer) -> Option<Vec<Interval>> {
    match answer {
        Answer::Interval(interval) => Some(vec![interval.clone()]),
        Answer::Union(parts) => {
            let parts: Option<Vec<Vec<Interval>>> = parts.iter().map(pieces).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        Answer::Without { set, points } => {
            let pieces = pieces(set)?;
            let Answer::Set(points) = points.as_ref() else { return None };
            points.iter().try_fold(pieces, |pieces, point| match point {
                Answer::Value(Value { expression, mark: Mark::None }) => {
                    without(pieces, expression)
                }
                _ => None,
            })
        }
        Answer::Tuple(items) => match items.as_slice() {
            [Answer::Value(low), Answer::Value(high)] => Some(vec![Interval {
                low: low.expression.clone(),
                high: high.expression.clone(),
                low_closed: false,
                high_closed: false,
            }]),
            _ => None,
        },
        Answer::Set(items) => {
            let mut unknown = None;
            let parts: Option<Vec<_>> = items.iter().map(|it| part(it, &mut unknown)).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        Answer::Value(_)
        | Answer::List(_)
        | Answer::Matrix(_)
        | Answer::Relation { .. }
        | Answer::Proportion(_)
        | Answer::Words(_) => None,
    }
}

/// A member of a set: a point, or what a relation describes. All relations are of one unknown.
fn part(item: &Answer, unknown: &mut Option<Expression>) -> Option<Vec<Interval>> {
    let (found, of) = match item {
        Answer::Value(Value { expression, mark: Mark::None }) => {
            return Some(vec![Interval {
                low: expression.clone(),
                high: expression.clone(),
                low_closed: true,
                high_closed: true,
            }]);
        }
        Answer::Relation { sides, signs } => match (sides.as_slice(), signs.as_slice()) {
            ([Answer::Value(of), Answer::Value(point)], [Sign::NotEqual]) => {
                (without(vec![all()], &point.expression)?, of.expression.clone())
            }
            _ => {
                let solved = inequality::solved(sides, signs)?;
                (solved.pieces, solved.unknown)
            }
        },
        _ => return None,
    };
    (*unknown.get_or_insert_with(|| of.clone()) == of).then_some(found)
}

/// (−∞, ∞).
pub(super) fn all() -> Interval {
    let infinity = Expression::Constant(Constant::Infinity);
    Interval {
        low: infinity.clone().negated(),
        high: infinity,
        low_closed: false,
        high_closed: false,
    }
}

/// `pieces` without the point, where its place among their ends is certain.
fn without(pieces: Vec<Interval>, point: &Expression) -> Option<Vec<Interval>> {
    let at = place(point);
    let mut left = Vec::new();
    for piece in pieces {
        let (low, high) = (place(&piece.low), place(&piece.high));
        if at.is_nan() || low.is_nan() || high.is_nan() {
            return None;
        }
        if low < at && at < high {
            let point = point.clone();
            left.push(Interval { high: point.clone(), high_closed: false, ..piece.clone() });
            left.push(Interval { low: point, low_closed: false, ..piece });
        } else {
            left.push(Interval {
                low_closed: piece.low_closed && low != at,
                high_closed: piece.high_closed && high != at,
                ..piece
            });
        }
    }
    Some(left)
}

/// Same intervals, in order of their lower ends.
pub(super) fn sets(left: Vec<Interval>, right: Vec<Interval>, options: &Options) -> Found {
    let several = left.len().max(right.len()) > 1;
    let has_place = |it: &Interval| !place(&it.low).is_nan() && !place(&it.high).is_nan();
    let in_order = left.iter().chain(&right).all(has_place);
    let found = in_pairs(&ordered(left, options), &ordered(right, options), options);
    if several && !in_order && !found.is_same() {
        // They may stand in another order, or overlap: that is no difference.
        return Found::Unknown("the order of the ends isn't known".to_owned());
    }
    found
}

fn in_pairs(left: &[Interval], right: &[Interval], options: &Options) -> Found {
    if left.len() != right.len() {
        return Found::Different(format!("{} and {} intervals", left.len(), right.len()));
    }
    let pairs = left.iter().zip(right).enumerate();
    pairs.fold(Found::Same(Rule::Exact), |found, (index, (left, right))| {
        found.and(|| at(intervals(left, right, options), || format!("interval {}", index + 1)))
    })
}

fn intervals(left: &Interval, right: &Interval, options: &Options) -> Found {
    if (left.low_closed, left.high_closed) != (right.low_closed, right.high_closed) {
        return Found::different("ends that belong to one and not to the other");
    }
    value::same_expression(&left.low, &right.low, options)
        .and(|| value::same_expression(&left.high, &right.high, options))
}

/// In order of the lower ends, and joined where they overlap or touch. That two ends are the same
/// point is never taken from their approximate values alone.
fn ordered(intervals: Vec<Interval>, options: &Options) -> Vec<Interval> {
    let mut keyed: Vec<(f64, Interval)> =
        intervals.into_iter().map(|it| (place(&it.low), it)).collect();
    // Of equal lower ends the closed one comes first: joined to it, the others are inside.
    keyed.sort_by(|left, right| {
        left.0.total_cmp(&right.0).then(right.1.low_closed.cmp(&left.1.low_closed))
    });
    let mut joined: Vec<Interval> = Vec::new();
    for (start, next) in keyed {
        match joined.last_mut() {
            Some(last) if meets(last, start, &next, options) => extend(last, next, options),
            _ => joined.push(next),
        }
    }
    joined
}

/// `next`, which begins at `start` and not before `last` does, begins within `last` or at its end.
fn meets(last: &Interval, start: f64, next: &Interval, options: &Options) -> bool {
    let end = place(&last.high);
    let same = |left: &Expression| value::same_expression(left, &next.low, options).is_same();
    start < end
        || (start == end && (last.high_closed || next.low_closed) && same(&last.high))
        || (start == place(&last.low) && same(&last.low))
}

/// `last` reaches to the end of `next`, if that lies further.
fn extend(last: &mut Interval, next: Interval, options: &Options) {
    let (end, other) = (place(&last.high), place(&next.high));
    if end == other && value::same_expression(&last.high, &next.high, options).is_same() {
        last.high_closed |= next.high_closed;
    } else if other > end {
        last.high = next.high;
        last.high_closed = next.high_closed;
    }
}

fn place(end: &Expression) -> f64 {
    match infinity::sign(end) {
        Some(true) => f64::INFINITY,
        Some(false) => f64::NEG_INFINITY,
        None => numeric::approximate(end).unwrap_or(f64::NAN),
    }
}
