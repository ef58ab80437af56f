//! Models on disk: what is written is read again, and what is wrong is named.

#![cfg(test)]

mod adapters;
mod blocks;
mod build_gguf;
mod config;
mod folders;
mod gguf;
mod headers;
mod outside;
mod smollm2;

use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::parameters::Parameters;

/// A model of two layers, odd in every size that may be.
fn small(architecture: Architecture, tied_embeddings: bool) -> ModelConfig {
    ModelConfig {
        architecture,
        vocabulary_size: 37,
        hidden_size: 32,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        head_size: if architecture == Architecture::Qwen3 { 10 } else { 8 },
        feed_forward_size: 48,
        norm_epsilon: 1e-5,
        rope: Rope { theta: 50_000.0, scaling: RopeScaling::None },
        tied_embeddings,
        context_tokens: 64,
        begin_token: Some(1),
        end_tokens: vec![2, 5],
        initializer_range: 0.05,
    }
}

/// Every family, tied and not.
fn all_small() -> Vec<ModelConfig> {
    let families = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];
    families.into_iter().flat_map(|family| [small(family, true), small(family, false)]).collect()
}

/// Random weights, norms and biases too.
fn random(config: &ModelConfig) -> Parameters {
    let mut parameters = Parameters::random(config, 11);
    for (index, value) in parameters.values_mut().iter_mut().enumerate() {
        *value += ((index * 7919) % 1000) as f32 * 1e-4;
    }
    parameters
}
