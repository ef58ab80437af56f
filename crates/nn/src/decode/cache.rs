//! Keys and values of all sequences, in blocks of [`BLOCK_TOKENS`] tokens.
//!
//! Hides how a block is laid out. Invariant: a block lies in one piece, so that copying one is one
//! copy; what a block holds depends on the tokens before it only, so that sequences with the same
//! prefix can share it.

use bytemuck::{Pod, Zeroable};

use super::error::DecodeError;
use crate::config::ModelConfig;

/// Tokens of a block.
pub const BLOCK_TOKENS: usize = 32;

/// Largest head that attention has working memory for.
pub(crate) const LARGEST_HEAD: usize = 256;

/// Index of a block in a [`KvPool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// One cache line of values, so that vectors never straddle two.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([f32; 16]);

impl Line {
    /// Values of a line.
    pub(crate) const VALUES: usize = size_of::<Self>() / size_of::<f32>();
}

/// Where keys and values lie within a block: `[layer][key_value_head]`, and for each of them the
/// keys `[head_size][BLOCK_TOKENS]`, then the values `[head_size / 32][BLOCK_TOKENS][32]`, the last
/// panel padded with zeros. Both are what the product of the kernels reads as weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockShape {
    pub(crate) layers: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
}

impl BlockShape {
    /// Columns of a panel of values.
    const PANEL: usize = 32;

    fn new(config: &ModelConfig) -> Self {
        Self {
            layers: config.layers,
            key_value_heads: config.key_value_heads,
            head_size: config.head_size,
        }
    }

    /// Values of a block that the keys of one head of one layer take.
    pub(crate) const fn key_len(&self) -> usize {
        self.head_size * BLOCK_TOKENS
    }

    /// Width of a head of values, padded to whole panels.
    pub(crate) const fn padded_head(&self) -> usize {
        self.head_size.div_ceil(Self::PANEL) * Self::PANEL
    }

    /// Values of a block that one head of one layer takes, keys and values.
    pub(crate) const fn head_len(&self) -> usize {
        self.key_len() + self.padded_head() * BLOCK_TOKENS
    }

    /// Values of a block that one layer takes.
    pub(crate) const fn layer_len(&self) -> usize {
        self.key_value_heads * self.head_len()
    }

    /// Values of a block.
    pub(crate) const fn block_len(&self) -> usize {
        self.layers * self.layer_len()
    }
}

/// Keys and values of all sequences. Memory is taken from the system when a block is first written.
pub struct KvPool {
    shape: BlockShape,
    blocks: usize,
    lines: Vec<Line>,
}

impl std::fmt::Debug for KvPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvPool").field("shape", &self.shape).field("blocks", &self.blocks).finish()
    }
}

impl KvPool {
    /// A pool of `blocks` blocks for `config`, all free.
    pub fn new(config: &ModelConfig, blocks: usize) -> Self {
        let shape = BlockShape::new(config);
        let lines = bytemuck::allocation::zeroed_vec(shape.block_len() / Line::VALUES * blocks);
        Self { shape, blocks, lines }
    }

    /// Number of blocks.
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes of a block: keys and values of [`BLOCK_TOKENS`] tokens in all layers.
    pub fn bytes_per_block(config: &ModelConfig) -> usize {
        BlockShape::new(config).block_len() * size_of::<f32>()
    }

    /// Copies the keys and values of the first `tokens` tokens of block `from` to block `to`: what
    /// a sequence does before it appends to a block that it shares. What lies behind them in `to`
    /// is then unspecified, as in any block.
    ///
    /// # Errors
    /// A block that the pool doesn't have.
    pub fn copy_prefix(
        &mut self,
        from: BlockId,
        to: BlockId,
        tokens: usize,
    ) -> Result<(), DecodeError> {
        for block in [from, to] {
            if block.0 as usize >= self.blocks {
                let blocks = self.blocks;
                return Err(DecodeError::BlockOutsidePool { block: block.0, blocks });
            }
        }
        let length = self.shape.block_len() / Line::VALUES;
        if from != to && tokens > 0 {
            let start = from.0 as usize * length;
            self.lines.copy_within(start..start + length, to.0 as usize * length);
        }
        Ok(())
    }

    pub(crate) fn parts_mut(&mut self) -> (&BlockShape, &mut [Line]) {
        (&self.shape, &mut self.lines)
    }

    pub(crate) fn check(&self, config: &ModelConfig) -> Result<(), DecodeError> {
        if self.shape == BlockShape::new(config) {
            Ok(())
        } else {
            Err(DecodeError::OtherShape { part: "the pool of keys and values" })
        }
    }
}
