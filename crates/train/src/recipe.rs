//! A recipe: everything that decides what a training run computes, in one file.
//!
//! Invariant: reading never ignores a key. A [`Recipe`] that was read may still lack things or hold
//! values that can't work; [`Recipe::validate`] tells all of that at once, before anything slow.
//! Written by [`Recipe::to_toml`] and read again, a recipe is the same.
//!
//! Units stand in the names: steps, tokens, sequences. What a stage does is its `kind`; each kind is
//! one variant of [`Stage`] with a structure of its own.

mod read;
mod rl;
mod validate;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use read::{Difference, RecipeError};
pub use rl::{EngineSettings, EngineStorage, FilterOptions, OldLogProbs, RlEvaluation, RlStage};

/// A whole training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Key of every random draw of the run.
    pub seed: u64,
    /// Threads that compute; 0 = one a core. The same number gives the same bits.
    pub threads: usize,
    /// Where the run is written down.
    pub run: RunOptions,
    /// What is trained.
    pub model: ModelOptions,
    /// When the state is saved, and what is kept.
    pub checkpoint: CheckpointOptions,
    /// What is done, one after the other.
    pub stage: Vec<Stage>,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            seed: 1,
            threads: 0,
            run: RunOptions::default(),
            model: ModelOptions::default(),
            checkpoint: CheckpointOptions::default(),
            stage: Vec::new(),
        }
    }
}

/// Where the run is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunOptions {
    /// Name of the run's own folder.
    pub name: String,
    /// Folder that holds the runs.
    pub folder: PathBuf,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { name: String::new(), folder: "runs".into() }
    }
}

/// What is trained: a model that exists (`path`), or a new one (`shape` and `tokenizer`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelOptions {
    /// Hugging Face folder, GGUF file, or the short name of a fetched model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A new model of this shape, with random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Folder with `tokenizer.json`, a GGUF file, or `built-in:practice` for made-up data. Needed
    /// with `shape`, otherwise the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// How messages become text; the chat template beside the tokenizer where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<BuiltInTemplate>,
}

/// A `model.tokenizer` that comes with rocstar: the small one that made-up data are written in.
pub const PRACTICE_TOKENIZER: &str = "built-in:practice";

/// Shapes of new models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// About 1 M parameters with a small vocabulary: what a laptop trains in minutes.
    Mini,
    /// d 256, 6 layers, 4 heads, 2 of keys and values: 4.4 M parameters beside the embedding.
    Tiny,
    /// As SmolLM2-135M.
    Smol,
}

/// Chat templates that come with rocstar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltInTemplate {
    /// ChatML, with tools as Qwen2.5 has them.
    ChatMl,
    /// A problem to reason on with a Python tool, as rStar2-Agent poses it.
    RStar2,
}

/// When the state is saved, and what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointOptions {
    /// Steps between checkpoints; 0 = only at the end of each stage.
    pub every_steps: u64,
    /// Most recent checkpoints that are kept, at least 1.
    pub keep_last: usize,
    /// Keep the checkpoint with the lowest evaluation loss too.
    pub keep_best: bool,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self { every_steps: 100, keep_last: 2, keep_best: true }
    }
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// Supervised fine-tuning on conversations.
    Sft(Box<SftStage>),
    /// Reinforcement learning on tasks.
    Rl(Box<RlStage>),
}

impl Stage {
    /// Its adapters, where it trains some.
    pub const fn lora(&self) -> Option<&LoraOptions> {
        match self {
            Self::Sft(stage) => stage.lora.as_ref(),
            Self::Rl(stage) => stage.lora.as_ref(),
        }
    }
}

/// Data that are made up: sums, number theory, counting and small word problems, each beyond what a
/// small model does without a tool. See [`rocstar_rollout::practice`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PracticeOptions {
    /// How many: conversations of a stage of fine-tuning, tasks of one of reinforcement learning.
    pub count: usize,
    /// Seed of the data, apart from the run's: runs with different seeds can share their tasks.
    pub seed: u64,
}

impl Default for PracticeOptions {
    fn default() -> Self {
        Self { count: 4096, seed: 0 }
    }
}

