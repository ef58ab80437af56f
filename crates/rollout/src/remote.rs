//! Models behind HTTP: any server that speaks OpenAI's chat completions, and the token interfaces of
//! rocstar, vLLM and SGLang.
//!
//! ```text
//! ChatPlayer ──────┐ messages                  ┌ client: one request, its limits and time-outs
//!                  ├─> Endpoints: who answers ─┤ wire: bytes to answers, whole or streamed
//! RemoteGenerator ─┘ tokens   tries, pauses    └ probe, load: what serves there, how full it is
//! ```
//!
//! Invariants: an answer counts only when it came to its end, and then once; what arrived of a
//! broken one is thrown away, its token counts too. Failures of a server are tried again, elsewhere
//! where there is another; what the model did is never an error. How long is paused is drawn from
//! the request's own key. No key of an interface is ever in a message or a `Debug`.

mod ask;
mod balance;
mod client;
mod conversation;
mod dialogue;
mod endpoints;
mod error;
mod generator;
mod known;
mod load;
mod options;
mod player;
mod probe;
mod requests;
mod room;
mod sending;
mod tally;
mod tools;
pub mod wire;
mod words;

pub use ask::{ChatAsk, ChatEnd, ChatReply};
pub use conversation::RemoteConversation;
pub use endpoints::{ChatHeard, EndpointFacts, Endpoints};
pub use error::RemoteError;
pub use generator::RemoteGenerator;
pub use options::{EndpointKind, EndpointOptions, LimitField, ServerLogProbs, ToolCalls};
pub use player::{ChatOptions, ChatPlayer};
