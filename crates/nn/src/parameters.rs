//! All weights of a model in one buffer, and where each lies.
//!
//! Invariant: a buffer and its [`Layout`] belong together: every tensor of the model has one range,
//! ranges don't overlap and cover the whole buffer, in the order of the layers. One buffer lets the
//! optimiser, the norm of the gradient and a checkpoint each be one sweep.
//!
//! Matrices are stored as Hugging Face does: `[out, in]`, row after row, so that `y = x · Wᵀ`.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rocstar_record::draw::{Key, Purpose};

use crate::config::ModelConfig;

/// Which weight of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// `[vocabulary, hidden]`.
    Embedding,
    /// A weight of the layer with this index.
    Layer(usize, LayerSlot),
    /// `[hidden]`, before the head.
    FinalNorm,
    /// `[vocabulary, hidden]`; absent where tied.
    Head,
}

/// Which weight of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerSlot {
    /// `[hidden]`, before attention.
    AttentionNorm,
    /// `[query, hidden]`.
    Query,
    /// `[key_value, hidden]`.
    Key,
    /// `[key_value, hidden]`.
    Value,
    /// `[query]`, Qwen2.
    QueryBias,
    /// `[key_value]`, Qwen2.
    KeyBias,
    /// `[key_value]`, Qwen2.
    ValueBias,
    /// `[head]`, Qwen3.
    QueryNorm,
    /// `[head]`, Qwen3.
    KeyNorm,
    /// `[hidden, query]`.
    Output,
    /// `[hidden]`, before the feed-forward layer.
    FeedForwardNorm,
    /// `[feed_forward, hidden]`.
    Gate,
    /// `[feed_forward, hidden]`.
    Up,
    /// `[hidden, feed_forward]`.
    Down,
}

impl LayerSlot {
    /// All of them, in the order of the buffer. Query, key and value are neighbours, and so are
    /// gate and up: each group is one matrix for one product.
    const ORDER: [Self; 14] = [
        Self::AttentionNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::QueryBias,
        Self::KeyBias,
        Self::ValueBias,
        Self::QueryNorm,
        Self::KeyNorm,
        Self::Output,
        Self::FeedForwardNorm,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];

    const fn hugging_face_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "input_layernorm.weight",
            Self::Query => "self_attn.q_proj.weight",
            Self::Key => "self_attn.k_proj.weight",
            Self::Value => "self_attn.v_proj.weight",
            Self::QueryBias => "self_attn.q_proj.bias",
            Self::KeyBias => "self_attn.k_proj.bias",
            Self::ValueBias => "self_attn.v_proj.bias",
            Self::QueryNorm => "self_attn.q_norm.weight",
            Self::KeyNorm => "self_attn.k_norm.weight",
            Self::Output => "self_attn.o_proj.weight",
            Self::FeedForwardNorm => "post_attention_layernorm.weight",
            Self::Gate => "mlp.gate_proj.weight",
            Self::Up => "mlp.up_proj.weight",
            Self::Down => "mlp.down_proj.weight",
        }
    }
}

/// Where one weight lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Which.
    pub slot: Slot,
    /// Hugging Face's name.
    pub name: String,
    /// `[length]` or `[out, in]`.
    pub shape: Vec<usize>,
    /// Its values in the buffer.
    pub range: Range<usize>,
}

impl Tensor {
    /// A matrix: it decays under AdamW and takes LoRA adapters; norms and biases do neither.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() == 2
    }
}

/// Where every weight of a model lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    /// Tensors before the first layer's, and of each layer.
    per_layer: usize,
    layers: usize,
}

