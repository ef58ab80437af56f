//! Servers that give tokens as a [`Generator`].
//!
//! Invariants: the prompt's ids go out as they are and the sampled ids come back as they are; tokens
//! are handed on when their answer is complete, so that one that broke off leaves no trace. What is
//! told of each token is in `known.rs`.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};

use super::client::Reading;
use super::endpoints::{Endpoint, Endpoints, Job};
use super::error::{Fault, RemoteError};
use super::known::LogProbsKnown;
use super::options::EndpointKind;
use super::requests::{completion_body, sglang_body};
use super::room;
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
}

impl Generator for RemoteGenerator {
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
        let endpoints = Arc::clone(&self.endpoints);
        let pieces = async move {
            let pieces = match whole(&endpoints, ask).await {
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
        let longest_tokens = self.endpoints.longest_tokens().unwrap_or(USUAL_LONGEST_TOKENS);
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

/// All tokens. Where the server refuses because the context has no room for so many, as many as have
/// room: an answer that these cut off ends at the context.
async fn whole(endpoints: &Endpoints, mut ask: Ask) -> Result<(Vec<Token>, End), RemoteError> {
    let wanted = ask.max_new_tokens;
    loop {
        let tokens = ask.prompt.len().saturating_add(ask.max_new_tokens);
        let refusal = match endpoints.send(tokens, ask.draw, &mut TokenJob { ask: &ask }).await {
            Ok((tokens, End::Length)) if ask.max_new_tokens < wanted => {
                return Ok((tokens, End::Context));
            }
            Err(error) if error.is_context_full() => error,
            answer => return answer,
        };
        match room::fewer(&refusal, ask.max_new_tokens) {
            Some(fewer) => ask.max_new_tokens = fewer,
            None => return Ok((Vec::new(), End::Context)),
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
            answer(endpoint, ask, &generated?)
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
        return Err(Fault::Odd { cause });
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
            return Err(Fault::Odd { cause: cause.to_owned() });
        }
        _ if generated.is_context_full => End::Context,
        _ => End::Length,
    };
    Ok((tokens.iter().enumerate().map(token).collect(), end))
}