/// Supervised fine-tuning: the assistant's tokens of conversations are learnt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SftStage {
    /// Passes over the data. The stage ends with these or with `steps`, whichever comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Optimiser steps. Without `epochs`, the data is passed over as often as needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Conversations of one optimiser step; give this or `tokens_per_step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences_per_step: Option<usize>,
    /// Most tokens of one optimiser step; give this or `sequences_per_step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_step: Option<usize>,
    /// Most tokens that go through the model together; bounds memory, not the result.
    pub tokens_per_micro_batch: usize,
    /// Longest sequence.
    pub sequence_tokens: usize,
    /// What happens to longer ones.
    pub longer_sequences: Longer,
    /// Compute each layer's forward pass again in the backward pass: less memory, a third slower.
    pub recompute: bool,
    /// The conversations.
    pub data: DataOptions,
    /// Conversations that are made up instead of read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub practice: Option<PracticeOptions>,
    /// Conversations that are measured and not learnt.
    pub evaluation: EvaluationOptions,
    /// AdamW and its schedule.
    pub optimizer: OptimizerOptions,
    /// Go on with the optimiser's moments of the stage before, which must train the same weights.
    pub keep_optimizer: bool,
    /// Train low-rank adapters, and leave the model itself as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraOptions>,
}

impl Default for SftStage {
    fn default() -> Self {
        Self {
            epochs: None,
            steps: None,
            sequences_per_step: None,
            tokens_per_step: None,
            tokens_per_micro_batch: 2048,
            sequence_tokens: 1024,
            longer_sequences: Longer::Error,
            recompute: false,
            data: DataOptions::default(),
            practice: None,
            evaluation: EvaluationOptions::default(),
            optimizer: OptimizerOptions::default(),
            keep_optimizer: false,
            lora: None,
        }
    }
}

/// What happens to a conversation of more than `sequence_tokens` tokens. Each is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Longer {
    /// The run does not start.
    Error,
    /// Its end is cut off.
    Cut,
    /// It is left out.
    Skip,
}

/// Where conversations come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataOptions {
    /// Files of `.jsonl` or `.parquet`.
    pub paths: Vec<PathBuf>,
    /// Field or column with the messages.
    pub messages_field: String,
    /// Field or column with the tools that the assistant may call, where there is one.
    pub tools_field: String,
    /// Field with a question, for data without messages; goes with `completion_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_field: Option<String>,
    /// Field with the answer to `prompt_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_field: Option<String>,
    /// A system message for conversations that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What happens to a conversation that is there twice. Each is counted.
    pub duplicates: Duplicates,
    /// Use at most this many conversations, from the first on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            messages_field: "messages".to_owned(),
            tools_field: "tools".to_owned(),
            prompt_field: None,
            completion_field: None,
            system: None,
            duplicates: Duplicates::Keep,
            limit: None,
        }
    }
}

/// What happens to a conversation whose tokens are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Duplicates {
    /// It is used as often as it is there.
    Keep,
    /// It is used once.
    Drop,
}

/// Conversations that are measured: files of their own, or a share of the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationOptions {
    /// Files, read as the data's.
    pub paths: Vec<PathBuf>,
    /// Share of the data that is held out, from 0 to below 1; drawn with the recipe's seed.
    pub held_out_share: f64,
    /// Steps between evaluations; 0 = only before the first step and after the last.
    pub every_steps: u64,
    /// Use at most this many conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// AdamW and its schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerOptions {
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Course of the learning rate after the warm-up.
    pub schedule: ScheduleKind,
    /// Steps in which the learning rate rises from nothing.
    pub warm_up_steps: u64,
    /// Share of `learning_rate` that a cosine ends with.
    pub final_share: f64,
    /// Decay of matrices (norms and biases don't decay).
    pub weight_decay: f64,
    /// Decay of the running mean of the gradient.
    pub beta1: f64,
    /// Decay of the running mean of its square.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Longest gradient; 0 = not clipped.
    pub clip_norm: f64,
}

impl Default for OptimizerOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-5,
            schedule: ScheduleKind::Cosine,
            warm_up_steps: 10,
            final_share: 0.1,
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            clip_norm: 1.0,
        }
    }
}

/// Course of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// It stays.
    Constant,
    /// It falls by half a cosine until the last step.
    Cosine,
}

/// Low-rank adapters: `W + alpha / rank · B · A`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraOptions {
    /// Rows of A.
    pub rank: usize,
    /// Scale, times the rank.
    pub alpha: f64,
    /// Matrices that get adapters, by Hugging Face's names.
    pub targets: Vec<LoraTarget>,
}

impl Default for LoraOptions {
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, targets: LoraTarget::ALL.to_vec() }
    }
}

/// A matrix of each layer that can get an adapter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "these are Hugging Face's names of the matrices")]
pub enum LoraTarget {
    QProj,
    KProj,
    VProj,
    OProj,
    GateProj,
    UpProj,
    DownProj,
}

impl LoraTarget {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::QProj,
        Self::KProj,
        Self::VProj,
        Self::OProj,
        Self::GateProj,
        Self::UpProj,
        Self::DownProj,
    ];
}
