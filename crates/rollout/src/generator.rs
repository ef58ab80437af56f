//! Who writes the policy's tokens, behind one trait: the engine in this process, or a server.
//!
//! Invariant: tokens in, tokens out. Nothing here knows text, turns or tools, and what comes back
//! is what was sampled, each token with its log-probabilities and the version of the weights. What
//! an [`Ask`] yields depends on the ask and the weights alone.

use std::fmt;
use std::time::Duration;

pub use futures::stream::BoxStream;
use rocstar_engine::Sampling;
use rocstar_record::draw::Key;

/// What is asked of a policy.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Tokens to continue.
    pub prompt: Vec<u32>,
    /// Most tokens to sample, at least 1.
    pub max_new_tokens: usize,
    /// How a token is drawn.
    pub sampling: Sampling,
    /// Tokens after which it ends; the last token that comes back is then one of them.
    pub stop_tokens: Vec<u32>,
    /// Names the stream of draws; the position is the token's index in the sequence.
    pub draw: Key,
    /// How early the caller wants to see tokens.
    pub delivery: Delivery,
}

/// How early tokens are wanted. Changes when they come, never what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// As they are sampled, so that a tool call can leave at once.
    AsSampled,
    /// All at the end: cheaper.
    AtEnd,
}

/// A token that was sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token {
    /// Its id.
    pub token: u32,
    /// Log-probability under the distribution that it was drawn from.
    pub log_prob: f32,
    /// Log-probability at temperature 1, without cuts.
    pub model_log_prob: f32,
    /// The weights that computed it.
    pub version: u64,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This stop token was sampled; it is the last token.
    Stop(u32),
    /// `max_new_tokens` were sampled.
    Length,
    /// The model's context, or all of the cache, is full.
    Context,
}

/// A part of what comes back: tokens in order, then one end.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Tokens that came since the last piece; at least one.
    Tokens(Vec<Token>),
    /// It ended; nothing follows.
    End(End),
}

/// Room for sequences, in tokens of the key and value cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Tokens that the cache holds.
    pub total_tokens: usize,
    /// Of these, tokens that no running sequence holds.
    pub free_tokens: usize,
    /// Sequences take room in multiples of this many tokens.
    pub block_tokens: usize,
    /// Whether sequences that begin alike share that room.
    pub shares_prefixes: bool,
    /// Longest sequence, prompt and new tokens.
    pub longest_tokens: usize,
    /// Most sequences that run at once.
    pub most_running: usize,
}

/// A policy that can be asked for tokens.
pub trait Generator: Send + Sync + fmt::Debug {
    /// Starts to generate. Dropping the stream cancels it and frees its place.
    ///
    /// # Errors
    /// [`GeneratorError::Busy`] to be asked again, or why it can't be done at all.
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError>;

    /// Room, now.
    fn capacity(&self) -> Capacity;
}

/// Why tokens don't come. Never the policy's doing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GeneratorError {
    /// Too many wait; the same ask may be accepted later.
    #[error("the generator has no room now; asked again after {retry_after:?}")]
    Busy {
        /// When it is worth asking again.
        retry_after: Duration,
    },
    /// This ask can't be carried out, now or later; others can.
    #[error("the generator refuses: {cause}")]
    Refused {
        /// Why, naming the field.
        cause: String,
    },
    /// This generation failed; another one may not.
    #[error("a generation failed: {cause}")]
    Failed {
        /// What happened.
        cause: String,
    },
    /// It takes no more asks.
    #[error("the generator has stopped: {cause}")]
    Stopped {
        /// Why.
        cause: String,
    },
}
