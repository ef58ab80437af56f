//! Servers that give tokens as a [`Generator`].
//!
//! Invariants: the prompt's ids go out as they are and the sampled ids come back as they are; tokens
//! are handed on when their answer is complete, so that one that broke off leaves no trace. What is
//! told of each token is in `known.rs`.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use rocstar_engine::Sampling;

use super::client::Reading;
use super::endpoints::{Endpoint, Endpoints, Job, fault};
use super::error::{Fault, RemoteError};
use super::known::LogProbsKnown;
use super::options::{EndpointKind, EndpointOptions};
use super::requests::{completion_body, sglang_body};
use super::wire::{CompletionReading, GeneratedTokens, Reach, SglangReading, WireError};
use crate::generator::{Ask, Capacity, End, Generator, GeneratorError, Piece, Token};

/// Tokens of a block, where the server doesn't tell.
const BLOCK_TOKENS: usize = 16;
/// Longest sequence, where no server tells.
const USUAL_LONGEST_TOKENS: usize = 32_768;

/// Servers that give tokens.
#[derive(Debug, Clone)]
pub struct RemoteGenerator {
    endpoints: Arc<Endpoints>,
}

impl RemoteGenerator {
    /// Gets to know all servers.
    ///
    /// # Errors
    /// As of [`Endpoints::connect`], or [`RemoteError::NoTokens`].
    pub async fn connect(options: Vec<EndpointOptions>) -> Result<Self, RemoteError> {
        Self::new(Arc::new(Endpoints::connect(options).await?))
    }

    /// Asks these servers for tokens.
    ///
    /// # Errors
    /// [`RemoteError::NoTokens`]: one of them speaks messages only.
    pub fn new(endpoints: Arc<Endpoints>) -> Result<Self, RemoteError> {
        match endpoints.all().iter().find(|endpoint| !endpoint.kind.has_tokens()) {
            Some(endpoint) => Err(RemoteError::NoTokens {
                url: endpoint.options.url.clone(),
                kind: endpoint.kind.name(),
            }),
            None => Ok(Self { endpoints }),
        }
    }

    /// The servers.
    pub const fn endpoints(&self) -> &Arc<Endpoints> {
        &self.endpoints
    }

    /// Which log-probabilities are known of tokens that are drawn so, at every server. Training
    /// needs both; evaluation neither.
    pub fn log_probs_known(&self, sampling: &Sampling) -> LogProbsKnown {
        let known = |it: &Endpoint| LogProbsKnown::of(it.kind, it.options.log_probs, sampling);
        let mut all = self.endpoints.all().iter().map(known);
        let first = all.next().unwrap_or(LogProbsKnown::Neither);
        all.fold(first, |sum, next| match (sum, next) {
            (sum, next) if sum == next => sum,
            (LogProbsKnown::Both, other) | (other, LogProbsKnown::Both) => other,
            _ => LogProbsKnown::Neither,
        })
    }
}

impl Generator for RemoteGenerator {
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
        let endpoints = Arc::clone(&self.endpoints);
        let pieces = async move {
            let (tokens, draw) = (ask.prompt.len() + ask.max_new_tokens, ask.draw);
            let pieces = match endpoints.send(tokens, draw, &mut TokenJob { ask: &ask }).await {
                Ok((tokens, end)) => {
                    let tokens = (!tokens.is_empty()).then_some(Ok(Piece::Tokens(tokens)));
                    tokens.into_iter().chain([Ok(Piece::End(end))]).collect()
                }
                Err(error) => vec![Err(generator_error(&error))],
            };
            futures::stream::iter(pieces)
        };
        Ok(futures::stream::once(pieces).flatten().boxed())
    }

    fn capacity(&self) -> Capacity {
        let endpoints = self.endpoints.all();
        let told = endpoints.iter().filter_map(|endpoint| endpoint.longest_tokens).min();
        let longest_tokens = told.unwrap_or(USUAL_LONGEST_TOKENS);
        let most_running = self.endpoints.max_concurrent();
        let usual = most_running.saturating_mul(longest_tokens);
        let (total_tokens, free_tokens) = self.endpoints.room().unwrap_or((usual, usual));
        Capacity {
            total_tokens,
            free_tokens,
            block_tokens: BLOCK_TOKENS,
            shares_prefixes: true,
            longest_tokens,
            most_running,
        }
    }
}

