//! Relations: equations up to a factor, inequalities in one unknown as sets of real numbers.
//!
//! Invariant: a relation is turned into a set only where it is linear in one unknown, or in its
//! absolute value; everything else is compared side by side.

use super::{Found, at, sets, value};
use crate::exact::normal_form;
use crate::expression::{Answer, Constant, Expression, Interval, Sign, Value};
use crate::numeric;
use crate::verdict::{Options, Rule};

/// An inequality solved for its unknown.
pub(super) struct Solved {
    pub(super) unknown: Expression,
    pub(super) pieces: Vec<Interval>,
}

type Relation<'r> = (&'r [Answer], &'r [Sign]);

pub(super) fn relations(gold: Relation<'_>, answer: Relation<'_>, options: &Options) -> Found {
    if let (Some(left), Some(right)) = (solved(gold.0, gold.1), solved(answer.0, answer.1)) {
        if options.strict && left.unknown != right.unknown {
            return Found::different("different unknowns");
        }
        return sets(left.pieces, right.pieces, options);
    }
    let (left, right) = (oriented(gold), oriented(answer));
    if let Some(found) = by_difference(&left, &right) {
        return found;
    }
    side_by_side(&left, &right, options)
}

/// Sides and signs with every `>` turned round.
fn oriented((sides, signs): Relation<'_>) -> (Vec<Answer>, Vec<Sign>) {
    let turn = signs.iter().any(|sign| matches!(sign, Sign::Greater | Sign::GreaterOrEqual));
    if !turn {
        return (sides.to_vec(), signs.to_vec());
    }
    (sides.iter().rev().cloned().collect(), signs.iter().rev().map(|sign| flipped(*sign)).collect())
}

const fn flipped(sign: Sign) -> Sign {
    match sign {
        Sign::Less => Sign::Greater,
        Sign::LessOrEqual => Sign::GreaterOrEqual,
        Sign::Greater => Sign::Less,
        Sign::GreaterOrEqual => Sign::LessOrEqual,
        Sign::Equal | Sign::NotEqual | Sign::In => sign,
    }
}

/// `a = b` and `c = d` say the same if a − b is a multiple of c − d; so do `≠`.
fn by_difference(
    left: &(Vec<Answer>, Vec<Sign>),
    right: &(Vec<Answer>, Vec<Sign>),
) -> Option<Found> {
    let ([sign @ (Sign::Equal | Sign::NotEqual)], [other]) =
        (left.1.as_slice(), right.1.as_slice())
    else {
        return None;
    };
    if sign != other {
        return Some(Found::different("different relations"));
    }
    let difference = |sides: &[Answer]| match sides {
        [Answer::Value(first), Answer::Value(second)] => {
            let terms = vec![first.expression.clone(), second.expression.clone().negated()];
            normal_form(&Expression::Sum(terms)).ok()
        }
        _ => None,
    };
    let (left, right) = (difference(&left.0)?, difference(&right.0)?);
    left.is_multiple_of(&right).then_some(Found::Same(Rule::Algebra))
}

fn side_by_side(
    left: &(Vec<Answer>, Vec<Sign>),
    right: &(Vec<Answer>, Vec<Sign>),
    options: &Options,
) -> Found {
    if left.1 != right.1 {
        return Found::different("different relations");
    }
    let compare = |right: &[&Answer]| {
        let pairs = left.0.iter().zip(right).enumerate();
        pairs.fold(Found::Same(Rule::Exact), |found, (index, (left, right))| {
            found.and(|| at(super::same(left, right, options), || format!("side {}", index + 1)))
        })
    };
    let forward = compare(&right.0.iter().collect::<Vec<_>>());
    let symmetric = left.1.iter().all(|sign| matches!(sign, Sign::Equal | Sign::NotEqual));
    if forward.is_same() || !symmetric {
        return forward;
    }
    let backward = compare(&right.0.iter().rev().collect::<Vec<_>>());
    if backward.is_same() { backward } else { forward }
}

