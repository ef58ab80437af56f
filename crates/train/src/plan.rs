//! What a stage will do and need, known before anything slow: steps, tokens, memory.
//!
//! The memory of weights, gradient and optimiser is exact; that of activations is counted from the
//! shapes of what the backward pass keeps, and is an estimate.

use rocstar_nn::config::ModelConfig;
use rocstar_nn::lora::Adapters;
use rocstar_nn::parameters::Layout;
use serde::Serialize;

use crate::error::Error;

use crate::examples::Counts;
use crate::learner::lora_of;
use crate::recipe::LoraOptions;

/// Bytes that a token of an episode takes in the compressed log: measured on runs of small models.
pub const BYTES_PER_EPISODE_TOKEN: u64 = 12;

/// What a stage will do and need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StagePlan {
    /// The stage, from 0.
    pub stage: usize,
    /// What it does.
    pub kind: &'static str,
    /// What became of the rows of conversations; of a stage of fine-tuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Counts>,
    /// What became of the evaluation's rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Counts>,
    /// Tasks and rollouts; of a stage of reinforcement learning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<RolloutPlan>,
    /// Steps.
    pub steps: u64,
    /// Of these, steps done before.
    pub done_steps: u64,
    /// Tokens of all steps.
    pub tokens: u64,
    /// Most tokens that go through the model together.
    pub micro_batch_tokens: usize,
    /// Weights of the model.
    pub parameters: u64,
    /// Of these, or beside these, weights that are trained.
    pub trained_parameters: u64,
    /// Floating-point operations of all steps.
    pub operations: f64,
    /// Memory, estimated.
    pub memory_bytes: u64,
    /// Of this, activations.
    pub activation_bytes: u64,
    /// A checkpoint on the disk.
    pub checkpoint_bytes: u64,
}

/// What a stage of reinforcement learning rolls out. A step's numbers, where nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RolloutPlan {
    /// What became of the tasks' rows.
    pub tasks: rocstar_rollout::data::Counts,
    /// Tasks that are measured and not learnt.
    pub evaluation_tasks: usize,
    /// Tasks.
    pub tasks_per_step: usize,
    /// More tasks, at most, in place of those that are of no use.
    pub refill_tasks_per_step: usize,
    /// Rollouts: the paper's 2G of each task.
    pub rollouts_per_step: usize,
    /// Of these, at most, episodes that are learnt from: its G of each task.
    pub learnt_rollouts_per_step: usize,
    /// Updates of the optimiser.
    pub updates_per_step: usize,
    /// Tokens of a prompt, the mean over all tasks.
    pub prompt_tokens_mean: f64,
    /// Tokens of the longest prompt.
    pub prompt_tokens_longest: usize,
    /// Most tokens of a response, tools' answers included.
    pub response_tokens: usize,
    /// Most tokens that are sampled in the whole stage.
    pub most_sampled_tokens: u64,
    /// Room for keys and values.
    pub kv_bytes: u64,
    /// The engine's own copy of the weights.
    pub engine_weight_bytes: u64,
    /// Compressed episodes of the whole stage on the disk, expected.
    pub episodes_bytes: u64,
}

/// What decides the memory of a stage.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Weights of the model.
    pub parameters: u64,
    /// Weights that are trained.
    pub trained_parameters: u64,
    /// They are adapters: the model stays as it is.
    pub adapters: bool,
    /// Most tokens that go through the model together.
    pub micro_batch_tokens: usize,
    /// Activations of layers are computed again instead of kept.
    pub recompute: bool,
}

impl Needs {
    /// What training a model of this shape decides, with adapters where there are some.
    ///
    /// # Errors
    /// The adapters don't fit the model.
    pub fn new(
        config: &ModelConfig,
        lora: Option<&LoraOptions>,
        recompute: bool,
        micro_batch_tokens: usize,
    ) -> Result<Self, Error> {
        let parameters = Layout::new(config).len() as u64;
        let trained_parameters = match lora {
            None => parameters,
            Some(lora) => Adapters::zeros(config, lora_of(lora))?.values().len() as u64,
        };
        let adapters = lora.is_some();
        Ok(Self { parameters, trained_parameters, adapters, micro_batch_tokens, recompute })
    }