fn generator_error(error: &RemoteError) -> GeneratorError {
    let cause = error.to_string();
    match error {
        RemoteError::Refused { .. } if !error.is_final() => GeneratorError::Refused { cause },
        error if error.is_final() => GeneratorError::Stopped { cause },
        _ => GeneratorError::Failed { cause },
    }
}

struct TokenJob<'a> {
    ask: &'a Ask,
}

impl Job for TokenJob<'_> {
    type Answer = (Vec<Token>, End);

    fn run<'job>(
        &'job mut self,
        endpoint: &'job Endpoint,
    ) -> BoxFuture<'job, Result<Self::Answer, Fault>> {
        let ask = self.ask;
        Box::pin(async move {
            let (client, most) = (&endpoint.client, endpoint.options.answer_bytes);
            let generated = if endpoint.kind == EndpointKind::Sglang {
                let url = format!("{}/generate", client.address.root);
                let mut reading = Whole(SglangReading::new(ask.max_new_tokens, most));
                client.post(&url, sglang_body(ask)?, false, &mut reading).await?;
                reading.0.finish()
            } else {
                let url = format!("{}/completions", client.address.api);
                let is_streamed = endpoint.options.stream;
                let reading = CompletionReading::new(is_streamed, ask.max_new_tokens, most);
                let mut reading = Streamed(reading);
                let body = completion_body(endpoint, ask)?;
                client.post(&url, body, is_streamed, &mut reading).await?;
                reading.0.finish()
            };
            answer(endpoint, ask, &generated.map_err(fault)?)
        })
    }
}

struct Whole(SglangReading);

impl Reading for Whole {
    fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError> {
        self.0.push(bytes).map(|()| Reach::More)
    }
}

struct Streamed(CompletionReading);

impl Reading for Streamed {
    fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError> {
        self.0.push(bytes)
    }
}

/// The tokens with what is known of each.
fn answer(
    endpoint: &Endpoint,
    ask: &Ask,
    generated: &GeneratedTokens,
) -> Result<(Vec<Token>, End), Fault> {
    let tokens = &generated.tokens;
    let known = LogProbsKnown::of(endpoint.kind, endpoint.options.log_probs, &ask.sampling);
    let is_rocstar = endpoint.kind == EndpointKind::Rocstar;
    let told = if is_rocstar { &generated.model_log_probs } else { &generated.log_probs };
    if told.len() != tokens.len()
        || (is_rocstar && generated.sampling_log_probs.len() != tokens.len())
    {
        let cause = format!(
            "{} token ids came with {} log-probabilities: is it a {} server?",
            tokens.len(),
            told.len(),
            endpoint.kind.name()
        );
        return Err(Fault::broken(cause));
    }
    let runs = generated.weight_versions.iter();
    let mut versions = runs.flat_map(|&(version, tokens)| std::iter::repeat_n(version, tokens));
    let token = |(index, &token): (usize, &u32)| {
        let (log_prob, model_log_prob) = if is_rocstar {
            (generated.sampling_log_probs[index], generated.model_log_probs[index])
        } else {
            known.both(generated.log_probs[index], &ask.sampling)
        };
        // Where the server has no versions, they are all the same one.
        let version = versions.next().unwrap_or(0);
        Token { token, log_prob, model_log_prob, version }
    };
    let end = match tokens.last() {
        Some(last) if generated.is_stopped && ask.stop_tokens.contains(last) => End::Stop(*last),
        _ if generated.is_stopped => {
            let cause = "it stopped at a token that is no stop token of this model: do tokenizer \
                         and server belong together?";
            return Err(Fault::broken(cause));
        }
        _ if generated.is_context_full => End::Context,
        _ => End::Length,
    };
    Ok((tokens.iter().enumerate().map(token).collect(), end))
}
