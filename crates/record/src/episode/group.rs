//! What became of all rollouts of one task, in a step of training or in an evaluation.

use serde::{Deserialize, Serialize};

use super::{Episode, TaskId};

/// All rollouts of one task in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// [`super::SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The answer that the task's data says is right: what the verdicts compared with.
    pub answer: String,
    /// The training step.
    pub step: u64,
    /// Whether it is learned from.
    pub verdict: GroupVerdict,
    /// Episodes that are learned from, with their advantages.
    pub kept: Vec<Kept>,
    /// Episodes that are not, each with its cause.
    pub dropped: Vec<Dropped>,
    /// Rollouts that came to no episode.
    pub lost: Vec<Lost>,
}

/// The rollouts of one task in an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// [`super::SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The answer that the task's data says is right.
    pub answer: String,
    /// Its episodes.
    pub episodes: Vec<Episode>,
    /// Rollouts that came to no episode.
    pub lost: Vec<Lost>,
}

/// Whether a group is learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GroupVerdict {
    /// It is.
    Used,
    /// None of it is.
    Dropped {
        /// The cause's name.
        why: String,
    },
}

/// An episode that is learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The episode.
    pub episode: Episode,
    /// How flawed it is.
    pub penalties: Penalties,
    /// What each of its tokens is worth.
    pub advantage: f64,
    /// For each token of the policy: log-probability under the weights that were trained, when the
    /// step learned from it. With the episode's own that gives the ratio of the loss. Absent where
    /// nothing was learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained_log_probs: Vec<f32>,
}

/// An episode that is not learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// The episode.
    pub episode: Episode,
    /// How flawed it is.
    pub penalties: Penalties,
    /// Why.
    pub cause: DropCause,
}

/// How flawed an episode is, part by part, each in 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Penalties {
    /// p_err: for tool calls that failed.
    pub tool_errors: f64,
    /// p_format: for answers that are missing or too many.
    pub answer_format: f64,
}

/// Why a rollout is not learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum DropCause {
    /// The selection dropped it, for its cause.
    Selection {
        /// The cause's name.
        why: String,
    },
    /// The tool or the engine failed, more often than it is tried again.
    Infrastructure {
        /// What failed.
        what: String,
    },
}

/// A rollout that came to no episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its number within the task.
    pub sample: u32,
    /// Why.
    pub cause: DropCause,
}

impl Penalties {
    /// p_total: their sum, which the selection weighs.
    pub fn total(&self) -> f64 {
        self.tool_errors + self.answer_format
    }
}

impl Group {
    /// All its episodes with their penalties, those that are kept first.
    pub fn episodes(&self) -> impl Iterator<Item = (&Episode, &Penalties)> {
        let kept = self.kept.iter().map(|kept| (&kept.episode, &kept.penalties));
        kept.chain(self.dropped.iter().map(|dropped| (&dropped.episode, &dropped.penalties)))
    }
}