    /// Bytes of a checkpoint: weights that are trained, and two moments.
    pub const fn checkpoint_bytes(&self) -> u64 {
        self.trained_parameters * 4 * 3
    }

    /// Bytes of weights, gradient, two moments and activations.
    pub fn memory_bytes(&self, config: &ModelConfig) -> u64 {
        let adapters = if self.adapters { self.trained_parameters } else { 0 };
        (self.parameters + adapters + 3 * self.trained_parameters) * 4
            + self.activation_bytes(config)
    }

    /// Bytes of activations of a micro-batch.
    ///
    /// Per token and layer the backward pass needs: the residual stream before attention and before
    /// the feed-forward layer, both normalised, query, key, value, attention's output, and gate, up
    /// and their product. Recomputation keeps the input of each layer, and one layer's rest at a
    /// time. The head needs the last hidden states with their gradient, and a chunk of logits.
    pub fn activation_bytes(&self, config: &ModelConfig) -> u64 {
        let tokens = self.micro_batch_tokens as u64;
        let hidden = config.hidden_size as u64;
        let query_key_value = (config.query_size() + 2 * config.key_value_size()) as u64;
        let layer = 4 * hidden
            + query_key_value
            + config.query_size() as u64
            + 3 * config.feed_forward_size as u64;
        let layers = config.layers as u64;
        let kept = if self.recompute { layers * hidden + layer } else { layers * layer };
        // The gradient that travels backwards is as wide as the widest part of one layer.
        let backward = layer + 4 * hidden;
        let logits = 256 * config.vocabulary_size as u64;
        4 * (tokens * (kept + backward) + logits)
    }

    /// Floating-point operations of learning `tokens` in sequences of `mean_length`.
    pub fn operations(&self, config: &ModelConfig, tokens: u64, mean_length: f64) -> f64 {
        // A tied embedding multiplies as the head; a table of its own only looks up.
        let table = if config.tied_embeddings {
            0
        } else {
            (config.vocabulary_size * config.hidden_size) as u64
        };
        let weights = (self.parameters - table) as f64;
        let passes = if self.recompute { 8.0 } else { 6.0 };
        // With adapters, weights have no gradient of their own.
        let passes = if self.adapters { passes - 2.0 } else { passes };
        let attention = (config.layers * config.query_size()) as f64 * mean_length * passes;
        tokens as f64 * (passes * weights + attention)
    }
}

/// Bytes of memory that this process can still get: what the machine has available, or what its
/// control group leaves, if that is less. `None` where the system doesn't tell.
pub fn available_memory_bytes() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let left = groups
        .into_iter()
        .filter_map(|(most, used)| Some(number(most)?.saturating_sub(number(used)?)))
        .min();
    Some(left.map_or(machine, |left| left.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recomputing_and_adapters_need_less() {
        let config = ModelConfig::smol();
        let full = Needs {
            parameters: 134_515_008,
            trained_parameters: 134_515_008,
            adapters: false,
            micro_batch_tokens: 2048,
            recompute: false,
        };
        let recompute = Needs { recompute: true, ..full };
        let adapters = Needs { trained_parameters: 1_000_000, adapters: true, ..full };
        assert!(recompute.memory_bytes(&config) < full.memory_bytes(&config) / 2 + (1 << 30));
        assert!(adapters.memory_bytes(&config) < full.memory_bytes(&config) - (1 << 30));
        assert_eq!(full.checkpoint_bytes(), 134_515_008 * 12);
    }

    #[test]
    fn memory_is_told_here() {
        assert!(available_memory_bytes().is_none_or(|bytes| bytes > 0));
    }
}
