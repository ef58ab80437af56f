//! From logits to a token and its log-probabilities, many rows at once.
//!
//! A row is swept twice, for its maximum and for its sum of exponentials; no probabilities are
//! written and nothing of the length of the vocabulary is sorted. A token is drawn by walking the
//! cumulative distribution in the order of the ids, first over sums of chunks, then within one.
//!
//! Invariant: the outcome of a task depends on its row and what it asks alone, bit for bit: not on
//! other rows, the number of threads, or the machine's instructions.

mod cut;
#[cfg(test)]
mod tests;
mod vector;

use pulp::Arch;
use rayon::prelude::*;
use rocstar_record::draw::Key;

use self::cut::{Candidate, Row};
use self::vector::{CHUNK, exp};
use crate::request::Sampling;

/// What is wanted of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want {
    /// A token, drawn at `position` of the stream `key`.
    Draw { sampling: Sampling, key: Key, position: u64 },
    /// The log-probability of a token that is given.
    Given { token: u32 },
}

/// One row's work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    /// Which row of the logits.
    pub(crate) row: usize,
    pub(crate) want: Want,
    /// How many of the likeliest tokens are wanted.
    pub(crate) top: usize,
}

/// What came of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) token: u32,
    /// Under temperature and cuts; the model's own for a given token.
    pub(crate) log_prob: f32,
    /// Under the model's own distribution.
    pub(crate) model_log_prob: f32,
    /// The likeliest of the model's own distribution, likeliest first.
    pub(crate) top: Vec<(u32, f32)>,
}

/// A row holds something that is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotFinite;

/// Below this many logits in all, threads cost more than they bring.
const LEAST_PARALLEL: usize = 1 << 16;

/// Draws tokens; keeps its working memory.
#[derive(Debug)]
pub(crate) struct Sampler {
    arch: Arch,
    scratch: Vec<Scratch>,
}

/// Working memory of one row.
#[derive(Debug, Default)]
struct Scratch {
    maxima: Vec<f32>,
    /// Sums of chunks at temperature 1.
    model_sums: Vec<f32>,
    /// Sums of chunks at another temperature.
    sums: Vec<f32>,
    kept: Vec<Candidate>,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self { arch: Arch::new(), scratch: Vec::new() }
    }

    /// Carries out `tasks` on `logits`, rows of `vocabulary` values; outcomes in their order.
    pub(crate) fn run(
        &mut self,
        logits: &[f32],
        vocabulary: usize,
        tasks: &[Task],
        outcomes: &mut Vec<Result<Outcome, NotFinite>>,
    ) {
        let arch = self.arch;
        if self.scratch.len() < tasks.len() {
            self.scratch.resize_with(tasks.len(), Scratch::default);
        }
        outcomes.clear();
        let one = |task: &Task, scratch: &mut Scratch| {
            let row = &logits[task.row * vocabulary..][..vocabulary];
            scratch.carry_out(arch, row, task)
        };
        if tasks.len() > 1 && tasks.len() * vocabulary >= LEAST_PARALLEL {
            let work = tasks.par_iter().zip(&mut self.scratch);
            work.map(|(task, scratch)| one(task, scratch)).collect_into_vec(outcomes);
        } else {
            let work = tasks.iter().zip(&mut self.scratch);
            outcomes.extend(work.map(|(task, scratch)| one(task, scratch)));
        }
    }
}

impl Scratch {
    fn carry_out(&mut self, arch: Arch, logits: &[f32], task: &Task) -> Result<Outcome, NotFinite> {
        if !vector::maxima(arch, logits, &mut self.maxima) {
            return Err(NotFinite);
        }
        let maximum = self.maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        vector::sums(arch, logits, maximum, 1.0, &mut self.model_sums);
        let model_log_total = total(&self.model_sums).ln();
        let model_log_prob =
            |token: u32| (f64::from(logits[token as usize] - maximum) - model_log_total) as f32;
        let (token, log_prob) = match task.want {
            Want::Given { token } => (token, model_log_prob(token)),
            Want::Draw { sampling, key, position } => {
                self.draw(arch, logits, maximum, &sampling, key.at(position).uniform())
            }
        };
        let top = self.top(logits, maximum, task.top);
        let top = top.iter().map(|candidate| (candidate.id, model_log_prob(candidate.id)));
        let top = top.collect();
        Ok(Outcome { token, log_prob, model_log_prob: model_log_prob(token), top })
    }

