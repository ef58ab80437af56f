//! Tasks in, finished episodes out.
//!
//! ```text
//! data ─> Task ─> Rollouts::roll_out ─> RolledOut { episodes, lost } for each task
//!                   │ scheduler: who runs now, by free tokens of the cache
//!                   └ episode: generate, parse, call, append, stop
//!                       ├ Generator: tokens in, tokens out   (the local engine, or a server)
//!                       ├ Tool: a call to what it came to     (Python in the sandbox)
//!                       └ Verifier: is the final answer right?
//! ```
//!
//! Two rules run through it. What the policy or its program does is a value in the episode; what we
//! fail at is tried again, and then the rollout is lost with its cause, never scored. And nothing
//! depends on what finished first: every draw has its own key, so the same tasks give the same
//! episodes whatever ran beside them.

mod books;
mod conversation;
mod counts;
pub mod data;
mod episode;
mod generator;
mod local;
mod meter;
mod player;
pub mod practice;
mod pulse;
mod recorded;
pub mod remote;
mod rollouts;
pub mod rows;
mod sample;
mod scheduler;
mod settings;
mod task;
#[cfg(test)]
mod test_support;
mod tool;
mod tries;
mod verifier;

pub use conversation::{Conversation, ConversationError, Heard, Reply, TokenConversation};
pub use data::TaskOptions;
pub use generator::{
    Ask, BoxStream, Capacity, Delivery, End, Generator, GeneratorError, Piece, Token,
};
pub use local::LocalGenerator;
pub use player::{Assignment, PlayError, Played, Player, TokenPlayer};
pub use pulse::Pulse;
pub use recorded::RecordedGenerator;
pub use rollouts::{
    At, NoEpisode, Policy, Progress, RolledOut, RolledOutAll, RolloutError, Rollouts, Usage,
};
pub use settings::{RolloutOptions, ToolMode};
pub use task::Task;
pub use tool::{Answered, PythonTool, Tool, ToolError, ToolInstance, answer_text};
pub use verifier::{
    MathVerifier, MathVerify, Opinion, SecondVerifier, Verifier, VerifierError, VerifierOptions,
    WithSecondOpinion, verdict,
};
