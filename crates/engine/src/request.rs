//! What a caller asks for: a prompt, how to draw, when to stop.
//!
//! Invariant: a request that passes [`Request::check`] can be carried out whatever else runs.

use std::sync::Arc;

use rocstar_record::draw::Key;

use crate::error::Refusal;

/// Most alternatives that a request may ask for at each position.
pub const MOST_TOP_LOG_PROBS: usize = 64;

/// A prompt to be continued.
#[derive(Debug, Clone)]
pub struct Request {
    /// Tokens to continue.
    pub prompt: Vec<u32>,
    /// How a token is drawn.
    pub sampling: Sampling,
    /// When to stop.
    pub stop: Stop,
    /// Names the stream of draws. The token at index `p` of the sequence (prompt included) is drawn
    /// at position `p` of the stream, so a generation that is cut and continued draws the same.
    pub draw: Key,
    /// How many of the likeliest tokens come with each token; at most [`MOST_TOP_LOG_PROBS`].
    pub top_log_probs: usize,
    /// Also report the log-probability of each prompt token. The whole prompt is then computed, even
    /// where a prefix is cached.
    pub prompt_log_probs: bool,
}

/// How a token is drawn: the logits are divided by the temperature, then the cuts are applied in the
/// order top-k, top-p, min-p, and what is left is scaled to sum to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits; 0 takes the likeliest token, the lowest id of equals.
    pub temperature: f32,
    /// Only this many likeliest tokens; `None` for all.
    pub top_k: Option<usize>,
    /// Only the fewest likeliest tokens whose probabilities sum to at least this; 1 for all.
    pub top_p: f32,
    /// Only tokens at least this share as likely as the likeliest; 0 for all.
    pub min_p: f32,
}

impl Default for Sampling {
    /// The model's own distribution.
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0 }
    }
}

impl Sampling {
    /// The likeliest token, always.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    fn check(&self) -> Result<(), Refusal> {
        let finite = self.temperature.is_finite();
        let checks = [
            ("temperature", self.temperature, finite && self.temperature >= 0.0, "at least 0"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "over 0 and at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1"),
        ];
        if let Some((field, value, _, range)) = checks.into_iter().find(|check| !check.2) {
            return Err(Refusal::OutOfRange { field, value: f64::from(value), range });
        }
        if self.top_k == Some(0) {
            return Err(Refusal::OutOfRange { field: "top_k", value: 0.0, range: "at least 1" });
        }
        Ok(())
    }
}

/// When a generation ends, beside the end of the context.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Tokens after which it ends. The stop token is reported as sampled.
    pub tokens: Vec<u32>,
    /// Strings after which it ends, looked for in the bytes of the sampled tokens, across their
    /// borders. Tokens sampled until then are reported as sampled.
    pub strings: Vec<String>,
    /// The bytes of tokens; needed for `strings`.
    pub text: Option<Arc<dyn TokenText>>,
    /// Most tokens to sample. 0 only to get `prompt_log_probs`.
    pub max_new_tokens: usize,
}

/// Turns tokens into the bytes that they stand for.
pub trait TokenText: std::fmt::Debug + Send + Sync {
    /// Appends the bytes of `token`, which may be a part of a character; none for a token without
    /// text.
    fn append(&self, token: u32, bytes: &mut Vec<u8>);
}

impl Request {
    /// A request with the model's own distribution and no stop but the number of tokens.
    pub fn new(prompt: Vec<u32>, max_new_tokens: usize, draw: Key) -> Self {
        Self {
            prompt,
            sampling: Sampling::default(),
            stop: Stop { max_new_tokens, ..Stop::default() },
            draw,
            top_log_probs: 0,
            prompt_log_probs: false,
        }
    }

    /// Whether an engine with these bounds can carry it out.
    pub(crate) fn check(&self, bounds: &Bounds) -> Result<(), Refusal> {
        self.sampling.check()?;
        self.check_stop()?;
        if self.top_log_probs > MOST_TOP_LOG_PROBS {
            let value = self.top_log_probs as f64;
            let range = "at most 64";
            return Err(Refusal::OutOfRange { field: "top_log_probs", value, range });
        }
        self.check_prompt(bounds)
    }

    fn check_stop(&self) -> Result<(), Refusal> {
        if let Some(index) = self.stop.strings.iter().position(String::is_empty) {
            return Err(Refusal::StopEmpty { index });
        }
        if !self.stop.strings.is_empty() && self.stop.text.is_none() {
            return Err(Refusal::StopWithoutText);
        }
        if self.stop.max_new_tokens == 0 && !self.prompt_log_probs {
            let field = "stop.max_new_tokens";
            return Err(Refusal::OutOfRange { field, value: 0.0, range: "at least 1" });
        }
        Ok(())
    }

    fn check_prompt(&self, bounds: &Bounds) -> Result<(), Refusal> {
        if self.prompt.is_empty() {
            return Err(Refusal::PromptEmpty);
        }
        let outside = |(_, token): &(usize, &u32)| **token as usize >= bounds.vocabulary;
        if let Some((index, token)) = self.prompt.iter().enumerate().find(outside) {
            let vocabulary = bounds.vocabulary;
            return Err(Refusal::TokenOutside { index, token: *token, vocabulary });
        }
        let prompt_tokens = self.prompt.len();
        // A prompt that is only scored needs no room for a new token.
        let room = usize::from(self.stop.max_new_tokens > 0);
        if prompt_tokens + room > bounds.context_tokens {
            let context_tokens = bounds.context_tokens;
            return Err(Refusal::PromptTooLong { prompt_tokens, context_tokens });
        }
        if prompt_tokens + room > bounds.cache_tokens {
            let cache_tokens = bounds.cache_tokens;
            return Err(Refusal::PromptOverCache { prompt_tokens, cache_tokens });
        }
        Ok(())
    }
}

/// What no request may exceed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) vocabulary: usize,
    pub(crate) context_tokens: usize,
    pub(crate) cache_tokens: usize,
}

impl Bounds {
    /// Most tokens of a sequence.
    pub(crate) fn longest_tokens(&self) -> usize {
        self.context_tokens.min(self.cache_tokens)
    }
}
