//! How fast an engine decodes: what `rocstar bench generate` reports.
//!
//! The time of prefilling is taken out by a second run: the same prompts in number and length with
//! one new token each. Prompts are distinct and drawn afresh each time, so nothing comes from the
//! cache of prefixes.

use std::time::{Duration, Instant};

use rocstar_nn::config::ModelConfig;
use rocstar_nn::gauge;
use rocstar_record::draw::{Key, Purpose};

use crate::engine::Engine;
use crate::error::Refusal;
use crate::generation::FinishReason;
use crate::request::Request;

/// Requests that are measured, all submitted at once and sampled at temperature 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLoad {
    /// Sequences at once.
    pub batch: usize,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
    /// Tokens sampled after each prompt's first.
    pub new_tokens: usize,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeRate {
    /// Tokens decoded.
    pub tokens: usize,
    /// Time that decoding them took.
    pub time: Duration,
    /// Time that prefilling and the first tokens took.
    pub prefill_time: Duration,
    /// Share of the time of all steps that was not in the model's arithmetic.
    pub overhead_share: f64,
}

impl DecodeRate {
    /// Tokens a second.
    pub fn tokens_per_s(&self) -> f64 {
        self.tokens as f64 / self.time.as_secs_f64()
    }
}

/// Why there is no measurement.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// The engine refused a request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A generation didn't come to its length.
    #[error("a generation that was measured ended early: {reason:?}")]
    Ended {
        /// How it ended.
        reason: FinishReason,
    },
}

impl DecodeLoad {
    /// Measures once. `run` sets one measurement's prompts apart from another's.
    ///
    /// # Errors
    /// A request was refused or ended early.
    pub fn measure(&self, engine: &Engine, run: u32) -> Result<DecodeRate, MeasureError> {
        let prefill_time = self.time(engine, 1, 2 * run)?;
        let before = engine.stats();
        let whole = self.time(engine, self.new_tokens + 1, 2 * run + 1)?;
        let after = engine.stats();
        let busy = (after.busy - before.busy).as_secs_f64();
        let forward = (after.forward - before.forward).as_secs_f64();
        Ok(DecodeRate {
            tokens: self.batch * self.new_tokens,
            time: whole.saturating_sub(prefill_time),
            prefill_time,
            overhead_share: 1.0 - forward / busy.max(f64::MIN_POSITIVE),
        })
    }

    fn time(
        &self,
        engine: &Engine,
        new_tokens: usize,
        step: u32,
    ) -> Result<Duration, MeasureError> {
        let vocabulary = engine.config().vocabulary_size as u64;
        let requests = (0..self.batch).map(|sample| {
            let key = Key { step, sample: sample as u32, ..Key::new(0, Purpose::Tasks) };
            let mut draws = key.at(0);
            let prompt = (0..self.prompt_tokens).map(|_| draws.below(vocabulary) as u32).collect();
            Request::new(prompt, new_tokens, Key { purpose: Purpose::Sampling, ..key })
        });
        let requests = requests.collect();
        let began = Instant::now();
        for generation in engine.generate_together(requests)? {
            let reason = generation.collect_blocking().finished.reason;
            if reason != FinishReason::Length {
                return Err(MeasureError::Ended { reason });
            }
        }
        Ok(began.elapsed())
    }

    /// Floating-point operations of the model for one decoded token, on average: two for each weight
    /// of a matrix and, in attention, four for each value of the query at each position.
    pub fn operations_per_token(&self, config: &ModelConfig) -> f64 {
        let positions = self.prompt_tokens as f64 + self.new_tokens as f64 / 2.0;
        let attention = 4.0 * (config.layers * config.query_size()) as f64;
        // A pass over one token has one position of attention.
        gauge::forward_operations(config, &[1], 1) + attention * (positions - 1.0)
    }
}
