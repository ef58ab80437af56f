//! Weights laid out for decoding.

use super::cache::LARGEST_HEAD;
use super::error::DecodeError;
use super::kernels::PANEL;
use super::matrix::PackedMatrix;
use crate::config::ModelConfig;
use crate::parameters::{LayerSlot, Layout, Parameters, Slot};

/// How matrices are stored. Arithmetic is f32 in each case; norms and biases are f32 always.
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

/// A layer's weights. Vectors are padded with zeros to whole lanes or panels.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Vec<f32>,
    /// Query, key and value outputs, one after the other.
    pub(crate) query_key_value: PackedMatrix,
    /// As the outputs; empty where the model has none.
    pub(crate) bias: Vec<f32>,
    pub(crate) query_norm: Vec<f32>,
    pub(crate) key_norm: Vec<f32>,
    pub(crate) output: PackedMatrix,
    pub(crate) feed_forward_norm: Vec<f32>,
    /// Each panel sixteen gates, then their sixteen ups.
    pub(crate) gate_up: PackedMatrix,
    pub(crate) down: PackedMatrix,
}

/// A model's weights laid out for decoding. Shared by reference, swapped as a whole.
#[derive(Debug)]
pub struct DecodeWeights {
    config: ModelConfig,
    storage: Storage,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) head: PackedMatrix,
    /// Only where the head isn't the embedding.
    embedding: Option<PackedMatrix>,
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
        let embedding = || PackedMatrix::zeros(config.vocabulary_size, config.hidden_size, storage);
        let mut weights = Self {
            config: config.clone(),
            storage,
            layers: (0..config.layers).map(|_| LayerWeights::zeros(config, storage)).collect(),
            final_norm: vec![0.0; padded(config.hidden_size)],
            head: embedding(),
            embedding: (!config.tied_embeddings).then(embedding),
        };
        weights.refill(parameters)?;
        Ok(weights)
    }

    /// Replaces all values in place by those of `parameters`, without taking new memory.
    ///
    /// # Errors
    /// Where `parameters` have another shape; nothing is changed then.
    pub fn refill(&mut self, parameters: &Parameters) -> Result<(), DecodeError> {
        if **parameters.layout() != Layout::new(&self.config) {
            return Err(DecodeError::OtherShape { part: "the buffer of parameters" });
        }
        for (layer, weights) in self.layers.iter_mut().enumerate() {
            weights.refill(&self.config, |slot| parameters.slot(Slot::Layer(layer, slot)));
        }
        copy(&mut self.final_norm, parameters.slot(Slot::FinalNorm));
        let width = self.config.hidden_size;
        let embedding = parameters.slot(Slot::Embedding);
        match &mut self.embedding {
            Some(own) => {
                own.fill(|index| row(embedding, width, index));
                let head = parameters.slot(Slot::Head);
                self.head.fill(|index| row(head, width, index));
            }
            None => self.head.fill(|index| row(embedding, width, index)),
        }
        Ok(())
    }

    /// How matrices are stored.
    pub const fn storage(&self) -> Storage {
        self.storage
    }

    /// The shape.
    pub const fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(LayerWeights::bytes).sum();
        let embedding = self.embedding.as_ref().map_or(0, PackedMatrix::bytes);
        layers + self.final_norm.len() * size_of::<f32>() + self.head.bytes() + embedding
    }

    /// The embedding of `token`.
    pub(crate) fn embed(&self, token: u32, into: &mut [f32]) {
        self.embedding.as_ref().unwrap_or(&self.head).read(token as usize, into);
    }

    pub(crate) fn check(&self, config: &ModelConfig) -> Result<(), DecodeError> {
        if self.config == *config {
            Ok(())
        } else {
            Err(DecodeError::OtherShape { part: "the laid-out weights" })
        }
    }
}

impl LayerWeights {
    fn zeros(config: &ModelConfig, storage: Storage) -> Self {
        let (hidden, query) = (config.hidden_size, config.query_size());
        let query_key_value = query + 2 * config.key_value_size();
        let gates = config.feed_forward_size.div_ceil(PANEL / 2) * PANEL;
        let bias = config.architecture.has_qkv_bias();
        let head_norm = config.architecture.has_query_key_norm();
        let head_norm = vec![0.0; if head_norm { config.head_size } else { 0 }];
        Self {
            attention_norm: vec![0.0; padded(hidden)],
            query_key_value: PackedMatrix::zeros(query_key_value, hidden, storage),
            bias: vec![0.0; if bias { query_key_value.next_multiple_of(PANEL) } else { 0 }],
            query_norm: head_norm.clone(),
            key_norm: head_norm,
            output: PackedMatrix::zeros(hidden, query, storage),
            feed_forward_norm: vec![0.0; padded(hidden)],
            gate_up: PackedMatrix::zeros(gates, hidden, storage),
            down: PackedMatrix::zeros(hidden, config.feed_forward_size, storage),
        }
    }

    fn refill<'a>(&mut self, config: &ModelConfig, slot: impl Fn(LayerSlot) -> &'a [f32]) {
        let (hidden, query) = (config.hidden_size, config.query_size());
        let feed_forward = config.feed_forward_size;
        let key_value = config.key_value_size();
        copy(&mut self.attention_norm, slot(LayerSlot::AttentionNorm));
        copy(&mut self.feed_forward_norm, slot(LayerSlot::FeedForwardNorm));
        copy(&mut self.query_norm, slot(LayerSlot::QueryNorm));
        copy(&mut self.key_norm, slot(LayerSlot::KeyNorm));
        if !self.bias.is_empty() {
            copy(&mut self.bias, slot(LayerSlot::QueryBias));
            copy(&mut self.bias[query..], slot(LayerSlot::KeyBias));
            copy(&mut self.bias[query + key_value..], slot(LayerSlot::ValueBias));
        }
        let parts = [LayerSlot::Query, LayerSlot::Key, LayerSlot::Value].map(&slot);
        self.query_key_value.fill(|index| {
            row(parts[0], hidden, index)
                .or_else(|| row(parts[1], hidden, index.checked_sub(query)?))
                .or_else(|| row(parts[2], hidden, index.checked_sub(query + key_value)?))
        });
        let output = slot(LayerSlot::Output);
        self.output.fill(|index| row(output, query, index));
        let parts = [LayerSlot::Gate, LayerSlot::Up].map(&slot);
        let half = PANEL / 2;
        self.gate_up.fill(|index| {
            let column = index % PANEL;
            row(parts[column / half], hidden, index / PANEL * half + column % half)
        });
        let down = slot(LayerSlot::Down);
        self.down.fill(|index| row(down, feed_forward, index));
    }

    fn bytes(&self) -> usize {
        let vectors = [
            &self.attention_norm,
            &self.bias,
            &self.query_norm,
            &self.key_norm,
            &self.feed_forward_norm,
        ];
        let matrices = [&self.query_key_value, &self.output, &self.gate_up, &self.down];
        vectors.iter().map(|vector| vector.len() * size_of::<f32>()).sum::<usize>()
            + matrices.iter().map(|matrix| matrix.bytes()).sum::<usize>()
    }
}

/// Row `index` of a matrix with rows of `width` values.
fn row(matrix: &[f32], width: usize, index: usize) -> Option<&[f32]> {
    matrix.get(index * width..(index + 1) * width)
}

/// Length of a vector padded to whole lanes.
pub(crate) const fn padded(length: usize) -> usize {
    length.next_multiple_of(16)
}

fn copy(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}
