//! Small models with random weights, and sequences decoded in any order of pieces.

use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::decode::{
    BLOCK_TOKENS, BlockId, DecodeWeights, Decoder, KvPool, Logits, Segment, Storage,
};
use rocstar_nn::parameters::Parameters;

/// Numbers between -1 and 1.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn next(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Sizes that are no multiples of a panel, so that edges are met.
pub(crate) fn small(architecture: Architecture) -> ModelConfig {
    ModelConfig {
        architecture,
        vocabulary_size: 77,
        hidden_size: 40,
        layers: 2,
        heads: 6,
        key_value_heads: 2,
        head_size: 12,
        feed_forward_size: 50,
        context_tokens: 200,
        ..ModelConfig::tiny()
    }
}

/// One shape of each kind.
pub(crate) fn shapes() -> Vec<(&'static str, ModelConfig)> {
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context_tokens: 64,
    };
    let llama = small(Architecture::Llama);
    vec![
        ("llama", llama.clone()),
        ("qwen2", small(Architecture::Qwen2)),
        ("qwen3", ModelConfig { head_size: 16, ..small(Architecture::Qwen3) }),
        ("untied", ModelConfig { tied_embeddings: false, ..llama.clone() }),
        ("one key head", ModelConfig { heads: 14, key_value_heads: 1, ..llama.clone() }),
        ("no groups", ModelConfig { heads: 3, key_value_heads: 3, head_size: 64, ..llama.clone() }),
        (
            "linear",
            ModelConfig {
                rope: Rope { theta: 1000.0, scaling: RopeScaling::Linear { factor: 4.0 } },
                ..llama.clone()
            },
        ),
        ("llama3", ModelConfig { rope: Rope { theta: 5000.0, scaling: llama3 }, ..llama }),
    ]
}

/// Weights large enough that attention and gates are far from flat, norms and biases not trivial.
pub(crate) fn weights(config: &ModelConfig, seed: u64) -> Parameters {
    let mut parameters = Parameters::random(config, seed);
    let mut noise = Noise::new(seed);
    let layout = parameters.layout().clone();
    for tensor in layout.tensors() {
        let matrix = tensor.is_matrix();
        let norm = !matrix && tensor.name.ends_with(".weight");
        let scale = if matrix { 1.5 / (tensor.shape[1] as f32).sqrt() } else { 0.5 };
        for value in &mut parameters.values_mut()[tensor.range.clone()] {
            *value = noise.next() * scale + f32::from(u8::from(norm));
        }
    }
    parameters
}

pub(crate) fn tokens(config: &ModelConfig, count: usize, seed: u64) -> Vec<u32> {
    let mut noise = Noise::new(seed);
    (0..count).map(|_| (noise.bits() % config.vocabulary_size as u64) as u32).collect()
}

/// A model with a pool.
pub(crate) struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: DecodeWeights,
    pub(crate) decoder: Decoder,
    pub(crate) pool: KvPool,
}

impl Model {
    pub(crate) fn new(config: &ModelConfig, parameters: &Parameters, storage: Storage) -> Self {
        Self {
            config: config.clone(),
            weights: DecodeWeights::new(config, parameters, storage).unwrap(),
            decoder: Decoder::new(config),
            pool: KvPool::new(config, 64),
        }
    }

    pub(crate) fn forward(&mut self, segments: &[Segment<'_>]) -> Vec<f32> {
        let mut logits = Vec::new();
        self.decoder.forward(&self.weights, &mut self.pool, segments, &mut logits).unwrap();
        logits
    }

    /// All logits of `tokens` in one call.
    pub(crate) fn all(&mut self, tokens: &[u32]) -> Vec<f32> {
        let blocks: Vec<BlockId> = (0..blocks_for(tokens.len())).map(BlockId).collect();
        let segment = Segment { tokens, position: 0, blocks: &blocks, logits: Logits::All };
        self.forward(&[segment])
    }
}

pub(crate) fn blocks_for(tokens: usize) -> u32 {
    tokens.div_ceil(BLOCK_TOKENS) as u32
}
