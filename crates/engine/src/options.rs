//! How large an engine is: its cache, its batch, its queue, its threads.
//!
//! Invariant: options that pass [`EngineOptions::validate`] let the oldest running request always go
//! on: the cache holds at least one block more than nothing, and a step has room for every running
//! sequence.

use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{BLOCK_TOKENS, KvPool, Storage};

/// How much room keys and values get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvBudget {
    /// Room for this many tokens, rounded up to whole blocks.
    Tokens(usize),
    /// As many whole blocks as fit into this many bytes.
    Bytes(u64),
}

/// Size and bounds of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineOptions {
    /// Room for keys and values of all sequences, shared prefixes included.
    pub kv: KvBudget,
    /// Most sequences that run at once, prefilling or decoding.
    pub max_running: usize,
    /// Most requests that wait to run; one more is refused.
    pub max_waiting: usize,
    /// Most tokens of one step: one a decoding sequence, the rest for chunks of prompts. Longer
    /// prompts take several steps, so that a long prompt doesn't hold up who decodes.
    pub step_tokens: usize,
    /// Longest sequence; `None` for the model's context.
    pub context_tokens: Option<usize>,
    /// How weights are kept.
    pub storage: Storage,
    /// Threads of the arithmetic; `None` for all cores.
    pub threads: Option<usize>,
    /// Share keys and values of prompts that begin alike, and keep those of finished requests while
    /// there is room. Off, every request computes its whole prompt; the results are the same.
    pub share_prefixes: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            kv: KvBudget::Bytes(1 << 30),
            max_running: 64,
            max_waiting: 4096,
            step_tokens: 512,
            context_tokens: None,
            storage: Storage::F32,
            threads: None,
            share_prefixes: true,
        }
    }
}

/// One thing that is wrong with the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionProblem {
    /// A bound that must be positive is zero.
    #[error("`{field}` is 0, but must be at least 1")]
    Zero {
        /// Which.
        field: &'static str,
    },
    /// The cache doesn't hold one block.
    #[error("`kv` holds no block: one block of {block_tokens} tokens takes {block_bytes} bytes")]
    KvTooSmall {
        /// Tokens of a block.
        block_tokens: usize,
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// More blocks than can be numbered.
    #[error("`kv` asks for {blocks} blocks, but at most {most} can be numbered")]
    KvTooLarge {
        /// Blocks asked for.
        blocks: u64,
        /// Most that can be.
        most: u32,
    },
    /// A step couldn't hold one token of each running sequence.
    #[error(
        "`step_tokens` is {step_tokens}, less than `max_running` ({max_running}): a step must \
             hold a token of each running sequence"
    )]
    StepTooSmall {
        /// Tokens of a step.
        step_tokens: usize,
        /// Sequences.
        max_running: usize,
    },
    /// Longer than the model's context.
    #[error("`context_tokens` is {asked}, but the model's context is {model}")]
    ContextTooLong {
        /// Asked for.
        asked: usize,
        /// The model's.
        model: usize,
    },
}

impl EngineOptions {
    /// All problems of these options for a model; empty where there are none.
    pub fn validate(&self, config: &ModelConfig) -> Vec<OptionProblem> {
        let positive = [
            ("max_running", self.max_running),
            ("max_waiting", self.max_waiting),
            ("step_tokens", self.step_tokens),
            ("context_tokens", self.context_tokens.unwrap_or(1)),
            ("threads", self.threads.unwrap_or(1)),
        ];
        let zeros = positive.into_iter().filter(|(_, value)| *value == 0);
        let mut problems: Vec<OptionProblem> =
            zeros.map(|(field, _)| OptionProblem::Zero { field }).collect();
        let blocks = self.kv_blocks_wide(config);
        if blocks == 0 {
            problems.push(OptionProblem::KvTooSmall {
                block_tokens: BLOCK_TOKENS,
                block_bytes: KvPool::bytes_per_block(config),
            });
        }
        if blocks > u64::from(u32::MAX) {
            problems.push(OptionProblem::KvTooLarge { blocks, most: u32::MAX });
        }
        if self.step_tokens < self.max_running {
            problems.push(OptionProblem::StepTooSmall {
                step_tokens: self.step_tokens,
                max_running: self.max_running,
            });
        }
        if let Some(asked) = self.context_tokens.filter(|asked| *asked > config.context_tokens) {
            problems.push(OptionProblem::ContextTooLong { asked, model: config.context_tokens });
        }
        problems
    }

    /// Blocks of the cache for a model.
    pub fn kv_blocks(&self, config: &ModelConfig) -> usize {
        usize::try_from(self.kv_blocks_wide(config)).unwrap_or(usize::MAX)
    }

    fn kv_blocks_wide(&self, config: &ModelConfig) -> u64 {
        match self.kv {
            KvBudget::Tokens(tokens) => tokens.div_ceil(BLOCK_TOKENS) as u64,
            KvBudget::Bytes(bytes) => bytes / (KvPool::bytes_per_block(config) as u64).max(1),
        }
    }

    /// Longest sequence that an engine with these options holds.
    pub(crate) fn longest_tokens(&self, config: &ModelConfig) -> usize {
        self.context_tokens.unwrap_or(config.context_tokens)
    }
}
