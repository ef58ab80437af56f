//! A model's server without a model: answers come from a script, faults when they are asked for.
//!
//! For tests and benches of whatever asks such servers. It speaks OpenAI's chat completions, whole
//! and streamed, with tools; and, as vLLM or SGLang, the token interfaces. Invariants: what it
//! answers depends on the question alone, never on faults, order or time, so a client that copes
//! with faults ends where it would have ended without; every request is written down, with whether
//! its answer went out whole.

mod behaviour;
mod chat;
mod context;
mod fault;
mod script;
mod server;
mod tokens;

pub use behaviour::{Behaviour, Flavour, Metrics, Pace};
pub use context::{Context, ContextWording};
pub use fault::{Arrival, Fault, Faults};
pub use script::{Call, Question, Reply, Script, TokenQuestion, TokenScript};
pub use server::{FakeEndpoint, Seen};
