//! What a plan has to assume, each with its default and where that comes from.
//!
//! Invariant: whatever a plan uses and neither the recipe nor a data sheet says is here, can be set, and
//! is printed with the plan.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::hardware::Hardware;

/// How weights, gradient and moments are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Precision {
    /// All in f32: 16 bytes a weight
    F32,
    /// f32 weights, gradient and moments, products in bf16: 16 bytes a weight
    Mixed,
    /// All in bf16: 8 bytes a weight
    Bf16,
}

impl Precision {
    /// Bytes of a weight that is trained, with its gradient and two moments.
    pub(super) const fn trained_bytes(self) -> u64 {
        match self {
            Self::F32 | Self::Mixed => 16,
            Self::Bf16 => 8,
        }
    }

    /// Bytes of a number in a product, and of an activation.
    pub(super) const fn compute_bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Mixed | Self::Bf16 => 2,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Assumptions")]
pub(super) struct AssumptionOptions {
    /// How weights, gradient and moments are kept [default: mixed; f32 on `cpu`]
    #[arg(long, value_name = "PRECISION")]
    precision: Option<Precision>,
    /// Share of the peak rate that an update reaches [default: 0.35, somewhat below the 0.38 to 0.43
    /// of Llama 3's pre-training (arXiv 2407.21783), since sequences differ in length; 0.6 on `cpu`,
    /// as docs/concepts/model-performance.md measures]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    training_utilisation: Option<f64>,
    /// Share of bandwidth and of peak rate that generation reaches [default: 0.5, what servers are
    /// commonly measured at; 0.4 on `cpu`]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    generation_utilisation: Option<f64>,
    /// Share of a device's memory that can be used [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    memory_share: Option<f64>,
    /// Mean tokens of a prompt [default: 500: the system message with the tool's description, and a
    /// problem of competition mathematics]
    #[arg(long, value_name = "TOKENS")]
    prompt_tokens: Option<u64>,
    /// Mean tokens of a response, tools' answers included, for each stage of reinforcement learning;
    /// the last holds for the rest [default: half of the limit]
    #[arg(long, value_name = "TOKENS,…", value_delimiter = ',')]
    response_tokens: Vec<u64>,
    /// Mean tokens of a conversation in fine-tuning [default: half of the limit]
    #[arg(long, value_name = "TOKENS")]
    conversation_tokens: Option<u64>,
    /// Rows of data, for each stage whose data aren't here and that has no `limit`
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// Share of groups that are learnt from, for those that are all right or all wrong are not
    /// [default: 1, the most]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    useful_groups: Option<f64>,
    /// Tool calls of a rollout [default: 2.75: the rStar2-Agent report (arXiv 2508.20722) has 45,000
    /// calls in a step of 16,384 rollouts]
    #[arg(long, value_name = "N")]
    tool_calls: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "write a number over 0 and at most 1".to_owned())?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("must be over 0 and at most 1".to_owned())
    }
}

/// The same, complete.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Assumptions {
    pub(super) precision: Precision,
    pub(super) training_utilisation: f64,
    pub(super) generation_utilisation: f64,
    pub(super) memory_share: f64,
    pub(super) prompt_tokens: u64,
    /// Empty for half of each limit.
    pub(super) response_tokens: Vec<u64>,
    pub(super) conversation_tokens: Option<u64>,
    pub(super) rows: Option<u64>,
    pub(super) useful_groups: f64,
    pub(super) tool_calls: f64,
}

impl AssumptionOptions {
    /// With defaults for the hardware.
    pub(super) fn complete(&self, hardware: &Hardware) -> Assumptions {
        let cpu = hardware.is_cpu;
        let default = if cpu { Precision::F32 } else { Precision::Mixed };
        Assumptions {
            precision: self.precision.unwrap_or(default),
            training_utilisation: self.training_utilisation.unwrap_or(if cpu { 0.6 } else { 0.35 }),
            generation_utilisation: self.generation_utilisation.unwrap_or(if cpu {
                0.4
            } else {
                0.5
            }),
            memory_share: self.memory_share.unwrap_or(0.9),
            prompt_tokens: self.prompt_tokens.unwrap_or(500),
            response_tokens: self.response_tokens.clone(),
            conversation_tokens: self.conversation_tokens,
            rows: self.rows,
            useful_groups: self.useful_groups.unwrap_or(1.0),
            tool_calls: self.tool_calls.unwrap_or(2.75),
        }
    }
}

impl Assumptions {
    /// Mean tokens of a response in the stage of reinforcement learning number `index`.
    pub(super) fn mean_response_tokens(&self, index: usize, limit: u64) -> u64 {
        let given = self.response_tokens.get(index).or_else(|| self.response_tokens.last());
        given.map_or(limit / 2, |tokens| (*tokens).min(limit))
    }
}
