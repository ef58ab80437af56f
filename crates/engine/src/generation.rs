//! What comes back: the tokens of one request, in order, then how it ended.
//!
//! Invariant: every accepted request yields exactly one [`Event::Finished`], last, whatever happens
//! to the engine. Dropping a [`Generation`] cancels it and frees its place.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use serde::{Deserialize, Serialize};

use crate::mailbox::{Mailbox, WakeAt};

/// Which weights: rises with each load.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WeightVersion(pub u64);

impl fmt::Display for WeightVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One step of a generation.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The log-probabilities of the prompt, where they were asked for; before the first token.
    Prompt(Vec<PromptToken>),
    /// A token was sampled.
    Token(SampledToken),
    /// It ended; nothing follows.
    Finished(Finished),
}

/// A token of the prompt under the model's own distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptToken {
    /// The token.
    pub token: u32,
    /// Its log-probability after the tokens before it; `None` for the first.
    pub model_log_prob: Option<f32>,
    /// The likeliest tokens at its place, likeliest first, as many as were asked for.
    pub top: Vec<(u32, f32)>,
    /// Weights that computed it.
    pub version: WeightVersion,
}

/// A token that was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledToken {
    /// The token.
    pub token: u32,
    /// Log-probability under the distribution that it was drawn from: temperature and cuts, scaled
    /// to sum to one. 0 at temperature 0.
    pub log_prob: f32,
    /// Log-probability under the model's own distribution: temperature 1, no cuts.
    pub model_log_prob: f32,
    /// Weights that computed it.
    pub version: WeightVersion,
    /// The likeliest tokens of the model's own distribution with their log-probabilities, likeliest
    /// first, as many as were asked for.
    pub top: Vec<(u32, f32)>,
}

/// How a generation ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Why.
    pub reason: FinishReason,
    /// What it took.
    pub usage: Usage,
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// This stop token was sampled; it is the last token reported.
    StopToken(u32),
    /// A stop string appeared in the text.
    StopString {
        /// Index in `stop.strings`; of strings that end at the same byte, the one that begins first.
        index: usize,
        /// Bytes of the generation's text before the stop string.
        text_bytes: usize,
    },
    /// `max_new_tokens` were sampled.
    Length,
    /// The context, or all of the cache, is full.
    Context,
    /// The caller cancelled, or the engine was stopped.
    Cancelled,
    /// The engine could not go on: logits that aren't numbers, or a fault of its own.
    EngineFailed {
        /// What happened.
        cause: String,
    },
}

/// What a generation took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens whose keys and values were there already.
    pub cached_tokens: usize,
    /// Tokens sampled.
    pub new_tokens: usize,
    /// How often it lost its place and was computed again: for lack of cache, or for new weights.
    pub pre_emptions: usize,
    /// Time until it first ran.
    pub waited: Duration,
    /// Time until the first token, waiting included; zero where there was none.
    pub first_token: Duration,
    /// Time until the end, waiting included.
    pub total: Duration,
}

/// A finished generation as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The prompt's log-probabilities; empty where not asked for.
    pub prompt: Vec<PromptToken>,
    /// Sampled tokens.
    pub tokens: Vec<SampledToken>,
    /// How it ended.
    pub finished: Finished,
}

impl Completion {
    /// The sampled tokens' ids.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.token).collect()
    }
}

/// A request under way: a stream of [`Event`]s, for async or blocking callers.
#[derive(Debug)]
pub struct Generation {
    mailbox: Arc<Mailbox>,
}

impl Generation {
    pub(crate) const fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox }
    }

    /// The next event; `None` after [`Event::Finished`]. Blocks the thread: not for async callers.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.mailbox.wait(WakeAt::EveryEvent)
    }

    /// All of it. Blocks the thread, and wakes it only once, at the end.
    pub fn collect_blocking(self) -> Completion {
        let mut gathered = Gathered::default();
        loop {
            // A mailbox whose end was taken is empty for good; `Gathered` then says so.
            match self.mailbox.wait(WakeAt::End) {
                Some(event) => {
                    if let Some(completion) = gathered.take(event) {
                        return completion;
                    }
                }
                None => return gathered.cut_short(),
            }
        }
    }

    /// All of it, for async callers; wakes the task only once, at the end.
    pub async fn completion(self) -> Completion {
        let mut gathered = Gathered::default();
        loop {
            let next = std::future::poll_fn(|context| self.mailbox.poll(context, WakeAt::End));
            match next.await {
                Some(event) => {
                    if let Some(completion) = gathered.take(event) {
                        return completion;
                    }
                }
                None => return gathered.cut_short(),
            }
        }
    }

    /// Ends it soon: [`FinishReason::Cancelled`] follows the tokens sampled until then.
    pub fn cancel(&self) {
        self.mailbox.cancel();
    }
}

/// `None` after [`Event::Finished`].
impl Stream for Generation {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.mailbox.poll(context, WakeAt::EveryEvent)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.mailbox.cancel();
    }
}

/// Events of one generation, put together.
#[derive(Debug, Default)]
struct Gathered {
    prompt: Vec<PromptToken>,
    tokens: Vec<SampledToken>,
}

impl Gathered {
    fn take(&mut self, event: Event) -> Option<Completion> {
        match event {
            Event::Prompt(prompt) => self.prompt = prompt,
            Event::Token(token) => self.tokens.push(token),
            Event::Finished(finished) => {
                let Self { prompt, tokens } = std::mem::take(self);
                return Some(Completion { prompt, tokens, finished });
            }
        }
        None
    }

    /// What is left where the caller had taken the end before it asked for the whole.
    fn cut_short(self) -> Completion {
        let Self { prompt, tokens } = self;
        let cause = "the end of this generation was taken before".to_owned();
        let reason = FinishReason::EngineFailed { cause };
        Completion { prompt, tokens, finished: Finished { reason, usage: Usage::default() } }
    }
}