    /// A token and its log-probability under `sampling`; `uniform` lies in [0, 1).
    fn draw(
        &mut self,
        arch: Arch,
        logits: &[f32],
        maximum: f32,
        sampling: &Sampling,
        uniform: f64,
    ) -> (u32, f32) {
        if sampling.temperature == 0.0 {
            return (first(logits, &self.maxima, maximum), 0.0);
        }
        // Bounded, so that 0 · ∞ can't arise at temperatures near zero.
        let inverse_temperature = sampling.temperature.recip().min(f32::MAX);
        let sums = if inverse_temperature == 1.0 {
            &self.model_sums
        } else {
            vector::sums(arch, logits, maximum, inverse_temperature, &mut self.sums);
            &self.sums
        };
        let all = total(sums);
        let (token, logit, mass) = if cut::cuts(sampling, logits.len()) {
            let row = Row { logits, maxima: &self.maxima, maximum };
            cut::keep(row, sampling, inverse_temperature, all, &mut self.kept);
            let mass = self.kept.iter().map(|candidate| f64::from(candidate.weight)).sum();
            let (token, logit) = walk_kept(&self.kept, uniform * mass);
            (token, logit, mass)
        } else {
            let token = walk(logits, sums, maximum, inverse_temperature, uniform * all);
            (token, logits[token as usize], all)
        };
        let scaled = f64::from((logit - maximum) * inverse_temperature);
        (token, (scaled - mass.ln()) as f32)
    }

    /// The likeliest tokens, likeliest first.
    fn top(&mut self, logits: &[f32], maximum: f32, count: usize) -> &[Candidate] {
        self.kept.clear();
        if count > 0 {
            let row = Row { logits, maxima: &self.maxima, maximum };
            cut::likeliest(row, count, 1.0, &mut self.kept);
            self.kept.sort_unstable_by(cut::likelier);
        }
        &self.kept
    }
}

fn total(sums: &[f32]) -> f64 {
    sums.iter().map(|sum| f64::from(*sum)).sum()
}

/// The lowest id of the largest value.
fn first(logits: &[f32], maxima: &[f32], maximum: f32) -> u32 {
    let chunk = maxima.iter().position(|largest| *largest == maximum).unwrap_or(0);
    let within = logits[chunk * CHUNK..].iter().position(|logit| *logit == maximum).unwrap_or(0);
    (chunk * CHUNK + within) as u32
}

/// The first token whose cumulative weight exceeds `target`.
fn walk(logits: &[f32], sums: &[f32], maximum: f32, inverse_temperature: f32, target: f64) -> u32 {
    let (mut below, mut chunk) = (0.0, 0);
    for (index, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
        chunk = index;
        if below + f64::from(*sum) > target {
            break;
        }
        below += f64::from(*sum);
    }
    // The sums of chunks are rounded otherwise than the sum below: past the end, the last token
    // with any weight is taken.
    let start = chunk * CHUNK;
    let mut token = start;
    let end = logits.len().min(start + CHUNK);
    for (index, logit) in logits[start..end].iter().enumerate() {
        let weight = exp((logit - maximum) * inverse_temperature);
        if weight > 0.0 {
            token = start + index;
            below += f64::from(weight);
            if below > target {
                break;
            }
        }
    }
    token as u32
}

/// As [`walk`], over the tokens that were kept.
fn walk_kept(kept: &[Candidate], target: f64) -> (u32, f32) {
    let mut below = 0.0;
    let mut last = (0, f32::NEG_INFINITY);
    for candidate in kept.iter().filter(|candidate| candidate.weight > 0.0) {
        last = (candidate.id, candidate.logit);
        below += f64::from(candidate.weight);
        if below > target {
            break;
        }
    }
    last
}
