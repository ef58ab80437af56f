//! What a decoder looks like: the part of Hugging Face's `config.json` that changes arithmetic.
//!
//! Invariant: a [`ModelConfig`] that was read from a file is consistent: every size is positive, query heads are a
//! multiple of key and value heads, head size is even. A field of `config.json` that would change
//! the arithmetic and isn't supported is an error that names it, never ignored.

use serde::{Deserialize, Serialize};

/// Families of decoders, by what differs in their arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// `LlamaForCausalLM`.
    Llama,
    /// `Qwen2ForCausalLM`: bias on the query, key and value projections.
    Qwen2,
    /// `Qwen3ForCausalLM`: RMSNorm on each head of query and key, before the rotation.
    Qwen3,
}

impl Architecture {
    /// Query, key and value projections have a bias.
    pub const fn has_qkv_bias(self) -> bool {
        matches!(self, Self::Qwen2)
    }

    /// Each head of query and key is normalised before the rotation.
    pub const fn has_query_key_norm(self) -> bool {
        matches!(self, Self::Qwen3)
    }
}

/// How positions rotate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rope {
    /// Base of the angles (`rope_theta`).
    pub theta: f64,
    /// Change of the angles for longer contexts.
    pub scaling: RopeScaling,
}

/// Change of the rotary angles (`rope_scaling`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by `factor`.
    Linear {
        /// Divisor.
        factor: f64,
    },
    /// Llama 3.1: low frequencies divided by `factor`, high ones kept, smooth between.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Wavelengths above `original_context_tokens / low_frequency_factor` are divided.
        low_frequency_factor: f64,
        /// Wavelengths below `original_context_tokens / high_frequency_factor` are kept.
        high_frequency_factor: f64,
        /// Context of pre-training.
        original_context_tokens: usize,
    },
}

/// A decoder's shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Family.
    pub architecture: Architecture,
    /// Rows of the embedding.
    pub vocabulary_size: usize,
    /// Width of the residual stream, d.
    pub hidden_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub key_value_heads: usize,
    /// Width of a head; even. Not always `hidden_size / heads` (Qwen3).
    pub head_size: usize,
    /// Width of the gated feed-forward layer.
    pub feed_forward_size: usize,
    /// ε of RMSNorm.
    pub norm_epsilon: f32,
    /// Rotation of positions.
    pub rope: Rope,
    /// The head is the embedding transposed.
    pub tied_embeddings: bool,
    /// Longest context, in tokens.
    pub context_tokens: usize,
    /// Token that begins a text, where the model has one.
    pub begin_token: Option<u32>,
    /// Tokens that end a generation.
    pub end_tokens: Vec<u32>,
    /// Standard deviation of the first values (`initializer_range`).
    pub initializer_range: f32,
}

impl ModelConfig {
    /// The *tiny* shape of the benches: 4.6 M parameters.
    pub fn tiny() -> Self {
        Self {
            architecture: Architecture::Llama,
            vocabulary_size: 512,
            hidden_size: 256,
            layers: 6,
            heads: 4,
            key_value_heads: 2,
            head_size: 64,
            feed_forward_size: 704,
            norm_epsilon: 1e-6,
            rope: Rope { theta: 10_000.0, scaling: RopeScaling::None },
            tied_embeddings: true,
            context_tokens: 2048,
            begin_token: None,
            end_tokens: Vec::new(),
            initializer_range: 0.02,
        }
    }

    /// The *mini* shape: 0.7 M parameters with a vocabulary of a few hundred. Its first values are as
    /// wide as its size asks for (about 1 / √d): with 0.02 it learns to copy after twice the tokens.
    pub fn mini() -> Self {
        Self {
            hidden_size: 128,
            layers: 3,
            key_value_heads: 4,
            head_size: 32,
            feed_forward_size: 384,
            initializer_range: 0.08,
            ..Self::tiny()
        }
    }

    /// The shape of SmolLM2-135M.
    pub fn smol() -> Self {
        Self {
            vocabulary_size: 49_152,
            hidden_size: 576,
            layers: 30,
            heads: 9,
            key_value_heads: 3,
            feed_forward_size: 1536,
            norm_epsilon: 1e-5,
            rope: Rope { theta: 100_000.0, scaling: RopeScaling::None },
            context_tokens: 8192,
            ..Self::tiny()
        }
    }

    /// Width of all query heads together.
    pub const fn query_size(&self) -> usize {
        self.heads * self.head_size
    }

    /// Width of all key heads together, and of all value heads.
    pub const fn key_value_size(&self) -> usize {
        self.key_value_heads * self.head_size
    }
}
