//! What an attempt is worth: one scorer a kind of gold, behind one function.
//!
//! Invariants: a score depends on problem, attempt and, where a model judges, its answers alone, so
//! saved attempts can be scored again; only the policy's own text of its last turn is looked at,
//! never what a tool said; what we fail at is an error and no score.
//!
//! An attempt that a limit cut off has no final answer: for values and choices it is unparseable,
//! whatever its text holds, which is the paper's rule. The other kinds are scored on what is there,
//! as their published scorers do.

use futures::future::BoxFuture;
use rocstar_record::attempt::{Attempt, Score};
use rocstar_record::message::Message;

use crate::problem::Problem;

/// A model that is asked which of two answers is better.
pub trait Judge: Send + Sync + std::fmt::Debug {
    /// Its answer to `messages`, or why it could not be had.
    fn ask<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Result<String, String>>;
}

/// Why there is no score. It says nothing of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// A model must judge, and there is none.
    #[error(
        "problem {problem} is scored by a judging model, and none is set: name an endpoint with `--judge`"
    )]
    NoJudge {
        /// The problem.
        problem: String,
    },
    /// The judging model did not answer.
    #[error("the judging model failed on problem {problem}: {cause}")]
    Judge {
        /// The problem.
        problem: String,
        /// What happened.
        cause: String,
    },
    /// A fault of the scorer.
    #[error("the scorer failed on problem {problem}: {cause}")]
    Fault {
        /// The problem.
        problem: String,
        /// What happened.
        cause: String,
    },
}

/// Scores `attempt` at `problem`. Work that takes the processor runs beside the runtime's threads.
///
/// # Errors
/// There is no judge where one is needed, it fails, or the scorer has a fault.
#[expect(clippy::unused_async, reason = "the scorers come in")]
pub async fn score(
    problem: &Problem,
    attempt: &Attempt,
    judge: Option<&dyn Judge>,
) -> Result<Score, ScoreError> {
    let _ = (attempt, judge);
    let cause = "not built".to_owned();
    Err(ScoreError::Fault { problem: problem.task.id.0.clone(), cause })
}
