//! What a policy can call, behind a trait: one instance for each episode.
//!
//! Invariant: whatever the policy's program does is an [`Answered`]; an error is ours, and the call
//! may be made again. An answer's text depends on the call (and, in a session, on those before it)
//! alone: nothing of time, of place or of load is in it, so an episode can be replayed.

mod answer;
mod python;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use rocstar_record::draw::Key;
use rocstar_record::episode::ToolOutcome;
use rocstar_record::message::{ToolCall, ToolSpec};

pub use answer::answer_text;
pub use python::PythonTool;

/// A tool.
pub trait Tool: Send + Sync + fmt::Debug {
    /// What the policy is told of it.
    fn spec(&self) -> ToolSpec;

    /// The tool for one episode. Nothing slow happens before the first call.
    fn open(&self, episode: Key) -> Box<dyn ToolInstance>;
}

/// A tool in use by one episode. Dropping it frees what it holds.
pub trait ToolInstance: Send + Sync + fmt::Debug {
    /// Runs one call of the tool. Dropping the future ends its work.
    fn call<'tool>(&'tool self, call: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>>;

    /// Whether calls must be made one after another, since each may depend on the one before.
    fn is_sequential(&self) -> bool;
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The program that ran; empty where the arguments didn't fit.
    pub program: String,
    /// What the program was given on standard input.
    pub input: String,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What the policy is told, before any cut.
    pub text: String,
    /// Wall time, in microseconds.
    pub wall_us: u64,
    /// CPU time, in microseconds.
    pub cpu_us: u64,
    /// Peak memory, in bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// Layers of isolation that were in force.
    pub isolation: Vec<String>,
}

impl Answered {
    /// A call that was not run, with what was wrong.
    pub fn refused(message: String) -> Self {
        Self {
            program: String::new(),
            input: String::new(),
            text: message.clone(),
            outcome: ToolOutcome::Refused { message },
            wall_us: 0,
            cpu_us: 0,
            memory_bytes: None,
            isolation: Vec::new(),
        }
    }
}

/// A tool that failed: never the program's doing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// No room now; the same call may be made later.
    #[error("the tool has no room now: {cause}")]
    Busy {
        /// When it is worth calling again.
        retry_after: Duration,
        /// What is full.
        cause: String,
    },
    /// This call failed, and can be made again as if nothing had been.
    #[error("the tool failed: {cause}")]
    Failed {
        /// What happened.
        cause: String,
    },
    /// What earlier calls of the episode left is lost: only the whole episode can be made again.
    #[error("the tool lost its state: {cause}")]
    StateLost {
        /// What happened.
        cause: String,
    },
}
