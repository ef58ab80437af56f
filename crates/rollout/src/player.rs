//! Who attempts problems: a model behind a [`crate::Generator`], or a server that speaks messages.
//!
//! Evaluation and chat need less than training does: what was written, not the tokens. So they ask
//! this wider trait, which servers can fill that hide their tokens. Invariant: each assignment ends
//! in one [`Played`], an attempt or why there is none; an attempt's content depends on model,
//! assignment and settings alone, as far as the server lets it.

mod token;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use rocstar_record::attempt::Attempt;

use crate::generator::GeneratorError;
use crate::remote::RemoteError;
use crate::rollouts::RolloutError;
use crate::task::Task;

pub use token::TokenPlayer;

/// One attempt to be made.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The problem.
    pub task: Arc<Task>,
    /// Its number within the suite: with `sample`, what its draws are named by.
    pub task_number: u64,
    /// The sample's number within the problem.
    pub sample: u32,
}

/// What became of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// Index of the assignment in the list that was given.
    pub index: usize,
    /// The attempt, or why we failed to make it: that can be tried another time.
    pub attempt: Result<Attempt, String>,
}

/// Makes attempts.
pub trait Player: Send + Sync + fmt::Debug {
    /// Makes all attempts, as many at once as there is room for, and tells of each as it ends, in
    /// any order. Dropping the future ends all work; what was told of stays.
    ///
    /// # Errors
    /// Nothing can be made at all: settings, an endpoint that is gone. A single failure is not one.
    fn play<'run>(
        &'run self,
        assignments: &'run [Assignment],
        ended: &'run (dyn Fn(Played) + Send + Sync),
    ) -> BoxFuture<'run, Result<(), PlayError>>;
}

/// Why nothing can be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The rollout can't start or go on.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The generator.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The servers.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}
