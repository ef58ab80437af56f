//! Piecewise answers whose last case is "otherwise".
//!
//! Invariant: "otherwise" stands for a condition only where that one and the other conditions cover
//! all real numbers.

use super::{inequality, sets};
use crate::expression::{Answer, Interval};
use crate::verdict::Options;

/// Whether a case is for whatever the others leave.
pub(super) fn has_rest(items: &[Answer]) -> bool {
    items.iter().any(|item| condition(item).is_some_and(is_rest))
}

/// `items` with the condition of `others` in place of "otherwise": the one that no case of `items`
/// has, if the conditions of `others` cover all real numbers.
pub(super) fn without_rest(items: &[Answer], others: &[Answer]) -> Option<Vec<Answer>> {
    let conditions: Vec<&Answer> = others.iter().map(condition).collect::<Option<_>>()?;
    let mut covered = Vec::new();
    for condition in &conditions {
        covered.extend(pieces(condition)?);
    }
    let options = Options::default();
    if !sets::sets(covered, vec![sets::all()], &options).is_same() {
        return None;
    }
    let taken: Vec<Vec<Interval>> = items.iter().filter_map(condition).filter_map(pieces).collect();
    let mut free = conditions.into_iter().filter(|condition| {
        let own = pieces(condition).unwrap_or_default();
        !taken.iter().any(|it| sets::sets(it.clone(), own.clone(), &options).is_same())
    });
    let (Some(rest), None) = (free.next(), free.next()) else { return None };
    let replaced = items.iter().map(|item| match item {
        Answer::Tuple(parts) if condition(item).is_some_and(is_rest) => {
            let mut parts = parts.clone();
            parts.pop();
            parts.push(rest.clone());
            Answer::Tuple(parts)
        }
        other => other.clone(),
    });
    Some(replaced.collect())
}

fn condition(item: &Answer) -> Option<&Answer> {
    match item {
        Answer::Tuple(parts) => parts.last(),
        _ => None,
    }
}

fn is_rest(condition: &Answer) -> bool {
    matches!(condition, Answer::Words(words) if words == "otherwise" || words == "else")
}

fn pieces(condition: &Answer) -> Option<Vec<Interval>> {
    match condition {
        Answer::Relation { sides, signs } => Some(inequality::solved(sides, signs)?.pieces),
        _ => None,
    }
}
