//! What a stage of reinforcement learning is, as a recipe says it.
//!
//! The words of batch sizes, since they differ from system to system: a *step* rolls out
//! `tasks_per_step` tasks, each `rollout.samples` times (the paper's 2G); of each group
//! `selection.keep` episodes (its G) are learnt from; `updates_per_step` is how often the optimiser
//! moves for that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rocstar_engine::{EngineOptions, KvBudget};
use rocstar_grpo::loss::LossConfig;
use rocstar_grpo::{AdvantageConfig, RocConfig};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{BLOCK_TOKENS, Storage};
use rocstar_rollout::{RolloutOptions, TaskOptions, VerifierOptions};

use super::{LoraOptions, OptimizerOptions, PracticeOptions};

/// Reinforcement learning by rollouts with a verified reward: GRPO, with resampling on correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RlStage {
    /// Steps: each rolls out tasks, selects and updates.
    pub steps: u64,
    /// Tasks that are rolled out in a step.
    pub tasks_per_step: usize,
    /// Take the tasks in another order each pass; otherwise always in that of the data.
    pub shuffle: bool,
    /// More tasks that a step may roll out in place of groups that are all right or all wrong.
    pub refill_tasks_per_step: usize,
    /// Updates of the optimiser in a step, each on its share of the groups.
    pub updates_per_step: usize,
    /// Most tokens that go through the model together in an update; bounds memory, not the result.
    pub tokens_per_micro_batch: usize,
    /// Compute each layer's forward pass again in the backward pass: less memory, a third slower.
    pub recompute: bool,
    /// Where the old log-probabilities of the ratio come from.
    pub old_log_probs: OldLogProbs,
    /// Go on with the optimiser's moments of the stage before, which must train the same weights.
    pub keep_optimizer: bool,
    /// The tasks.
    pub data: TaskOptions,
    /// Tasks that are made up instead of read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub practice: Option<PracticeOptions>,
    /// Leave out tasks that the policy solves already, found by rolling each out before the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterOptions>,
    /// How a task is rolled out.
    pub rollout: RolloutOptions,
    /// How answers are verified.
    pub verifier: VerifierOptions,
    /// Which rollouts are learnt from.
    pub selection: RocConfig,
    /// What each is worth.
    pub advantage: AdvantageConfig,
    /// What is minimised.
    pub loss: LossConfig,
    /// The local engine that generates.
    pub engine: EngineSettings,
    /// Tasks that are measured and not learnt.
    pub evaluation: RlEvaluation,
    /// AdamW and its schedule.
    pub optimizer: OptimizerOptions,
    /// Train low-rank adapters, and leave the model itself as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraOptions>,
}

impl Default for RlStage {
    /// The paper's common settings, beside sizes.
    fn default() -> Self {
        Self {
            steps: 0,
            tasks_per_step: 512,
            shuffle: true,
            refill_tasks_per_step: 0,
            updates_per_step: 1,
            tokens_per_micro_batch: 16_384,
            recompute: false,
            old_log_probs: OldLogProbs::Sampled,
            keep_optimizer: false,
            data: TaskOptions::default(),
            practice: None,
            filter: None,
            rollout: RolloutOptions::default(),
            verifier: VerifierOptions::default(),
            selection: RocConfig::default(),
            advantage: AdvantageConfig::default(),
            loss: LossConfig::default(),
            engine: EngineSettings::default(),
            evaluation: RlEvaluation::default(),
            optimizer: OptimizerOptions {
                learning_rate: 1e-6,
                schedule: super::ScheduleKind::Constant,
                warm_up_steps: 20,
                ..OptimizerOptions::default()
            },
            lora: None,
        }
    }
}

/// Where the old log-probabilities of the ratio come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OldLogProbs {
    /// Those that were recorded when sampling, by the same weights. Needs sampling without cuts
    /// (`top_p`, `top_k`, `min_p`), which the trainer's softmax doesn't know.
    Sampled,
    /// Computed again by the trainer before the first update: one more forward pass.
    Recomputed,
}

/// Leaving out tasks that the policy solves already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilterOptions {
    /// Rollouts of each task by which that is judged; a task of which all are right is left out.
    pub samples: usize,
}

impl Default for FilterOptions {
    /// As the paper's third stage.
    fn default() -> Self {
        Self { samples: 8 }
    }
}

/// Size of the local engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// Room for keys and values, in bytes.
    pub kv_bytes: u64,
    /// Most sequences that run at once.
    pub most_running: usize,
    /// Most tokens of one of its steps.
    pub step_tokens: usize,
    /// How it keeps the weights.
    pub storage: EngineStorage,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self { kv_bytes: 1 << 30, most_running: 128, step_tokens: 512, storage: EngineStorage::F32 }
    }
}

/// How the engine keeps weights. Anything but f32 makes the policy that samples another one than
/// the policy that is trained; `mismatch_kl` shows by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum EngineStorage {
    F32,
    Bf16,
}

impl EngineSettings {
    /// Longest sequence that it holds: the model's context, or all of the cache if that is less.
    pub fn longest_tokens(&self, config: &ModelConfig) -> usize {
        let blocks = self.options(0, config.context_tokens).kv_blocks(config);
        config.context_tokens.min(blocks * BLOCK_TOKENS)
    }

    /// As the engine takes them.
    pub(crate) fn options(&self, threads: usize, context_tokens: usize) -> EngineOptions {
        EngineOptions {
            kv: KvBudget::Bytes(self.kv_bytes),
            max_running: self.most_running,
            step_tokens: self.step_tokens.max(self.most_running),
            context_tokens: Some(context_tokens),
            storage: match self.storage {
                EngineStorage::F32 => Storage::F32,
                EngineStorage::Bf16 => Storage::Bf16,
            },
            threads: Some(threads),
            ..EngineOptions::default()
        }
    }
}

/// Tasks that are measured and not learnt: files of their own, a part of the stage's tasks, or made
/// up like them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RlEvaluation {
    /// The tasks' files; none to hold tasks out.
    pub data: TaskOptions,
    /// Tasks of the stage's own that are held out, drawn with the recipe's seed; of made-up ones,
    /// tasks made up for this.
    pub held_out_tasks: usize,
    /// Rollouts of each.
    pub samples: usize,
    /// Temperature; 0 takes the likeliest token.
    pub temperature: f64,
    /// Steps between evaluations; 0 = only before the first step and after the last.
    pub every_steps: u64,
}

impl Default for RlEvaluation {
    fn default() -> Self {
        Self {
            data: TaskOptions::default(),
            held_out_tasks: 0,
            samples: 1,
            temperature: 0.6,
            every_steps: 0,
        }
    }
}
