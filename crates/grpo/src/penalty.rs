//! How flawed a right rollout is, part by part.
//!
//! Invariant: a penalty is a function of typed facts alone, never of text, and lies in 0..=1. The
//! parts are reported one by one; their sum is what the selection weighs.

mod answer_format;
mod tool_errors;

use serde::{Deserialize, Serialize};

use crate::Facts;

/// The penalties of one rollout.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Penalties {
    /// p_err, equation 4: the share of tool calls that failed.
    pub tool_errors: f64,
    /// p_format, equation 5: answers that are missing or too many.
    pub answer_format: f64,
}

impl Penalties {
    /// The penalties of a rollout.
    pub fn of(facts: &Facts) -> Self {
        Self {
            tool_errors: tool_errors::penalty(facts),
            answer_format: answer_format::penalty(facts),
        }
    }

    /// p_total.
    pub fn total(&self) -> f64 {
        self.tool_errors + self.answer_format
    }
}
