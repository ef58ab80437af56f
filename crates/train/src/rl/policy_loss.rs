//! Carries the loss of [`rocstar_grpo::loss`] through the network: which token of a pack is which
//! token of which rollout, and what is reported of them.
//!
//! Invariant: the formula is the reference's own, called on slices of the rollout; only where the
//! ratio is the whole sequence's is the loss computed before the pass, since the network shows
//! log-probabilities chunk by chunk. The sums that are reported don't depend on how rollouts were
//! packed but for the last bits.

use std::ops::Range;

use rocstar_grpo::loss::{LossConfig, Ratio, Sequence, TokenLosses, sequence_loss};
use rocstar_nn::step::{LogProbs, NO_TARGET, Objective, Packed};

/// A rollout as the loss sees it: one value a token of the policy, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lesson {
    /// What each token is worth.
    pub(crate) advantage: f64,
    /// Recorded when sampling, under the sampling transform.
    pub(crate) sampled: Vec<f64>,
    /// Under the weights before the step's first update.
    pub(crate) old: Vec<f64>,
    /// Under the reference policy, where the loss has one.
    pub(crate) reference: Option<Vec<f64>>,
}

/// What is reported of the tokens that were learnt from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) loss: f64,
    pub(crate) tokens: usize,
    pub(crate) clipped_high: usize,
    pub(crate) clipped_low: usize,
    /// Sum over the tokens, in nats.
    pub(crate) entropy: f64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.clipped_high += other.clipped_high;
        self.clipped_low += other.clipped_low;
        self.entropy += other.entropy;
    }
}

/// How far the trainer's log-probabilities lie from those recorded when sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Mismatch {
    tokens: usize,
    divergence: f64,
    max_log_ratio: f64,
    ratios: f64,
    squared_ratios: f64,
}

impl Mismatch {
    pub(crate) fn token(&mut self, trainer: f64, sampler: f64) {
        let log_ratio = trainer - sampler;
        let ratio = log_ratio.exp();
        self.tokens += 1;
        // Schulman's k3.
        self.divergence += log_ratio.exp_m1() - log_ratio;
        self.max_log_ratio = self.max_log_ratio.max(log_ratio.abs());
        self.ratios += ratio;
        self.squared_ratios += ratio * ratio;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.divergence += other.divergence;
        self.max_log_ratio = self.max_log_ratio.max(other.max_log_ratio);
        self.ratios += other.ratios;
        self.squared_ratios += other.squared_ratios;
    }

    /// Mean of r − ln r − 1 over the tokens, with r = π_trainer / π_sampler.
    pub(crate) fn kl(&self) -> f64 {
        self.divergence / self.tokens.max(1) as f64
    }

    /// Largest of r and 1 / r.
    pub(crate) fn max_ratio(&self) -> f64 {
        self.max_log_ratio.exp()
    }

    /// (Σ r)² / (n Σ r²): 1 where both agree, towards 0 where few tokens carry all the weight.
    pub(crate) fn effective_sample_share(&self) -> f64 {
        if self.tokens == 0 {
            return 1.0;
        }
        self.ratios * self.ratios / (self.tokens as f64 * self.squared_ratios)
    }
}

/// The objective of one pack.
#[derive(Debug)]
pub(crate) struct PolicyLoss<'a> {
    config: &'a LossConfig,
    denominator: f64,
    lessons: Vec<&'a Lesson>,
    /// Where each lesson's tokens begin among all that are learnt, and their number at the end.
    starts: Vec<usize>,
    /// Tokens seen so far.
    seen: usize,
    /// Losses that were computed before the pass, by lesson.
    known: Option<Vec<TokenLosses>>,
    totals: Totals,
    mismatch: Option<Mismatch>,
    /// Of the tokens seen so far, under the present weights.
    present: Vec<f32>,
}

