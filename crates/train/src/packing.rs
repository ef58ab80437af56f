//! Which sequences each step learns from, and how they go through the model together.
//!
//! Invariant: both are pure functions of the sequences' lengths, the recipe and the seed, so a run
//! that goes on needs no more than the number of the step. Each sequence is there once an epoch;
//! steps don't reach into the next epoch, so an epoch's last step may be smaller.

use rocstar_nn::step::{NO_TARGET, Packed};
use rocstar_record::draw::{Key, Purpose};

use crate::examples::Example;

/// How much one step learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepSize {
    /// This many sequences.
    Sequences(usize),
    /// As many sequences as these tokens hold.
    Tokens(usize),
}

/// How long a stage goes on: until the first of the two that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Passes over the data.
    pub epochs: Option<u64>,
    /// Steps.
    pub steps: Option<u64>,
}

/// One step: which sequences it learns from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPlan {
    /// Pass over the data, from 0.
    pub epoch: u64,
    /// Indices of its sequences.
    pub sequences: Vec<usize>,
}

/// All steps of a stage; none without sequences, or where `length` says nothing.
pub fn steps(
    lengths: &[usize],
    size: StepSize,
    length: Length,
    seed: u64,
    stage: usize,
) -> Vec<StepPlan> {
    let Length { epochs, steps } = length;
    let mut all = Vec::new();
    if lengths.is_empty() || (epochs.is_none() && steps.is_none()) {
        return all;
    }
    let most = steps.map_or(usize::MAX, |steps| usize::try_from(steps).unwrap_or(usize::MAX));
    for epoch in 0..epochs.unwrap_or(u64::MAX) {
        if all.len() >= most {
            break;
        }
        all.extend(epoch_steps(lengths, size, seed, stage, epoch));
    }
    all.truncate(most);
    all
}

fn epoch_steps(
    lengths: &[usize],
    size: StepSize,
    seed: u64,
    stage: usize,
    epoch: u64,
) -> Vec<StepPlan> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    let key = Key {
        // An epoch number beyond 32 bits would take longer than any run.
        step: u32::try_from(epoch).unwrap_or(u32::MAX),
        task: stage as u64,
        ..Key::new(seed, Purpose::Shuffle)
    };
    key.at(0).shuffle(&mut order);
    let mut steps: Vec<StepPlan> = Vec::new();
    let mut tokens = 0;
    for index in order {
        tokens += lengths[index];
        let fits = |step: &StepPlan| match size {
            StepSize::Sequences(most) => step.sequences.len() < most,
            StepSize::Tokens(most) => tokens <= most,
        };
        match steps.last_mut() {
            Some(step) if fits(step) => step.sequences.push(index),
            _ => {
                tokens = lengths[index];
                steps.push(StepPlan { epoch, sequences: vec![index] });
            }
        }
    }
    steps
}

/// Puts sequences together so that each group has at most `most_tokens` tokens: the longest first,
/// each into the first group that has room. A sequence that is longer is a group of its own.
pub fn micro_batches(
    lengths: &[usize],
    sequences: &[usize],
    most_tokens: usize,
) -> Vec<Vec<usize>> {
    let mut sorted = sequences.to_vec();
    sorted.sort_by_key(|index| std::cmp::Reverse(lengths[*index]));
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for index in sorted {
        let tokens = lengths[index];
        match groups.iter_mut().find(|(used, _)| used + tokens <= most_tokens) {
            Some((used, group)) => {
                *used += tokens;
                group.push(index);
            }
            None => groups.push((tokens, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Sequences one after the other, as the model takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    tokens: Vec<u32>,
    starts: Vec<usize>,
    targets: Vec<u32>,
}

impl Batch {
    /// Puts the sequences of `group` one after the other.
    pub fn new(examples: &[Example], group: &[usize]) -> Self {
        let mut batch = Self { starts: vec![0], ..Self::default() };
        for index in group {
            let Example { tokens, learnt } = &examples[*index];
            batch.tokens.extend_from_slice(tokens);
            batch.starts.push(batch.tokens.len());
            let next = tokens.iter().zip(learnt).skip(1);
            batch
                .targets
                .extend(next.map(|(token, learnt)| if *learnt { *token } else { NO_TARGET }));
            batch.targets.push(NO_TARGET);
        }
        batch
    }

    /// As the model takes it.
    pub fn packed(&self) -> Packed<'_> {
        Packed { tokens: &self.tokens, starts: &self.starts, targets: &self.targets }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_position_learns_the_next_token() {
        let examples = [
            Example { tokens: vec![1, 2, 3], learnt: vec![false, false, true] },
            Example { tokens: vec![4, 5], learnt: vec![false, true] },
        ];
        let batch = Batch::new(&examples, &[1, 0]);
        assert_eq!(batch.tokens, [4, 5, 1, 2, 3]);
        assert_eq!(batch.starts, [0, 2, 5]);
        assert_eq!(batch.targets, [5, NO_TARGET, NO_TARGET, 3, NO_TARGET]);
    }

    const fn epochs(epochs: u64) -> Length {
        Length { epochs: Some(epochs), steps: None }
    }

    #[test]
    fn the_order_is_drawn_anew_each_epoch_and_is_the_same_again() {
        let all = steps(&[1; 20], StepSize::Sequences(8), epochs(2), 5, 0);
        let sizes: Vec<_> = all.iter().map(|step| (step.epoch, step.sequences.len())).collect();
        assert_eq!(sizes, [(0, 8), (0, 8), (0, 4), (1, 8), (1, 8), (1, 4)]);
        assert_ne!(all[0].sequences, all[3].sequences);
        assert_eq!(all, steps(&[1; 20], StepSize::Sequences(8), epochs(2), 5, 0));
        assert_ne!(all, steps(&[1; 20], StepSize::Sequences(8), epochs(2), 6, 0));
        assert_ne!(all, steps(&[1; 20], StepSize::Sequences(8), epochs(2), 5, 1));
        let four = Length { epochs: None, steps: Some(4) };
        assert_eq!(steps(&[1; 20], StepSize::Sequences(8), four, 5, 0), all[..4]);
        let first = Length { epochs: Some(1), steps: Some(4) };
        assert_eq!(steps(&[1; 20], StepSize::Sequences(8), first, 5, 0), all[..3]);
    }

    proptest! {
        #[test]
        fn every_sequence_is_there_once_an_epoch(
            lengths in prop::collection::vec(1_usize..50, 1..60),
            most in 50_usize..200,
            seed: u64,
        ) {
            let all = steps(&lengths, StepSize::Tokens(most), epochs(1), seed, 0);
            for step in &all {
                let tokens: usize = step.sequences.iter().map(|index| lengths[*index]).sum();
                prop_assert!(tokens <= most);
            }
            let mut seen: Vec<usize> = all.into_iter().flat_map(|step| step.sequences).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
        }

        #[test]
        fn micro_batches_hold_each_sequence_once_within_their_tokens(
            lengths in prop::collection::vec(1_usize..50, 1..60),
            most in 50_usize..200,
        ) {
            let sequences: Vec<usize> = (0..lengths.len()).collect();
            let groups = micro_batches(&lengths, &sequences, most);
            for group in &groups {
                prop_assert!(group.iter().map(|index| lengths[*index]).sum::<usize>() <= most);
            }
            let mut seen = groups.concat();
            seen.sort_unstable();
            prop_assert_eq!(seen, sequences);
        }
    }
}
