//! Weights laid out for decoding.

use super::cache::LARGEST_HEAD;
use super::error::DecodeError;
use crate::config::ModelConfig;
use crate::parameters::{Layout, Parameters};

/// How matrices are stored. Arithmetic is f32 in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Storage {
    /// Four bytes a weight: exactly the parameters.
    #[default]
    F32,
    /// Two bytes a weight: rounded to nearest, ties to even.
    Bf16,
    /// One byte a weight and one scale for each output: rounded to the nearest of 255 steps.
    Int8,
}

/// A model's weights laid out for decoding. Shared by reference, swapped as a whole.
#[derive(Debug)]
pub struct DecodeWeights {
    config: ModelConfig,
    storage: Storage,
    bytes: usize,
}

impl DecodeWeights {
    /// Lays out `parameters`.
    ///
    /// # Errors
    /// Where `parameters` don't belong to `config`, or a head is too wide.
    pub fn new(
        config: &ModelConfig,
        parameters: &Parameters,
        storage: Storage,
    ) -> Result<Self, DecodeError> {
        if config.head_size > LARGEST_HEAD {
            let head_size = config.head_size;
            return Err(DecodeError::HeadTooWide { head_size, largest: LARGEST_HEAD });
        }
        let mut weights = Self { config: config.clone(), storage, bytes: 0 };
        weights.refill(parameters)?;
        Ok(weights)
    }

    /// Replaces all values in place by those of `parameters`, without taking new memory.
    ///
    /// # Errors
    /// Where `parameters` have another shape; nothing is changed then.
    pub fn refill(&mut self, parameters: &Parameters) -> Result<(), DecodeError> {
        if **parameters.layout() == Layout::new(&self.config) {
            Ok(())
        } else {
            Err(DecodeError::OtherShape { part: "the buffer of parameters" })
        }
    }

    /// How matrices are stored.
    pub const fn storage(&self) -> Storage {
        self.storage
    }

    /// Bytes that the weights take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn check(&self, config: &ModelConfig) -> Result<(), DecodeError> {
        if self.config == *config {
            Ok(())
        } else {
            Err(DecodeError::OtherShape { part: "the buffer of weights" })
        }
    }
}
