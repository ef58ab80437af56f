//! What can be wrong with a request to the decoder. All of it is found before any arithmetic.

/// Why a forward, or weights for it, can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A segment without tokens.
    #[error("segment {segment} has no tokens; leave it out of the call")]
    EmptySegment {
        /// Index of the segment.
        segment: usize,
    },
    /// A token that the embedding has no row for.
    #[error("segment {segment}: token {token} is outside the vocabulary of {vocabulary_size}")]
    TokenOutsideVocabulary {
        /// Index of the segment.
        segment: usize,
        /// The token.
        token: u32,
        /// Rows of the embedding.
        vocabulary_size: usize,
    },
    /// A position that the model has no rotation for.
    #[error(
        "segment {segment} ends at {end} tokens, beyond the model's context of {context_tokens}; \
         shorten the prompt or stop the generation earlier"
    )]
    BeyondContext {
        /// Index of the segment.
        segment: usize,
        /// Tokens of the sequence after the call.
        end: usize,
        /// Longest context of the model.
        context_tokens: usize,
    },
    /// Too few blocks for the tokens.
    #[error("segment {segment} needs {needed} blocks of keys and values and brings {given}")]
    TooFewBlocks {
        /// Index of the segment.
        segment: usize,
        /// Blocks that its tokens need.
        needed: usize,
        /// Blocks that it has.
        given: usize,
    },
    /// A block that the pool doesn't have.
    #[error("block {block} is outside the pool of {blocks} blocks")]
    BlockOutsidePool {
        /// The block.
        block: u32,
        /// Blocks of the pool.
        blocks: usize,
    },
    /// New tokens of one call would be written over each other.
    #[error(
        "segment {segment} would write block {block}, which this call writes elsewhere too; copy \
         the block first"
    )]
    BlockWrittenTwice {
        /// Index of the later segment.
        segment: usize,
        /// The block.
        block: u32,
    },
    /// Weights, pool and decoder belong to different shapes.
    #[error("{part} has another shape than the decoder's model")]
    OtherShape {
        /// What has another shape.
        part: &'static str,
    },
    /// A head too wide for the working memory of attention.
    #[error("head_size {head_size} is above {largest}, the largest that decoding supports")]
    HeadTooWide {
        /// Width of a head.
        head_size: usize,
        /// The largest supported.
        largest: usize,
    },
}