impl<'a> PolicyLoss<'a> {
    /// For the lessons of a pack, in its order. `denominator` is the number of tokens of all lessons
    /// of the update.
    pub(crate) fn new(lessons: Vec<&'a Lesson>, config: &'a LossConfig, denominator: f64) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for lesson in &lessons {
            end += lesson.old.len();
            starts.push(end);
        }
        Self {
            config,
            denominator,
            lessons,
            starts,
            seen: 0,
            known: None,
            totals: Totals::default(),
            mismatch: None,
            present: Vec::new(),
        }
    }

    /// Also compares with what was recorded when sampling.
    pub(crate) fn comparing(mut self) -> Self {
        self.mismatch = Some(Mismatch::default());
        self
    }

    /// The ratio needs the whole sequence before any of its derivatives is known.
    pub(crate) const fn needs_whole_sequences(config: &LossConfig) -> bool {
        matches!(config.ratio, Ratio::Sequence)
    }

    /// Takes the log-probabilities of the whole pack, under the present weights.
    pub(crate) fn with_log_probs(mut self, packed: Packed<'_>, found: &LogProbs) -> Self {
        let log_probs = of_targets(packed, &found.log_probs);
        let entropies = of_targets(packed, &found.entropies);
        let losses = self.lessons.iter().zip(self.starts.windows(2)).map(|(lesson, bounds)| {
            let range = bounds[0]..bounds[1];
            let whole = 0..lesson.old.len();
            self.loss_of(lesson, whole, &log_probs[range.clone()], &entropies[range])
        });
        self.known = Some(losses.collect());
        self
    }

    /// What was seen, after the pass.
    pub(crate) const fn totals(&self) -> (Totals, Option<Mismatch>) {
        (self.totals, self.mismatch)
    }

    /// Log-probabilities of each lesson's tokens under the weights of the pass, after it.
    pub(crate) fn present(&self) -> impl Iterator<Item = &[f32]> {
        let bounds = self.starts.windows(2);
        bounds.map(|bounds| self.present.get(bounds[0]..bounds[1]).unwrap_or_default())
    }

    fn loss_of(
        &self,
        lesson: &Lesson,
        tokens: Range<usize>,
        log_probs: &[f64],
        entropies: &[f64],
    ) -> TokenLosses {
        let sequence = Sequence {
            log_probs,
            old_log_probs: &lesson.old[tokens.clone()],
            behaviour_log_probs: Some(&lesson.sampled[tokens.clone()]),
            reference_log_probs: lesson.reference.as_deref().map(|it| &it[tokens]),
            entropies: Some(entropies),
            advantage: lesson.advantage,
        };
        sequence_loss(&sequence, self.config, self.denominator)
    }
}

impl Objective for PolicyLoss<'_> {
    fn rows(
        &mut self,
        positions: &[usize],
        log_probs: &[f32],
        entropies: &[f32],
        d_log_probs: &mut [f32],
        d_entropies: &mut [f32],
    ) {
        let (begin, end) = (self.seen, self.seen + positions.len());
        self.seen = end;
        self.present.extend_from_slice(log_probs);
        let wide = |values: &[f32]| values.iter().map(|it| f64::from(*it)).collect::<Vec<_>>();
        let (log_probs, entropies) = (wide(log_probs), wide(entropies));
        let first = self.starts.partition_point(|start| *start <= begin).saturating_sub(1);
        for index in first..self.lessons.len() {
            let (start, stop) = (self.starts[index].max(begin), self.starts[index + 1].min(end));
            if start >= stop {
                continue;
            }
            let lesson = self.lessons[index];
            // The same tokens, counted within the lesson and within these rows.
            let own = start - self.starts[index]..stop - self.starts[index];
            let here = start - begin..stop - begin;
            let (log_probs, entropies) = (&log_probs[here.clone()], &entropies[here.clone()]);
            if let Some(mismatch) = &mut self.mismatch {
                let pairs = log_probs.iter().zip(&lesson.sampled[own.clone()]);
                pairs.for_each(|(trainer, sampler)| mismatch.token(*trainer, *sampler));
            }
            let losses = match &self.known {
                Some(known) => part(&known[index], &own),
                None => self.loss_of(lesson, own, log_probs, entropies),
            };
            self.totals.loss += losses.loss;
            self.totals.clipped_high += losses.clipped_high;
            self.totals.clipped_low += losses.clipped_low;
            copy(&losses.by_log_prob, &mut d_log_probs[here.clone()]);
            copy(&losses.by_entropy, &mut d_entropies[here]);
        }
        self.totals.tokens += positions.len();
        self.totals.entropy += entropies.iter().sum::<f64>();
    }
}

/// A part of a lesson's losses; the sums are given out with its last token.
fn part(losses: &TokenLosses, tokens: &Range<usize>) -> TokenLosses {
    let by_log_prob = losses.by_log_prob[tokens.clone()].to_vec();
    let by_entropy = losses.by_entropy[tokens.clone()].to_vec();
    if tokens.end < losses.by_log_prob.len() {
        return TokenLosses { by_log_prob, by_entropy, ..TokenLosses::default() };
    }
    TokenLosses { by_log_prob, by_entropy, ..losses.clone() }
}

fn copy(from: &[f64], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from as f32;
    }
}

/// The values at positions that have a target, in order.
pub(crate) fn of_targets(packed: Packed<'_>, values: &[f32]) -> Vec<f64> {
    let pairs = values.iter().zip(packed.targets);
    let learnt = pairs.filter(|(_, target)| **target != NO_TARGET);
    learnt.map(|(value, _)| f64::from(*value)).collect()
}
