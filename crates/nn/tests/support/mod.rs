//! Small models and packs that several tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::Arc;

use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::parameters::{Layout, Parameters};
use rocstar_nn::step::{Model, NO_TARGET, Packed};

/// Sizes that are no multiples of a register's.
pub(crate) fn odd_config(architecture: Architecture, tied_embeddings: bool) -> ModelConfig {
    ModelConfig {
        architecture,
        vocabulary_size: 53,
        hidden_size: 24,
        layers: 2,
        heads: 6,
        key_value_heads: 2,
        head_size: 4,
        feed_forward_size: 37,
        norm_epsilon: 1e-6,
        rope: Rope { theta: 1000.0, scaling: RopeScaling::None },
        tied_embeddings,
        context_tokens: 2048,
        ..ModelConfig::tiny()
    }
}

/// The closed formula of `reference/gradients.py`.
fn value(tensor: usize, at: usize, matrix: bool, is_bias: bool) -> f32 {
    let draw = ((tensor + 1) as f64 * 12.9898 + at as f64 * 78.233).sin() * 43_758.545_3;
    let draw = 2.0 * (draw - draw.floor()) - 1.0;
    let value = match (matrix, is_bias) {
        (true, _) => 0.35 * draw,
        (false, true) => 0.2 * draw,
        (false, false) => 1.0 + 0.3 * draw,
    };
    value as f32
}

/// A model whose weights come from the closed formula.
pub(crate) fn formula_model(config: ModelConfig) -> Model {
    let layout = Arc::new(Layout::new(&config));
    let mut parameters = Parameters::zeros(Arc::clone(&layout));
    for (index, tensor) in layout.tensors().iter().enumerate() {
        let is_bias = tensor.name.ends_with("bias");
        let values = &mut parameters.values_mut()[tensor.range.clone()];
        for (at, number) in values.iter_mut().enumerate() {
            *number = value(index, at, tensor.is_matrix(), is_bias);
        }
    }
    Model { config, parameters }
}

/// Sequences with their targets; some positions have none.
pub(crate) struct Pack {
    pub(crate) tokens: Vec<u32>,
    pub(crate) starts: Vec<usize>,
    pub(crate) targets: Vec<u32>,
}

impl Pack {
    /// Sequences of these lengths, the same as in `reference/gradients.py`.
    pub(crate) fn new(lengths: &[usize]) -> Self {
        let mut pack = Self { tokens: Vec::new(), starts: vec![0], targets: Vec::new() };
        for length in lengths {
            let start = pack.tokens.len();
            let token = |at: usize| ((7 * (start + at) * (start + at) + 3) % 53) as u32;
            pack.tokens.extend((0..*length).map(token));
            pack.targets.extend((0..*length).map(|at| {
                if at + 1 < *length && (start + at) % 5 != 3 { token(at + 1) } else { NO_TARGET }
            }));
            pack.starts.push(start + length);
        }
        pack
    }

    pub(crate) fn packed(&self) -> Packed<'_> {
        Packed { tokens: &self.tokens, starts: &self.starts, targets: &self.targets }
    }

    pub(crate) fn count(&self) -> usize {
        self.targets.iter().filter(|target| **target != NO_TARGET).count()
    }

    /// The sequences with these indices, in this order.
    pub(crate) fn pick(&self, sequences: &[usize]) -> Self {
        let mut pack = Self { tokens: Vec::new(), starts: vec![0], targets: Vec::new() };
        for sequence in sequences {
            let range = self.starts[*sequence]..self.starts[sequence + 1];
            pack.tokens.extend_from_slice(&self.tokens[range.clone()]);
            pack.targets.extend_from_slice(&self.targets[range]);
            pack.starts.push(pack.tokens.len());
        }
        pack
    }
}

/// Largest difference, relative to the largest value of either.
pub(crate) fn relative_error(left: &[f32], right: &[f32]) -> f64 {
    assert_eq!(left.len(), right.len());
    let largest = left.iter().chain(right).fold(0.0_f64, |most, x| most.max(f64::from(x.abs())));
    let differences = left.iter().zip(right).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    differences.fold(0.0, f64::max) / largest.max(f64::MIN_POSITIVE)
}
