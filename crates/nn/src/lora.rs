//! Low-rank adapters (LoRA, Hu et al. 2021): `W' = W + alpha / rank · B · A` with `W` frozen.
//!
//! Invariant: an [`Adapters`] belongs to one model's shape; its pairs lie in one buffer, `A`
//! `[rank, in]` then `B` `[out, rank]`, in the order of layers and then of [`LayerSlot`]. `B` starts
//! at zero, so that fresh adapters change nothing.

use std::ops::Range;
use std::sync::Arc;

use rocstar_record::draw::{Key, Purpose};

use crate::config::ModelConfig;
use crate::gemm::{Matrix, MatrixMut, Output, Threads, multiply};
use crate::parameters::{LayerSlot, Layout, Parameters, Slot};

/// Which adapters.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// Inner size, `r`.
    pub rank: usize,
    /// The product is scaled by `alpha / rank`.
    pub alpha: f32,
    /// Matrices of each layer that get a pair.
    pub targets: Vec<LayerSlot>,
}

impl Lora {
    /// The factor of the product.
    pub fn scale(&self) -> f32 {
        self.alpha / self.rank as f32
    }
}

/// A request for adapters that can't be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LoraError {
    /// Rank zero.
    #[error("the rank of LoRA adapters is 0; it must be at least 1")]
    NoRank,
    /// No target.
    #[error("LoRA has no targets; name at least one matrix of a layer, for example the query")]
    NoTargets,
    /// Norms and biases take no adapter.
    #[error("LoRA target {slot:?} is not a matrix; targets are projections of a layer")]
    NotMatrix {
        /// The target.
        slot: LayerSlot,
    },
}

/// One pair of matrices and where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterPair {
    /// Layer of the weight that it changes.
    pub layer: usize,
    /// The weight that it changes.
    pub slot: LayerSlot,
    /// Columns of the weight.
    pub inputs: usize,
    /// Rows of the weight.
    pub outputs: usize,
    /// `A`, `[rank, inputs]`.
    pub down: Range<usize>,
    /// `B`, `[outputs, rank]`.
    pub up: Range<usize>,
}

/// All adapters of a model, or their gradient, or a moment of their optimiser.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapters {
    lora: Lora,
    pairs: Arc<Vec<AdapterPair>>,
    values: Vec<f32>,
}

impl Adapters {
    /// All zero.
    ///
    /// # Errors
    /// Where `lora` has no rank, no targets, or a target that isn't a matrix.
    pub fn zeros(config: &ModelConfig, lora: Lora) -> Result<Self, LoraError> {
        let Lora { rank, alpha, mut targets } = lora;
        if rank == 0 {
            return Err(LoraError::NoRank);
        }
        if targets.is_empty() {
            return Err(LoraError::NoTargets);
        }
        targets.sort_unstable();
        targets.dedup();
        let layout = Layout::new(config);
        let mut pairs = Vec::new();
        let mut end = 0;
        for layer in 0..config.layers {
            for slot in targets.iter().copied() {
                let matrix = layout.find(Slot::Layer(layer, slot));
                let Some([outputs, inputs]) = matrix.map(|tensor| tensor.shape.as_slice()) else {
                    return Err(LoraError::NotMatrix { slot });
                };
                let (inputs, outputs) = (*inputs, *outputs);
                let middle = end + rank * inputs;
                let (down, up) = (end..middle, middle..middle + outputs * rank);
                end = up.end;
                pairs.push(AdapterPair { layer, slot, inputs, outputs, down, up });
            }
        }
        let lora = Lora { rank, alpha, targets };
        Ok(Self { lora, pairs: Arc::new(pairs), values: vec![0.0; end] })
    }

    /// First values for training: `A` uniform within `±1/√inputs` (as PEFT draws it), `B` zero.
    ///
    /// # Errors
    /// Where `lora` has no rank, no targets, or a target that isn't a matrix.
    pub fn random(config: &ModelConfig, lora: Lora, seed: u64) -> Result<Self, LoraError> {
        let mut adapters = Self::zeros(config, lora)?;
        for (index, pair) in adapters.pairs.iter().enumerate() {
            let key =
                Key { task: index as u64, sample: 1, ..Key::new(seed, Purpose::Initialisation) };
            let mut draws = key.at(0);
            let bound = 1.0 / (pair.inputs as f64).sqrt();
            for value in &mut adapters.values[pair.down.clone()] {
                *value = ((2.0 * draws.uniform() - 1.0) * bound) as f32;
            }
        }
        Ok(adapters)
    }

    /// Zeros of the same shape: a gradient, or a moment.
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        Self {
            lora: self.lora.clone(),
            pairs: Arc::clone(&self.pairs),
            values: vec![0.0; self.values.len()],
        }
    }

    /// What they are.
    pub const fn lora(&self) -> &Lora {
        &self.lora
    }

    /// Every pair, in the order of the buffer.
    pub fn pairs(&self) -> &[AdapterPair] {
        &self.pairs
    }

    /// All values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The pair that changes this weight.
    pub fn find(&self, layer: usize, slot: LayerSlot) -> Option<&AdapterPair> {
        let per_layer = self.lora.targets.len();
        let of_layer = self.pairs.get(layer * per_layer..(layer + 1) * per_layer)?;
        of_layer.iter().find(|pair| pair.slot == slot)
    }

    /// Adds every pair's product to the weight that it changes, after which the model alone
    /// computes what it computed with the adapters (to rounding).
    pub fn merge(&self, parameters: &mut Parameters) {
        for pair in self.pairs.iter() {
            let weight = parameters.slot_mut(Slot::Layer(pair.layer, pair.slot));
            let rank = self.lora.rank;
            multiply(
                MatrixMut::new(weight, pair.outputs, pair.inputs),
                Output::Add,
                Matrix::new(&self.values[pair.up.clone()], pair.outputs, rank),
                Matrix::new(&self.values[pair.down.clone()], rank, pair.inputs),
                self.lora.scale(),
                Threads::Pool,
            );
        }
    }
}
