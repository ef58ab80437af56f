//! Generation: tokens in, logits out, keys and values kept in blocks.
//!
//! One [`Decoder::forward`] takes any mix of decode steps (one token) and pieces of prompts (many
//! tokens) of many sequences. What it hides: how weights are laid out, which instructions multiply,
//! how threads share a product, how attention walks over blocks.
//!
//! Invariant, *row invariance*: the logits of a token are, bit for bit, a function of the weights,
//! the storage, the machine's instruction set and the token's own context. They don't depend on the
//! other segments of the call, on how a prompt was cut into pieces, on which blocks hold the keys
//! and values, on whether a prefix is shared, or on the number of threads. So a generation can be
//! repeated whatever else the engine was doing. It holds because each output of a product is one
//! chain of fused multiply-adds over k in ascending order, in every tile shape, and because the
//! softmax of attention is cut at multiples of a fixed number of positions.
//!
//! What it does not do: sample, schedule, or decide which block belongs to whom.

mod cache;
mod error;
mod kernels;
mod matrix;
mod plan;
mod rotation;
mod weights;

use self::kernels::Isa;
use self::kernels::pass::{self, Buffers, Inputs};
use self::plan::Plan;
use crate::config::ModelConfig;
use crate::rope;

pub use cache::{BLOCK_TOKENS, BlockId, KvPool};
pub use error::DecodeError;
pub use weights::{DecodeWeights, Storage};

/// Which logits of a segment are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Logits {
    /// None: a piece of a prompt that isn't its last.
    None,
    /// Those of the last token: one row.
    #[default]
    Last,
    /// Those of every token: as many rows as tokens.
    All,
}

impl Logits {
    /// Rows of logits of a segment of `tokens` tokens.
    pub const fn rows(self, tokens: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last => 1,
            Self::All => tokens,
        }
    }
}

/// New tokens of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The new tokens, at least one.
    pub tokens: &'a [u32],
    /// Tokens of the sequence whose keys and values are in the cache: the position of the first
    /// new one.
    pub position: usize,
    /// The sequence's blocks in order; they hold `position + tokens.len()` tokens or more.
    pub blocks: &'a [BlockId],
    /// Which logits to return.
    pub logits: Logits,
}

/// The arithmetic of generation for one shape of model, with its working memory.
#[derive(Debug)]
pub struct Decoder {
    config: ModelConfig,
    isa: Isa,
    frequencies: Vec<f64>,
    buffers: Buffers,
}

impl Decoder {
    /// A decoder for `config`, with the best instructions that this processor has.
    pub fn new(config: &ModelConfig) -> Self {
        let isa = Isa::available().first().copied().unwrap_or(Isa::Portable);
        Self::with_isa(config, isa)
    }

    fn with_isa(config: &ModelConfig, isa: Isa) -> Self {
        let frequencies = rope::frequencies(config.rope, config.head_size);
        Self { config: config.clone(), isa, frequencies, buffers: Buffers::default() }
    }

    /// Runs the new tokens of all `segments` through the model, writes their keys and values to
    /// `pool`, and puts the wanted logits into `logits` (which loses what it held): rows of
    /// `vocabulary_size` values, in the order of the segments and of their tokens.
    ///
    /// Runs on the threads of the rayon pool that the caller is in, or of the global one, with the
    /// caller as one of them.
    ///
    /// # Errors
    /// Before any arithmetic, where the request doesn't fit: a token outside the vocabulary, a
    /// position beyond the context, a block that isn't there, too few blocks, a block that two
    /// segments would write, weights or a pool of another shape. The pool is unchanged then.
    pub fn forward(
        &mut self,
        weights: &DecodeWeights,
        pool: &mut KvPool,
        segments: &[Segment<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        weights.check(&self.config)?;
        pool.check(&self.config)?;
        let plan = Plan::new(&self.config, pool.blocks(), segments)?;
        logits.resize(plan.wanted.len() * self.config.vocabulary_size, 0.0);
        if plan.rows.is_empty() {
            return Ok(());
        }
        let (shape, pool) = pool.parts_mut();
        pass::run(Inputs {
            isa: self.isa,
            config: &self.config,
            weights,
            plan: &plan,
            frequencies: &self.frequencies,
            shape,
            pool,
            logits,
            buffers: &mut self.buffers,
        });
        Ok(())
    }
}
