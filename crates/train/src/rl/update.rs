//! From chosen groups to changed weights: what is learnt from, in shares, and the optimiser's steps.
//!
//! Invariant: an update's loss is the sum over all tokens of its rollouts by one denominator, their
//! number (equation 6), however it is split into micro-batches; a loss or gradient that is no finite
//! number is not applied.

use rocstar_nn::step::{LogProbs, Model};
use rocstar_record::episode::Group;

use super::policy_loss::{Lesson, Mismatch, PolicyLoss, Totals, of_targets};
use crate::error::Error;
use crate::examples::Example;
use crate::learner::Learner;
use crate::packing::{Batch, micro_batches};
use crate::recipe::{OldLogProbs, RlStage};

/// What a step's updates did.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Updated {
    /// Updates that were applied.
    pub(crate) updates: usize,
    /// Tokens that went through the model.
    pub(crate) tokens: u64,
    /// Over all updates; the loss is the sum of theirs.
    pub(crate) totals: Totals,
    /// Of the rollouts of the first update, whose weights are those that sampled them; of all
    /// rollouts where the old log-probabilities are computed again.
    pub(crate) mismatch: Mismatch,
    /// Length of the gradient before it was clipped, the mean over updates.
    pub(crate) gradient_norm: f64,
    /// For each kept rollout of the groups, in order: log-probabilities of its tokens under the weights
    /// that learned from it; none where nothing was learned.
    pub(crate) trained_log_probs: Vec<Vec<f32>>,
}

/// The rollouts of some groups, ready to learn from.
struct Share {
    /// Kept rollouts of the shares before it.
    first: usize,
    examples: Vec<Example>,
    lessons: Vec<Lesson>,
    batches: Vec<Vec<usize>>,
}

/// Learns from the kept rollouts of `groups`. `reference` is the policy that the loss is kept near.
///
/// # Errors
/// A rollout doesn't fit the model, or the arithmetic broke down in `step`.
pub(crate) fn update(
    learner: &mut Learner,
    groups: &[&Group],
    options: &RlStage,
    reference: Option<&Model>,
    learning_rate: f64,
    step: u64,
) -> Result<Updated, Error> {
    let mut updated = Updated::default();
    let per_update = groups.len().div_ceil(options.updates_per_step).max(1);
    let mut first = 0;
    let mut shares: Vec<Share> = Vec::new();
    for groups in groups.chunks(per_update) {
        let share = Share::new(groups, first, options.tokens_per_micro_batch);
        first += share.lessons.len();
        shares.push(share);
    }
    updated.trained_log_probs.resize(first, Vec::new());
    shares.retain(|share| !share.batches.is_empty());
    // Both come from weights that the first update changes.
    for share in &mut shares {
        if options.old_log_probs == OldLogProbs::Recomputed {
            share.recompute_old(learner, &mut updated.mismatch)?;
        }
        if let Some(reference) = reference {
            share.refer_to(learner, reference)?;
        }
    }
    for (index, share) in shares.iter().enumerate() {
        let compares = index == 0 && options.old_log_probs == OldLogProbs::Sampled;
        share.learn(learner, options, compares, &mut updated)?;
        let gradient_norm = learner.gradient_norm();
        for (what, value) in
            [("the loss", updated.totals.loss), ("the norm of the gradient", gradient_norm)]
        {
            if !value.is_finite() {
                return Err(Error::NotFinite { step, what, value });
            }
        }
        learner.apply(learning_rate, gradient_norm);
        updated.gradient_norm += gradient_norm / shares.len() as f64;
        updated.updates += 1;
    }
    Ok(updated)
}

impl Share {
    fn new(groups: &[&Group], first: usize, most_tokens: usize) -> Self {
        let (mut examples, mut lessons) = (Vec::new(), Vec::new());
        for kept in groups.iter().flat_map(|group| &group.kept) {
            let mut learnt = kept.episode.loss_mask();
            // What comes after the last token of the policy teaches nothing.
            let end = learnt.iter().rposition(|learnt| *learnt).map_or(0, |last| last + 1);
            learnt.truncate(end);
            let tokens = kept.episode.tokens[..end].to_vec();
            let sampled: Vec<f64> =
                kept.episode.log_probs.iter().map(|value| f64::from(*value)).collect();
            let old = sampled.clone();
            lessons.push(Lesson { advantage: kept.advantage, sampled, old, reference: None });
            examples.push(Example { tokens, learnt });
        }
        let lengths: Vec<usize> = examples.iter().map(|example| example.tokens.len()).collect();
        let learnable: Vec<usize> =
            (0..examples.len()).filter(|index| lengths[*index] > 0).collect();
        let batches = micro_batches(&lengths, &learnable, most_tokens);
        Self { first, examples, lessons, batches }
    }

    fn denominator(&self) -> f64 {
        self.lessons.iter().map(|lesson| lesson.old.len()).sum::<usize>() as f64
    }

    fn recompute_old(
        &mut self,
        learner: &mut Learner,
        mismatch: &mut Mismatch,
    ) -> Result<(), Error> {
        let compute = |batch: &Batch| learner.log_probs(batch);
        self.deal_out(compute, |lesson, own| {
            lesson.old = own.to_vec();
            let pairs = lesson.old.iter().zip(&lesson.sampled);
            pairs.for_each(|(trainer, sampler)| mismatch.token(*trainer, *sampler));
        })
    }

    fn refer_to(&mut self, learner: &mut Learner, reference: &Model) -> Result<(), Error> {
        let compute = |batch: &Batch| learner.log_probs_of(reference, batch);
        self.deal_out(compute, |lesson, own| lesson.reference = Some(own.to_vec()))
    }

    /// Computes the log-probabilities of all rollouts, batch by batch, and gives each lesson its own.
    fn deal_out(
        &mut self,
        mut compute: impl FnMut(&Batch) -> Result<LogProbs, Error>,
        mut take: impl FnMut(&mut Lesson, &[f64]),
    ) -> Result<(), Error> {
        for group in &self.batches {
            let batch = Batch::new(&self.examples, group);
            let found = compute(&batch)?;
            let values = of_targets(batch.packed(), &found.log_probs);
            let mut rest = values.as_slice();
            for index in group {
                let lesson = &mut self.lessons[*index];
                let (own, after) = rest.split_at(lesson.old.len().min(rest.len()));
                rest = after;
                take(lesson, own);
            }
        }
        Ok(())
    }

    /// Adds the gradient of all rollouts of the share.
    fn learn(
        &self,
        learner: &mut Learner,
        options: &RlStage,
        compares: bool,
        updated: &mut Updated,
    ) -> Result<(), Error> {
        let denominator = self.denominator();
        for group in &self.batches {
            let batch = Batch::new(&self.examples, group);
            let lessons = group.iter().map(|index| &self.lessons[*index]).collect();
            let mut objective = PolicyLoss::new(lessons, &options.loss, denominator);
            if compares {
                objective = objective.comparing();
            }
            if PolicyLoss::needs_whole_sequences(&options.loss) {
                let found = learner.log_probs(&batch)?;
                objective = objective.with_log_probs(batch.packed(), &found);
            }
            learner.learn(&batch, &mut objective)?;
            let (totals, mismatch) = objective.totals();
            for (index, present) in group.iter().zip(objective.present()) {
                updated.trained_log_probs[self.first + index] = present.to_vec();
            }
            updated.totals.add(&totals);
            updated.mismatch.add(&mismatch.unwrap_or_default());
            updated.tokens += batch.packed().tokens.len() as u64;
        }
        Ok(())
    }
}
