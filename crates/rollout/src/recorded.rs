//! Episodes that were made, as a [`Generator`]: the policy writes again what it wrote.
//!
//! With this in place of a model, tool calls are read and run again, answers judged again, and an
//! episode comes out that can be compared with the one that went in. Invariant: what is written in a
//! turn depends on the episode and the turn's number alone, so that a tool which answers otherwise
//! shows in its own call and doesn't silence the turns behind it.

use std::collections::HashMap;

use futures::stream::{BoxStream, StreamExt as _};
use rocstar_record::episode::Episode;

use crate::generator::{Ask, Capacity, End, Generator, GeneratorError, Piece, Token};

/// Most episodes that are played at once.
const MOST_RUNNING: usize = 64;
/// Tokens of a block; of no meaning where nothing is computed.
const BLOCK_TOKENS: usize = 32;

/// Writes recorded episodes again.
#[derive(Debug)]
pub struct RecordedGenerator {
    longest_tokens: usize,
    /// By the number of the task and of the sample.
    episodes: HashMap<(u64, u32), Episode>,
}

impl RecordedGenerator {
    /// Episodes by the numbers of their tasks; `longest_tokens` is what a sequence held when they were
    /// made.
    pub fn new(episodes: impl IntoIterator<Item = (u64, Episode)>, longest_tokens: usize) -> Self {
        let episodes = episodes.into_iter().map(|(task, one)| ((task, one.sample), one));
        Self { longest_tokens, episodes: episodes.collect() }
    }

    /// What was sampled in a turn; nothing where there was no such turn.
    fn turn(&self, ask: &Ask) -> Vec<Token> {
        let Some(episode) = self.episodes.get(&(ask.draw.task, ask.draw.sample)) else {
            return Vec::new();
        };
        let number = ask.draw.turn as usize;
        let Some(turn) = episode.turns.get(number) else { return Vec::new() };
        let before: usize = episode.turns[..number].iter().map(|turn| turn.policy_tokens).sum();
        let versions = episode.weight_versions.iter();
        let versions = versions.flat_map(|(version, count)| std::iter::repeat_n(*version, *count));
        let tokens = episode.tokens.iter().skip(turn.start_token).take(turn.policy_tokens);
        let log_probs = episode.log_probs.iter().zip(&episode.model_log_probs).zip(versions);
        tokens
            .zip(log_probs.skip(before))
            .map(|(&token, ((&log_prob, &model_log_prob), version))| Token {
                token,
                log_prob,
                model_log_prob,
                version,
            })
            .collect()
    }
}

impl Generator for RecordedGenerator {
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
        let tokens = self.turn(&ask);
        let end = match tokens.last() {
            Some(last) if ask.stop_tokens.contains(&last.token) => End::Stop(last.token),
            Some(_) if tokens.len() >= ask.max_new_tokens => End::Length,
            _ => End::Context,
        };
        let tokens = (!tokens.is_empty()).then_some(Ok(Piece::Tokens(tokens)));
        let pieces: Vec<_> = tokens.into_iter().chain([Ok(Piece::End(end))]).collect();
        Ok(futures::stream::iter(pieces).boxed())
    }

    fn capacity(&self) -> Capacity {
        let total_tokens = self.longest_tokens.saturating_mul(MOST_RUNNING);
        Capacity {
            total_tokens,
            free_tokens: total_tokens,
            block_tokens: BLOCK_TOKENS,
            shares_prefixes: false,
            longest_tokens: self.longest_tokens,
            most_running: MOST_RUNNING,
        }
    }
}
