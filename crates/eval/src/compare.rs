//! Two results against each other, problem by problem.
//!
//! The difference of the scores, and how sure it is, by a paired bootstrap: problems are drawn again
//! with putting back, each with both of its scores, so that what problems differ in cancels out. The
//! interval holds the middle 95 % of the drawn differences; the p-value is the share of draws that
//! differ from the mean by at least as much as the mean does from nothing, the result itself counted
//! as one of them. Where a suite weighs categories alike, problems are drawn within their category.
//!
//! Invariants: the same results and seed give the same comparison; only problems that both have count,
//! and those that one lacks are named; differences of the protocols are told, never passed over.

use std::collections::{BTreeMap, BTreeSet};

use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::TaskId;
use serde::Serialize;

use crate::metrics::quantile;
use crate::protocol::Difference;
use crate::report::{EvalResult, ProblemResult, Status};

/// How differences are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareOptions {
    /// Names the draws.
    pub seed: u64,
    /// How often problems are drawn again.
    pub draws: usize,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { seed: 0, draws: 10_000 }
    }
}

/// Two results against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Models, in the order given.
    pub models: [String; 2],
    /// Suites, in the order given.
    pub suites: [String; 2],
    /// Why the figures say little about the models alone.
    pub warnings: Vec<String>,
    /// In what the protocols differ, the models apart.
    pub differences: Vec<Difference>,
    /// Problems that only one has, in the order of the results.
    pub alone: [Vec<TaskId>; 2],
    /// Problems that both have.
    pub problems: usize,
    /// Their scores on these.
    pub scores: [f64; 2],
    /// The second's score less the first's.
    pub difference: f64,
    /// The middle 95 % of the drawn differences.
    pub interval: [f64; 2],
    /// Chance of a difference of at least this size where there is none.
    pub p_value: f64,
    /// How often problems were drawn again, and by which seed.
    pub draws: usize,
    /// The draws' seed.
    pub seed: u64,
    /// Problems whose score changed, the largest changes first.
    pub moved: Vec<Moved>,
    /// Mean tokens of a response, where both say.
    pub response_tokens_mean: Option<[f64; 2]>,
}

/// A problem whose score changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// The problem.
    pub id: TaskId,
    /// Its mean scores.
    pub scores: [f64; 2],
}

/// Why two results can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// They have no problem in common.
    #[error(
        "the two results have no problem in common: the first is of `{first}`, the second of `{second}`"
    )]
    NothingInCommon {
        /// Suite of the first.
        first: String,
        /// Suite of the second.
        second: String,
    },
    /// Nothing is drawn.
    #[error("`draws` must be at least 1")]
    NoDraws,
}

/// A problem that both have.
struct Pair<'a> {
    results: [&'a ProblemResult; 2],
    scores: [f64; 2],
}

/// Compares the second result with the first.
///
/// # Errors
/// They have no problem in common.
pub fn compare(
    first: &EvalResult,
    second: &EvalResult,
    options: CompareOptions,
) -> Result<Comparison, CompareError> {
    if options.draws == 0 {
        return Err(CompareError::NoDraws);
    }
    let suites = [first, second].map(|result| result.protocol.suite.name.clone());
    let pairs = pairs(first, second);
    if pairs.is_empty() {
        let [first, second] = suites;
        return Err(CompareError::NothingInCommon { first, second });
    }
    let weighs = first.figures.as_ref().is_some_and(|figures| figures.weighs_categories);
    let strata_of = |number: &dyn Fn([f64; 2]) -> f64| strata(&pairs, weighs, number);
    let strata = strata_of(&|scores| scores[1] - scores[0]);
    let difference = mean_of_means(&strata);
    let (interval, p_value) = bootstrap(&strata, difference, options);
    let differences = first.protocol.incomparable(&second.protocol);
    let alone = [only_in(first, second), only_in(second, first)];
    let scores = [0, 1].map(|side: usize| mean_of_means(&strata_of(&|scores| scores[side])));
    Ok(Comparison {
        models: [first, second].map(|result| result.protocol.model.name.clone()),
        suites,
        warnings: warnings([first, second], &differences, &alone),
        differences,
        alone,
        problems: pairs.len(),
        scores,
        difference,
        interval,
        p_value,
        draws: options.draws,
        seed: options.seed,
        moved: moved(&pairs),
        response_tokens_mean: response_tokens(&pairs),
    })
}

