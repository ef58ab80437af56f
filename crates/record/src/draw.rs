//! The one source of randomness: a counter-based generator whose key says what the draw is for.
//!
//! Invariant: a draw depends on its [`Key`] and position alone, never on which worker came first,
//! how requests were batched, or what was drawn before. So a run can stop anywhere and go on
//! byte for byte, and a rollout can be replayed alone.
//!
//! The generator is ChaCha8: the 256-bit key holds what names the stream, the block counter is the
//! position. Hashing the parts together and seeding a sequential generator was rejected: two
//! streams could collide, and a position could not be reached without walking to it.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// What a stream of draws is for. Streams of different purposes share nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// First values of weights.
    Initialisation = 1,
    /// Order of a data set.
    Shuffle = 2,
    /// Tokens of a generation.
    Sampling = 3,
    /// Which rollouts of a group are kept.
    Selection = 4,
    /// Tasks that are made up.
    Tasks = 5,
    /// Evaluation: order of choices, bootstrap samples.
    Evaluation = 6,
    /// How long is paused before another try: decides when something comes, never what.
    Pauses = 7,
}

/// The name of a stream of draws. Unused parts are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The run's or request's seed.
    pub seed: u64,
    /// What for.
    pub purpose: Purpose,
    /// Training step, or epoch.
    pub step: u32,
    /// Task within the step, or tensor, or another index that fits the purpose.
    pub task: u64,
    /// Sample of the task.
    pub sample: u32,
    /// Turn of the episode.
    pub turn: u32,
}

impl Key {
    /// A key with only a seed and a purpose.
    pub const fn new(seed: u64, purpose: Purpose) -> Self {
        Self { seed, purpose, step: 0, task: 0, sample: 0, turn: 0 }
    }

    /// The draws at `position`; each position has 16 words of its own, later ones run into the
    /// next position's.
    pub fn at(&self, position: u64) -> Draws {
        let mut seed = [0; 32];
        seed[0..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&self.task.to_le_bytes());
        seed[16..20].copy_from_slice(&self.step.to_le_bytes());
        seed[20..24].copy_from_slice(&self.sample.to_le_bytes());
        seed[24..28].copy_from_slice(&self.turn.to_le_bytes());
        seed[28..32].copy_from_slice(&(self.purpose as u32).to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(seed);
        generator.set_word_pos(u128::from(position) * 16);
        Draws { generator }
    }
}

/// Draws from one stream, in order.
#[derive(Debug)]
pub struct Draws {
    generator: ChaCha8Rng,
}

impl Draws {
    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, without bias. Zero where `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Lemire's method: the high half of a product, the few biased low halves drawn again.
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Two independent draws from the standard normal distribution (Box and Muller).
    pub fn normal_pair(&mut self) -> (f64, f64) {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        (radius * cosine, radius * sine)
    }

    /// Puts `items` in a uniformly drawn order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn first(key: Key, position: u64) -> u64 {
        key.at(position).bits()
    }

    #[test]
    fn every_part_of_the_key_and_the_position_matter() {
        let key = Key::new(7, Purpose::Sampling);
        let all = [
            first(key, 0),
            first(key, 1),
            first(Key { seed: 8, ..key }, 0),
            first(Key { purpose: Purpose::Shuffle, ..key }, 0),
            first(Key { step: 1, ..key }, 0),
            first(Key { task: 1, ..key }, 0),
            first(Key { sample: 1, ..key }, 0),
            first(Key { turn: 1, ..key }, 0),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    /// A change here changes every run: the value is part of the contract.
    #[test]
    fn the_stream_is_fixed() {
        let key = Key { seed: 1, purpose: Purpose::Sampling, step: 2, task: 3, sample: 4, turn: 5 };
        assert_eq!(key.at(6).bits(), FIXED);
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut draws = Key::new(1, Purpose::Initialisation).at(0);
        let values: Vec<f64> =
            (0..50_000).flat_map(|_| <[f64; 2]>::from(draws.normal_pair())).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02, "{mean} {square}");
    }

    proptest! {
        #[test]
        fn bounds_hold(seed: u64, bound in 1..u64::MAX) {
            let mut draws = Key::new(seed, Purpose::Tasks).at(0);
            prop_assert!(draws.below(bound) < bound);
            let unit = draws.uniform();
            prop_assert!((0.0..1.0).contains(&unit));
        }

        #[test]
        fn a_shuffle_keeps_every_item(seed: u64, length in 0_usize..50) {
            let mut items: Vec<usize> = (0..length).collect();
            Key::new(seed, Purpose::Shuffle).at(0).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..length).collect::<Vec<_>>());
        }
    }

    /// From `tests/reference/draw.py`, ChaCha8 written out.
    const FIXED: u64 = 4_739_753_462_117_956_818;
}
