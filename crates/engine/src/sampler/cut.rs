//! Top-k, top-p and min-p in time linear in the vocabulary.
//!
//! Invariant: what is kept depends on the values and ids alone; of equal values the lower id counts
//! as the likelier. At least one token is kept.

use std::cmp::Ordering;

use super::vector::{CHUNK, exp};
use crate::request::Sampling;

/// A token that may be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
    /// exp((logit - maximum) / temperature): 1 for the likeliest.
    pub(super) weight: f32,
}

/// A row of logits with what a sweep found out about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f32],
    /// Largest value of each chunk.
    pub(super) maxima: &'a [f32],
    pub(super) maximum: f32,
}

/// Some token is cut off.
pub(super) fn cuts(sampling: &Sampling, vocabulary: usize) -> bool {
    sampling.top_k.is_some_and(|top_k| top_k < vocabulary)
        || sampling.top_p < 1.0
        || sampling.min_p > 0.0
}

/// The tokens that `sampling` keeps, in the order of their ids. `total` is the weight of all tokens.
pub(super) fn keep(
    row: Row<'_>,
    sampling: &Sampling,
    inverse_temperature: f32,
    total: f64,
    kept: &mut Vec<Candidate>,
) {
    match sampling.top_k {
        Some(top_k) if top_k < row.logits.len() => {
            likeliest(row, top_k, inverse_temperature, kept);
            if sampling.top_p < 1.0 {
                let target = mass(kept) * f64::from(sampling.top_p);
                trim(kept, target, weight);
            }
        }
        Some(_) | None if sampling.top_p < 1.0 => {
            let target = total * f64::from(sampling.top_p);
            gather_mass(row, inverse_temperature, target, kept);
            trim(kept, target, weight);
        }
        Some(_) | None => {
            // min-p alone: a token below the bound has too small a weight. The bound is a little
            // low, for rounding; the exact test follows.
            let slack = row.maximum.abs() * 4.0 * f32::EPSILON;
            let bound = row.maximum + (sampling.min_p.ln() - 0.01) / inverse_temperature - slack;
            gather(row, bound, inverse_temperature, kept);
        }
    }
    if sampling.min_p > 0.0 {
        kept.retain(|candidate| candidate.weight >= sampling.min_p);
    }
}

/// The `count` likeliest tokens, in the order of their ids.
pub(super) fn likeliest(
    row: Row<'_>,
    count: usize,
    inverse_temperature: f32,
    kept: &mut Vec<Candidate>,
) {
    gather(row, bound_of_likeliest(row.maxima, count), inverse_temperature, kept);
    trim(kept, count as f64, |_| 1.0);
}

/// Likelier tokens first.
pub(super) fn likelier(left: &Candidate, right: &Candidate) -> Ordering {
    let by_logit = right.logit.partial_cmp(&left.logit).unwrap_or(Ordering::Equal);
    by_logit.then(left.id.cmp(&right.id))
}

/// A value that at least `count` values of the row reach: the `count`-th largest of the chunks'
/// maxima.
fn bound_of_likeliest(maxima: &[f32], count: usize) -> f32 {
    if count == 0 || count > maxima.len() {
        return f32::NEG_INFINITY;
    }
    let mut maxima = maxima.to_vec();
    *maxima.select_nth_unstable_by(count - 1, |left, right| right.total_cmp(left)).1
}

/// All tokens whose logit reaches `bound`, in the order of their ids.
fn gather(row: Row<'_>, bound: f32, inverse_temperature: f32, kept: &mut Vec<Candidate>) {
    kept.clear();
    let chunks = row.logits.chunks(CHUNK).zip(row.maxima).enumerate();
    for (index, (chunk, _)) in chunks.filter(|(_, (_, maximum))| **maximum >= bound) {
        let first = (index * CHUNK) as u32;
        for (logit, id) in chunk.iter().zip(first..) {
            if *logit >= bound {
                let weight = exp((logit - row.maximum) * inverse_temperature);
                kept.push(Candidate { id, logit: *logit, weight });
            }
        }
    }
}

/// Likeliest tokens whose weights sum to at least `target`, and not many more where the
/// distribution is peaked; all tokens otherwise.
fn gather_mass(row: Row<'_>, inverse_temperature: f32, target: f64, kept: &mut Vec<Candidate>) {
    for depth in [5.0, 10.0] {
        gather(row, row.maximum - depth / inverse_temperature, inverse_temperature, kept);
        if mass(kept) >= target {
            return;
        }
    }
    gather(row, f32::NEG_INFINITY, inverse_temperature, kept);
}

fn mass(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(weight).sum()
}

fn weight(candidate: &Candidate) -> f64 {
    f64::from(candidate.weight)
}

/// Leaves the fewest likeliest candidates that are worth at least `target` together, in their order.
/// They are counted into bins of equal width by their logits; only the bin at the border is sorted.
fn trim(candidates: &mut Vec<Candidate>, target: f64, worth: impl Fn(&Candidate) -> f64) {
    let logits = candidates.iter().map(|candidate| candidate.logit);
    let highest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let lowest = logits.fold(f32::INFINITY, f32::min);
    let bins = candidates.len().next_power_of_two().min(4096);
    let scale = (bins - 1) as f32 / (highest - lowest);
    // Of equal logits the scale is infinite; the product is then no number and the bin is 0.
    let bin =
        |candidate: &Candidate| (((highest - candidate.logit) * scale) as usize).min(bins - 1);
    let mut worths = vec![0.0; bins];
    for candidate in &*candidates {
        worths[bin(candidate)] += worth(candidate);
    }
    let mut before = 0.0;
    let reaches = |worth: &f64| {
        let reached = before + worth >= target;
        if !reached {
            before += worth;
        }
        reached
    };
    let Some(border) = worths.iter().position(reaches) else {
        return;
    };
    let at_border = candidates.iter().filter(|candidate| bin(candidate) == border).copied();
    let mut at_border: Vec<Candidate> = at_border.collect();
    at_border.sort_unstable_by(likelier);
    let last = at_border.iter().find(|candidate| {
        before += worth(candidate);
        before >= target
    });
    // Rounding may leave the sum a trifle short: then all of the bin is kept.
    let Some(last) = last.or_else(|| at_border.last()) else {
        return;
    };
    candidates.retain(|candidate| {
        let at = bin(candidate);
        at < border || (at == border && likelier(candidate, last) != Ordering::Greater)
    });
}