/// The set of real numbers that an inequality in one unknown describes.
pub(super) fn solved(sides: &[Answer], signs: &[Sign]) -> Option<Solved> {
    if signs.iter().any(|sign| matches!(sign, Sign::Equal | Sign::NotEqual | Sign::In)) {
        return None;
    }
    let sides: Option<Vec<&Expression>> = sides
        .iter()
        .map(|side| match side {
            Answer::Value(Value { expression, .. }) => Some(expression),
            _ => None,
        })
        .collect();
    let mut bounds: Option<(Expression, Bounds)> = None;
    for (pair, sign) in sides?.windows(2).zip(signs) {
        let (unknown, sign, end) = one_bound(pair[0], *sign, pair[1])?;
        let (known, bounds) = bounds.get_or_insert_with(|| (unknown.clone(), Bounds::default()));
        if *known != unknown {
            return None;
        }
        bounds.add(sign, end)?;
    }
    let (unknown, bounds) = bounds?;
    match value::inside_bars(&unknown) {
        Some(inside) => Some(Solved { unknown: inside.clone(), pieces: bounds.mirrored() }),
        None => Some(Solved { pieces: vec![bounds.interval()], unknown }),
    }
}

/// `left sign right` as a bound of its unknown: the unknown, the sign, the bound.
fn one_bound(
    left: &Expression,
    sign: Sign,
    right: &Expression,
) -> Option<(Expression, Sign, Expression)> {
    let (unknown_left, unknown_right) =
        (!value::has_no_unknown(left), !value::has_no_unknown(right));
    let (side, sign, end) = match (unknown_left, unknown_right) {
        (true, false) => (left, sign, right),
        (false, true) => (right, flipped(sign), left),
        _ => return None,
    };
    linear(side, sign, end)
}

/// Moves terms and factors of `side` to the other side, until the unknown is alone.
fn linear(
    side: &Expression,
    sign: Sign,
    end: &Expression,
) -> Option<(Expression, Sign, Expression)> {
    match side {
        Expression::Symbol(_) | Expression::Call(..) | Expression::Apply(..) => {
            Some((side.clone(), sign, end.clone()))
        }
        Expression::Sum(terms) => {
            let (mut unknown, constant): (Vec<_>, Vec<_>) =
                terms.iter().cloned().partition(|it| !value::has_no_unknown(it));
            if unknown.len() != 1 {
                return None;
            }
            let moved = Expression::sum(constant).negated();
            linear(&unknown.remove(0), sign, &Expression::Sum(vec![end.clone(), moved]))
        }
        Expression::Product(factors) => {
            let (mut unknown, constant): (Vec<_>, Vec<_>) =
                factors.iter().cloned().partition(|it| !value::has_no_unknown(it));
            if unknown.len() != 1 || constant.is_empty() {
                return None;
            }
            let factor = Expression::product(constant);
            let size = numeric::approximate(&factor)?;
            let sign = match size {
                _ if size > 0.0 => sign,
                _ if size < 0.0 => flipped(sign),
                _ => return None,
            };
            let moved = Expression::Product(vec![end.clone(), factor.inverted()]);
            linear(&unknown.remove(0), sign, &moved)
        }
        Expression::Number(_)
        | Expression::Constant(_)
        | Expression::Power(..)
        | Expression::Series(_) => None,
    }
}

#[derive(Default)]
struct Bounds {
    low: Option<(Expression, bool)>,
    high: Option<(Expression, bool)>,
}

impl Bounds {
    /// Each end at most once; `x < 1 < …` twice is nothing that is known here.
    fn add(&mut self, sign: Sign, end: Expression) -> Option<()> {
        let (place, closed) = match sign {
            Sign::Less => (&mut self.high, false),
            Sign::LessOrEqual => (&mut self.high, true),
            Sign::Greater => (&mut self.low, false),
            Sign::GreaterOrEqual => (&mut self.low, true),
            Sign::Equal | Sign::NotEqual | Sign::In => return None,
        };
        place.is_none().then(|| *place = Some((end, closed)))
    }

    fn interval(self) -> Interval {
        let infinity = || Expression::Constant(Constant::Infinity);
        let (low, low_closed) = self.low.unwrap_or_else(|| (infinity().negated(), false));
        let (high, high_closed) = self.high.unwrap_or_else(|| (infinity(), false));
        Interval { low, high, low_closed, high_closed }
    }

    /// Bounds of an absolute value, as bounds of what is inside.
    fn mirrored(self) -> Vec<Interval> {
        let Some((low, low_closed)) = self.low.clone() else {
            let mut whole = self.interval();
            whole.low = whole.high.clone().negated();
            whole.low_closed = whole.high_closed;
            return vec![whole];
        };
        let right = self.interval();
        let left = Interval {
            low: right.high.clone().negated(),
            high: low.negated(),
            low_closed: right.high_closed,
            high_closed: low_closed,
        };
        vec![left, right]
    }
}
