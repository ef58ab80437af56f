//! The engine in this process as a [`Generator`].
//!
//! Invariant: each wake-up of the reader takes all tokens that are there. On a machine with few
//! cores every wake-up takes a core from the arithmetic, so a reader that wants all at the end is
//! woken once.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt as _};
use rocstar_engine::{Completion, Engine, Event, FinishReason, Generation, Refusal, Request};
use rocstar_engine::{SampledToken, Stop};

use crate::generator::{Ask, Capacity, Delivery, End, Generator, GeneratorError, Piece, Token};

/// How long a full queue is left alone.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// An engine in this process.
#[derive(Debug, Clone)]
pub struct LocalGenerator {
    engine: Engine,
}

impl LocalGenerator {
    /// Asks this engine. The engine's queue and cache may have other users beside.
    pub const fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// The engine, to load weights into.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

type Pieces = BoxStream<'static, Result<Piece, GeneratorError>>;

impl Generator for LocalGenerator {
    fn generate(&self, ask: Ask) -> Result<Pieces, GeneratorError> {
        let delivery = ask.delivery;
        let generation = self.engine.generate(request(ask)).map_err(refused)?;
        Ok(match delivery {
            Delivery::AsSampled => Sampled { generation, end: None, ended: false }.boxed(),
            Delivery::AtEnd => {
                let all = async { futures::stream::iter(pieces(generation.completion().await)) };
                futures::stream::once(all).flatten().boxed()
            }
        })
    }

    fn capacity(&self) -> Capacity {
        let (stats, options) = (self.engine.stats(), self.engine.options());
        let free_blocks = stats.kv_blocks_free + stats.kv_blocks_cached;
        Capacity {
            total_tokens: stats.kv_blocks * stats.block_tokens,
            free_tokens: free_blocks * stats.block_tokens,
            block_tokens: stats.block_tokens,
            shares_prefixes: options.share_prefixes,
            longest_tokens: self.engine.longest_tokens(),
            most_running: options.max_running,
        }
    }
}

fn request(ask: Ask) -> Request {
    let Ask { prompt, max_new_tokens, sampling, stop_tokens, draw, delivery: _ } = ask;
    let stop = Stop { tokens: stop_tokens, max_new_tokens, ..Stop::default() };
    Request { sampling, stop, ..Request::new(prompt, max_new_tokens, draw) }
}

fn refused(refusal: Refusal) -> GeneratorError {
    match refusal {
        Refusal::QueueFull { .. } => GeneratorError::Busy { retry_after: RETRY_AFTER },
        Refusal::Stopped { cause } => GeneratorError::Stopped { cause },
        other => GeneratorError::Refused { cause: other.to_string() },
    }
}

fn token(sampled: &SampledToken) -> Token {
    Token {
        token: sampled.token,
        log_prob: sampled.log_prob,
        model_log_prob: sampled.model_log_prob,
        version: sampled.version.0,
    }
}

fn end(reason: FinishReason) -> Result<Piece, GeneratorError> {
    match reason {
        FinishReason::StopToken(token) => Ok(Piece::End(End::Stop(token))),
        FinishReason::Length => Ok(Piece::End(End::Length)),
        FinishReason::Context => Ok(Piece::End(End::Context)),
        // No stop strings are asked for, and nobody cancels what is being read but the engine.
        FinishReason::StopString { .. } | FinishReason::Cancelled => {
            Err(GeneratorError::Failed { cause: "the engine was stopped".to_owned() })
        }
        FinishReason::EngineFailed { cause } => Err(GeneratorError::Failed { cause }),
    }
}

fn pieces(completion: Completion) -> Vec<Result<Piece, GeneratorError>> {
    let tokens: Vec<Token> = completion.tokens.iter().map(token).collect();
    let tokens = (!tokens.is_empty()).then_some(Ok(Piece::Tokens(tokens)));
    tokens.into_iter().chain([end(completion.finished.reason)]).collect()
}

/// Tokens as they are sampled.
struct Sampled {
    generation: Generation,
    /// The end, where it came together with tokens.
    end: Option<FinishReason>,
    ended: bool,
}

impl Stream for Sampled {
    type Item = Result<Piece, GeneratorError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut tokens = Vec::new();
        while self.end.is_none() {
            match Pin::new(&mut self.generation).poll_next(context) {
                Poll::Ready(Some(Event::Token(sampled))) => tokens.push(token(&sampled)),
                Poll::Ready(Some(Event::Prompt(_))) => {}
                Poll::Ready(Some(Event::Finished(finished))) => self.end = Some(finished.reason),
                Poll::Ready(None) => self.end = Some(FinishReason::Cancelled),
                Poll::Pending if tokens.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if !tokens.is_empty() {
            return Poll::Ready(Some(Ok(Piece::Tokens(tokens))));
        }
        self.ended = true;
        Poll::Ready(self.end.take().map(end))
    }
}
