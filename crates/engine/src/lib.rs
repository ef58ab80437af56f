//! Serves tokens fast: many requests share each step, prompts that begin alike are computed once,
//! and a result never depends on which other requests ran.
//!
//! [`Engine`] is a handle to one compute thread. A [`Request`] goes in; a [`Generation`] comes back
//! at once and yields each token with its log-probabilities and the version of the weights that
//! made it. Everything between (what runs when, which blocks of keys and values are shared, moved or
//! computed again) is hidden, and must not change one bit of what comes out: for the same prompt,
//! sampling, draw key and weights the tokens and log-probabilities are the same alone, in any batch,
//! after a pre-emption, and from a cache.
//!
//! One thread that owns all state was chosen over locks around shared structures: a step is one
//! large product over all sequences anyway, so there is nothing for a second scheduler to do. The
//! arithmetic inside a step is parallel.

mod blocks;
mod engine;
mod error;
mod generation;
mod mailbox;
pub mod measure;
pub mod openai;
mod options;
mod output;
mod request;
mod sampler;
mod scheduler;
mod stats;
mod stop;
mod worker;

pub use engine::{Engine, WeightsLoaded};
pub use error::{EngineError, Refusal};
pub use generation::{
    Completion, Event, FinishReason, Finished, Generation, PromptToken, SampledToken, Usage,
    WeightVersion,
};
pub use options::{EngineOptions, KvBudget, OptionProblem};
pub use request::{MOST_TOP_LOG_PROBS, Request, Sampling, Stop, TokenText};
pub use stats::Stats;
pub use stop::{StopFound, StopMatcher};
