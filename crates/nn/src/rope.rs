//! Rotary positions: tables of cosines and sines.
//!
//! Invariant: angles are computed in `f64` and rounded once, so that position 8,000 is as exact as
//! position 8. Halves of a head are rotated against each other, as Hugging Face's models do.

use crate::config::{Rope, RopeScaling};
use crate::kernels;

/// Cosines and sines of every position up to a length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rotation {
    rope: Rope,
    half: usize,
    /// `[positions, half]`.
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotation {
    /// For heads of `head_size`.
    pub(crate) fn new(rope: Rope, head_size: usize, positions: usize) -> Self {
        let half = head_size / 2;
        let frequencies = frequencies(rope, head_size);
        let angles = (0..positions).flat_map(|position| {
            frequencies.iter().map(move |frequency| frequency * position as f64)
        });
        let (sines, cosines) = angles.map(|angle| (angle.sin() as f32, angle.cos() as f32)).unzip();
        Self { rope, half, cosines, sines }
    }

    /// Makes sure that `self` is for these heads and has that many positions.
    pub(crate) fn fit(&mut self, rope: Rope, head_size: usize, positions: usize) {
        let same = self.rope == rope && self.half == head_size / 2;
        if !same || self.cosines.len() < positions * self.half {
            *self = Self::new(rope, head_size, positions);
        }
    }

    /// Rotates all heads of a token at `position`, and multiplies them by `scale`.
    pub(crate) fn rotate(&self, heads: &mut [f32], position: usize, scale: f32) {
        let range = position * self.half..(position + 1) * self.half;
        kernels::rotate(heads, &self.cosines[range.clone()], &self.sines[range], 1.0, scale);
    }

    /// The backward pass of [`Rotation::rotate`], which is the rotation the other way.
    pub(crate) fn rotate_back(&self, heads: &mut [f32], position: usize, scale: f32) {
        let range = position * self.half..(position + 1) * self.half;
        kernels::rotate(heads, &self.cosines[range.clone()], &self.sines[range], -1.0, scale);
    }
}

/// Radians a position, for each pair of a head.
pub(crate) fn frequencies(rope: Rope, head_size: usize) -> Vec<f64> {
    let frequency = |pair: usize| rope.theta.powf(-((2 * pair) as f64) / head_size as f64);
    (0..head_size / 2).map(|pair| scaled(rope.scaling, frequency(pair))).collect()
}

fn scaled(scaling: RopeScaling, frequency: f64) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 {
            factor,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_context_tokens,
        } => {
            let turns = original_context_tokens as f64 * frequency / std::f64::consts::TAU;
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            kept * frequency + (1.0 - kept) * frequency / factor
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotating_back_undoes_a_rotation() {
        let rotation = Rotation::new(Rope { theta: 1e4, scaling: RopeScaling::None }, 10, 50);
        let before: Vec<f32> = (0..30).map(|at| at as f32 - 7.0).collect();
        let mut heads = before.clone();
        rotation.rotate(&mut heads, 41, 0.5);
        rotation.rotate_back(&mut heads, 41, 2.0);
        for (value, expected) in heads.iter().zip(before) {
            assert!((value - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn llama_3_keeps_fast_pairs_and_slows_slow_ones() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context_tokens: 8192,
        };
        assert_eq!(scaled(scaling, 1.0), 1.0);
        assert_eq!(scaled(scaling, 1e-5), 1e-5 / 8.0);
        let middle = 2.5 * std::f64::consts::TAU / 8192.0;
        assert!((scaled(scaling, middle) - 0.5 * middle * (1.0 + 1.0 / 8.0)).abs() < 1e-12);
    }
}
