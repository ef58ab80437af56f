//! A problem of a suite, and what its answer is scored against.
//!
//! Invariant: a problem holds all that its scorer needs, so that saved attempts can be scored again
//! from the suite's data alone; the gold is never part of what the model is shown.

use std::sync::Arc;

use rocstar_rollout::Task;
use rocstar_verify::Extraction;

use crate::bfcl::BfclGold;
use crate::ifeval::IfEvalGold;

/// One problem.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What the model is shown, and its identity.
    pub task: Arc<Task>,
    /// What its answer is scored against.
    pub gold: Gold,
}

impl Problem {
    /// Where the suite sorts it, where it does.
    pub fn category(&self) -> Option<&str> {
        self.task.meta.get("category").and_then(serde_json::Value::as_str)
    }
}

/// What an answer is scored against: one variant a kind of scorer.
#[derive(Debug, Clone)]
pub enum Gold {
    /// A value, compared by `rocstar-verify`.
    Math {
        /// The right answer.
        answer: String,
        /// How the model's answer is found.
        extraction: Extraction,
    },
    /// One of several choices.
    Choice {
        /// The right letter, `A` the first.
        letter: char,
        /// How many there are.
        choices: usize,
    },
    /// Instructions that a program checks.
    IfEval(IfEvalGold),
    /// Calls of functions.
    Bfcl(BfclGold),
    /// An answer that a judging model compares with ours.
    Judged {
        /// The answer that it is compared with.
        baseline: String,
    },
}