impl Layout {
    /// The layout of `config`.
    pub fn new(config: &ModelConfig) -> Self {
        let slots = LayerSlot::ORDER.into_iter().filter(|slot| has(config, *slot));
        let slots: Vec<LayerSlot> = slots.collect();
        let per_layer = slots.len();
        let layers = (0..config.layers)
            .flat_map(|layer| slots.iter().map(move |slot| Slot::Layer(layer, *slot)));
        let mut all = vec![Slot::Embedding];
        all.extend(layers);
        all.push(Slot::FinalNorm);
        if !config.tied_embeddings {
            all.push(Slot::Head);
        }
        let mut end = 0;
        let tensors = all.into_iter().map(|slot| {
            let shape = shape(config, slot);
            let start = end;
            end += shape.iter().product::<usize>();
            Tensor { slot, name: name(slot), shape, range: start..end }
        });
        Self { tensors: tensors.collect(), per_layer, layers: config.layers }
    }

    /// All weights, in the order of the buffer.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |last| last.range.end)
    }

    /// No model is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where `slot` lies; `None` where this model has no such weight.
    pub fn find(&self, slot: Slot) -> Option<&Tensor> {
        let after_layers = 1 + self.layers * self.per_layer;
        let candidates = match slot {
            Slot::Embedding => 0..1,
            Slot::Layer(layer, _) => {
                let start = 1 + layer * self.per_layer;
                start..(start + self.per_layer).min(after_layers)
            }
            Slot::FinalNorm | Slot::Head => after_layers..self.tensors.len(),
        };
        self.tensors.get(candidates)?.iter().find(|tensor| tensor.slot == slot)
    }
}

fn has(config: &ModelConfig, slot: LayerSlot) -> bool {
    match slot {
        LayerSlot::QueryBias | LayerSlot::KeyBias | LayerSlot::ValueBias => {
            config.architecture.has_qkv_bias()
        }
        LayerSlot::QueryNorm | LayerSlot::KeyNorm => config.architecture.has_query_key_norm(),
        LayerSlot::AttentionNorm
        | LayerSlot::Query
        | LayerSlot::Key
        | LayerSlot::Value
        | LayerSlot::Output
        | LayerSlot::FeedForwardNorm
        | LayerSlot::Gate
        | LayerSlot::Up
        | LayerSlot::Down => true,
    }
}

fn shape(config: &ModelConfig, slot: Slot) -> Vec<usize> {
    let hidden = config.hidden_size;
    let (query, key_value) = (config.query_size(), config.key_value_size());
    let feed_forward = config.feed_forward_size;
    match slot {
        Slot::Embedding | Slot::Head => vec![config.vocabulary_size, hidden],
        Slot::FinalNorm => vec![hidden],
        Slot::Layer(_, slot) => match slot {
            LayerSlot::AttentionNorm | LayerSlot::FeedForwardNorm => vec![hidden],
            LayerSlot::Query => vec![query, hidden],
            LayerSlot::Key | LayerSlot::Value => vec![key_value, hidden],
            LayerSlot::QueryBias => vec![query],
            LayerSlot::KeyBias | LayerSlot::ValueBias => vec![key_value],
            LayerSlot::QueryNorm | LayerSlot::KeyNorm => vec![config.head_size],
            LayerSlot::Output => vec![hidden, query],
            LayerSlot::Gate | LayerSlot::Up => vec![feed_forward, hidden],
            LayerSlot::Down => vec![hidden, feed_forward],
        },
    }
}

fn name(slot: Slot) -> String {
    match slot {
        Slot::Embedding => "model.embed_tokens.weight".into(),
        Slot::Layer(layer, slot) => format!("model.layers.{layer}.{}", slot.hugging_face_name()),
        Slot::FinalNorm => "model.norm.weight".into(),
        Slot::Head => "lm_head.weight".into(),
    }
}

/// Weights, a gradient, or a moment of the optimiser: values with their layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    layout: Arc<Layout>,
    values: Vec<f32>,
}

impl Parameters {
    /// All zero.
    pub fn zeros(layout: Arc<Layout>) -> Self {
        let values = vec![0.0; layout.len()];
        Self { layout, values }
    }

