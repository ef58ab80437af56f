//! What an engine has done and holds at a moment.

use std::time::Duration;

use crate::generation::WeightVersion;

/// Figures of an engine. Counts rise from its start; the others are of now, as of the last step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Weights in use.
    pub version: WeightVersion,
    /// Sequences that run, prefilling or decoding.
    pub running: usize,
    /// Requests that wait, pre-empted ones included.
    pub waiting: usize,
    /// Blocks of the cache.
    pub kv_blocks: usize,
    /// Blocks that hold nothing.
    pub kv_blocks_free: usize,
    /// Blocks that no sequence uses but that hold a prefix for later ones.
    pub kv_blocks_cached: usize,
    /// Tokens that a block holds.
    pub block_tokens: usize,
    /// Bytes of the weights as kept for decoding.
    pub weight_bytes: usize,
    /// Bytes of the cache.
    pub kv_bytes: usize,
    /// Requests accepted.
    pub requests: u64,
    /// Requests refused because too many waited.
    pub refused: u64,
    /// Requests ended, in whichever way.
    pub finished: u64,
    /// Of these, cancelled by their callers.
    pub cancelled: u64,
    /// Of these, failed by the engine.
    pub failed: u64,
    /// Prompt tokens of requests that have begun to run.
    pub prompt_tokens: u64,
    /// Of these, tokens whose keys and values were there already.
    pub cached_tokens: u64,
    /// Tokens computed in prefills, those computed again included.
    pub prefilled_tokens: u64,
    /// Tokens sampled.
    pub new_tokens: u64,
    /// Sequences that lost their place, for lack of cache or for new weights.
    pub pre_emptions: u64,
    /// Weights loaded after the first.
    pub weight_loads: u64,
    /// Steps.
    pub steps: u64,
    /// Time in steps.
    pub busy: Duration,
    /// Of this, time in the model's arithmetic.
    pub forward: Duration,
    /// Of this, time in the sampler.
    pub sampling: Duration,
}