fn pairs<'a>(first: &'a EvalResult, second: &'a EvalResult) -> Vec<Pair<'a>> {
    let others: BTreeMap<&TaskId, &ProblemResult> =
        second.problems.iter().map(|problem| (&problem.id, problem)).collect();
    let pair = |problem: &'a ProblemResult| {
        let results = [problem, *others.get(&problem.id)?];
        Some(Pair { results, scores: results.map(mean_score) })
    };
    first.problems.iter().filter_map(pair).collect()
}

fn mean_score(problem: &ProblemResult) -> f64 {
    problem.values.iter().sum::<f64>() / problem.values.len().max(1) as f64
}

fn only_in(result: &EvalResult, other: &EvalResult) -> Vec<TaskId> {
    let there: BTreeSet<&TaskId> = other.problems.iter().map(|problem| &problem.id).collect();
    let ids = result.problems.iter().map(|problem| &problem.id);
    ids.filter(|id| !there.contains(id)).cloned().collect()
}

/// A number of each problem, by category where categories weigh alike.
fn strata(
    pairs: &[Pair<'_>],
    by_category: bool,
    number: &dyn Fn([f64; 2]) -> f64,
) -> Vec<Vec<f64>> {
    let mut strata: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    for Pair { results, scores } in pairs {
        let category = results[0].category.as_deref().filter(|_| by_category);
        strata.entry(category).or_default().push(number(*scores));
    }
    strata.into_values().collect()
}

fn mean_of_means(strata: &[Vec<f64>]) -> f64 {
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    strata.iter().map(mean).sum::<f64>() / strata.len() as f64
}

/// The interval, and the p-value.
fn bootstrap(strata: &[Vec<f64>], difference: f64, options: CompareOptions) -> ([f64; 2], f64) {
    let mut drawn: Vec<f64> = (0..options.draws as u64)
        .map(|number| {
            let key = Key { task: number, ..Key::new(options.seed, Purpose::Evaluation) };
            let mut draws = key.at(0);
            let mut mean = |values: &Vec<f64>| {
                let count = values.len() as u64;
                let sum: f64 = values.iter().map(|_| values[draws.below(count) as usize]).sum();
                sum / count as f64
            };
            strata.iter().map(&mut mean).sum::<f64>() / strata.len() as f64
        })
        .collect();
    // Sums in another order differ in the last digits.
    let at_least = difference.abs() - 1e-12;
    let as_far = drawn.iter().filter(|value| (*value - difference).abs() >= at_least).count();
    drawn.sort_by(f64::total_cmp);
    let p_value = (as_far + 1) as f64 / (options.draws + 1) as f64;
    ([quantile(&drawn, 0.025), quantile(&drawn, 0.975)], p_value)
}

fn moved(pairs: &[Pair<'_>]) -> Vec<Moved> {
    let changed = pairs.iter().filter(|pair| pair.scores[0] != pair.scores[1]);
    let mut moved: Vec<Moved> =
        changed.map(|pair| Moved { id: pair.results[0].id.clone(), scores: pair.scores }).collect();
    let size = |it: &Moved| (it.scores[1] - it.scores[0]).abs();
    moved.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.id.cmp(&b.id)));
    moved
}

fn response_tokens(pairs: &[Pair<'_>]) -> Option<[f64; 2]> {
    let mut sums = [0.0; 2];
    for pair in pairs {
        for (sum, result) in sums.iter_mut().zip(pair.results) {
            *sum += result.response_tokens_mean?;
        }
    }
    Some(sums.map(|sum| sum / pairs.len() as f64))
}

fn warnings(
    results: [&EvalResult; 2],
    differences: &[Difference],
    alone: &[Vec<TaskId>; 2],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if !differences.is_empty() {
        let all: Vec<String> = differences
            .iter()
            .map(|it| format!("`{}` is {} and {}", it.field, it.first, it.second))
            .collect();
        warnings.push(format!("the protocols differ: {}", all.join("; ")));
    }
    for (which, (result, alone)) in ["first", "second"].iter().zip(results.iter().zip(alone)) {
        if !alone.is_empty() {
            warnings.push(format!("only the {which} result has {} of its problems", alone.len()));
        }
        if result.status == Status::Partial {
            warnings.push(format!("the {which} result is partial: {} missing", result.missing));
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