    /// First values of a model to be trained from nothing: matrices normal with
    /// `initializer_range`, norms one, biases zero, as transformers does. Each tensor has a stream
    /// of its own, so that one more layer doesn't change the others.
    pub fn random(config: &ModelConfig, seed: u64) -> Self {
        let mut parameters = Self::zeros(Arc::new(Layout::new(config)));
        let layout = Arc::clone(&parameters.layout);
        for (index, tensor) in layout.tensors.iter().enumerate() {
            let values = &mut parameters.values[tensor.range.clone()];
            if tensor.is_matrix() {
                let key = Key { task: index as u64, ..Key::new(seed, Purpose::Initialisation) };
                let mut draws = key.at(0);
                for pair in values.chunks_mut(2) {
                    let (first, second) = draws.normal_pair();
                    for (value, draw) in pair.iter_mut().zip([first, second]) {
                        *value = draw as f32 * config.initializer_range;
                    }
                }
            } else if tensor.name.ends_with(".weight") {
                values.fill(1.0);
            }
        }
        parameters
    }

    /// Where each weight lies.
    pub const fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// All values, in the order of the layout.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, in the order of the layout.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The first weight with a value that is infinite or no number.
    pub fn first_not_finite(&self) -> Option<&Tensor> {
        self.layout.tensors.par_iter().find_first(|tensor| {
            !self.values[tensor.range.clone()].par_chunks(1 << 16).all(all_finite)
        })
    }

    /// The values of `slot`; empty where this model has no such weight.
    pub fn slot(&self, slot: Slot) -> &[f32] {
        self.layout.find(slot).map_or(&[], |tensor| &self.values[tensor.range.clone()])
    }

    /// The values of `slot`; empty where this model has no such weight.
    pub fn slot_mut(&mut self, slot: Slot) -> &mut [f32] {
        match self.layout.find(slot) {
            Some(tensor) => &mut self.values[tensor.range.clone()],
            None => &mut [],
        }
    }
}

/// Every value is finite. Without branches: this runs over every value of a model.
pub(crate) fn all_finite(values: &[f32]) -> bool {
    let exponent = f32::INFINITY.to_bits();
    !values.iter().fold(false, |bad, value| bad | (value.to_bits() & exponent == exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Architecture;

    #[test]
    fn what_is_no_finite_number_is_found() {
        let config = ModelConfig { layers: 2, ..ModelConfig::tiny() };
        let mut parameters = Parameters::random(&config, 3);
        assert_eq!(parameters.first_not_finite(), None);
        let slot = Slot::Layer(1, LayerSlot::Up);
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            parameters.slot_mut(slot)[100_000] = broken;
            assert_eq!(parameters.first_not_finite().map(|tensor| tensor.slot), Some(slot));
        }
        parameters.slot_mut(slot)[100_000] = f32::MAX;
        assert_eq!(parameters.first_not_finite(), None);
    }

    #[test]
    fn ranges_cover_the_buffer_in_order() {
        for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
            let config =
                ModelConfig { architecture, tied_embeddings: false, ..ModelConfig::tiny() };
            let layout = Layout::new(&config);
            let mut end = 0;
            for tensor in layout.tensors() {
                assert_eq!(tensor.range.start, end);
                assert_eq!(layout.find(tensor.slot), Some(tensor));
                end = tensor.range.end;
            }
            assert_eq!(end, layout.len());
        }
    }

    #[test]
    fn the_benches_shapes_have_their_known_sizes() {
        assert_eq!(Layout::new(&ModelConfig::tiny()).len(), 4_558_080);
        assert_eq!(Layout::new(&ModelConfig::smol()).len(), 134_515_008);
    }

    #[test]
    fn first_values_are_seeded() {
        let config = ModelConfig { layers: 1, ..ModelConfig::tiny() };
        assert_eq!(Parameters::random(&config, 3), Parameters::random(&config, 3));
        assert_ne!(Parameters::random(&config, 3), Parameters::random(&config, 4));
        let norm = Parameters::random(&config, 3);
        assert!(norm.slot(Slot::FinalNorm).iter().all(|value| *value == 1.0));
    }
}
