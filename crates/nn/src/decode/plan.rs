//! A call, checked and taken apart: rows of tokens, tasks of attention.
//!
//! Invariant: a [`Plan`] that exists fits its model and pool, and no two of its rows write the same
//! place. The kernels, which check nothing, rely on it.

use super::Segment;
use super::cache::{BLOCK_TOKENS, BlockId};
use super::error::DecodeError;
use super::kernels::attention::{MOST_VECTORS, Task};
use crate::config::ModelConfig;

/// A token's row in the activations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) token: u32,
    pub(crate) position: usize,
    /// Where its keys and values go.
    pub(crate) block: BlockId,
    pub(crate) offset: usize,
}

/// All rows of a call and what is computed of them.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) segments: &'a [Segment<'a>],
    pub(crate) rows: Vec<Row>,
    /// Rows whose logits are wanted, ascending.
    pub(crate) wanted: Vec<usize>,
    /// Attention of all rows.
    pub(crate) tasks: Vec<Task>,
    /// Attention of the wanted rows, which is all that the last layer needs; output rows are
    /// counted among the wanted. Empty where all rows are wanted.
    pub(crate) wanted_tasks: Vec<Task>,
}

impl<'a> Plan<'a> {
    /// Checks `segments` against the model and a pool of `blocks` blocks.
    pub(crate) fn new(
        config: &ModelConfig,
        blocks: usize,
        segments: &'a [Segment<'a>],
    ) -> Result<Self, DecodeError> {
        let total = segments.iter().map(|segment| segment.tokens.len()).sum();
        let rows = Vec::with_capacity(total);
        let (wanted, tasks, wanted_tasks) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Self { segments, rows, wanted, tasks, wanted_tasks };
        let mut written = Vec::with_capacity(segments.len());
        let mut wanted_spans = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            check(config, blocks, index, segment)?;
            wanted_spans.push(plan.add(config, index, segment));
            let first = segment.position / BLOCK_TOKENS;
            let end = (segment.position + segment.tokens.len()).div_ceil(BLOCK_TOKENS);
            written.extend(segment.blocks[first..end].iter().map(|block| (block.0, index)));
        }
        if plan.narrows() {
            for span in &wanted_spans {
                split(config, span, &mut plan.wanted_tasks);
            }
        }
        written.sort_unstable();
        if let Some(pair) = written.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(DecodeError::BlockWrittenTwice { segment: pair[1].1, block: pair[1].0 });
        }
        Ok(plan)
    }

    /// Not all rows reach the head.
    pub(crate) fn narrows(&self) -> bool {
        self.wanted.len() < self.rows.len()
    }

    /// Adds a segment; the attention of its wanted rows is returned whole.
    fn add(&mut self, config: &ModelConfig, index: usize, segment: &Segment<'_>) -> Task {
        let start = self.rows.len();
        let length = segment.tokens.len();
        self.rows.extend(segment.tokens.iter().enumerate().map(|(at, token)| {
            let position = segment.position + at;
            let block = segment.blocks[position / BLOCK_TOKENS];
            Row { token: *token, position, block, offset: position % BLOCK_TOKENS }
        }));
        let span = Task {
            segment: index,
            row: start,
            output_row: start,
            rows: length,
            position: segment.position,
            head: 0,
            heads: config.heads,
            key_value_head: 0,
        };
        split(config, &span, &mut self.tasks);
        let rows = segment.logits.rows(length);
        let skipped = length - rows;
        let wanted = Task {
            row: start + skipped,
            output_row: self.wanted.len(),
            rows,
            position: segment.position + skipped,
            ..span
        };
        self.wanted.extend(start + skipped..start + length);
        wanted
    }
}

fn check(
    config: &ModelConfig,
    blocks: usize,
    segment: usize,
    request: &Segment<'_>,
) -> Result<(), DecodeError> {
    if request.tokens.is_empty() {
        return Err(DecodeError::EmptySegment { segment });
    }
    let vocabulary_size = config.vocabulary_size;
    let outside = request.tokens.iter().find(|token| **token as usize >= vocabulary_size);
    if let Some(&token) = outside {
        return Err(DecodeError::TokenOutsideVocabulary { segment, token, vocabulary_size });
    }
    let end = request.position.saturating_add(request.tokens.len());
    if end > config.context_tokens {
        let context_tokens = config.context_tokens;
        return Err(DecodeError::BeyondContext { segment, end, context_tokens });
    }
    let (needed, given) = (end.div_ceil(BLOCK_TOKENS), request.blocks.len());
    if needed > given {
        return Err(DecodeError::TooFewBlocks { segment, needed, given });
    }
    match request.blocks.iter().find(|block| block.0 as usize >= blocks) {
        Some(block) => Err(DecodeError::BlockOutsidePool { block: block.0, blocks }),
        None => Ok(()),
    }
}

/// Cuts a span of rows with all heads into tasks of at most [`MOST_VECTORS`] vectors that share a
/// head of keys and values.
fn split(config: &ModelConfig, span: &Task, tasks: &mut Vec<Task>) {
    let group = config.heads / config.key_value_heads;
    let heads_together = group.min(MOST_VECTORS);
    let rows_together = MOST_VECTORS / heads_together;
    for first in (0..span.rows).step_by(rows_together) {
        for key_value_head in 0..config.key_value_heads {
            for head in (0..group).step_by(heads_together) {
                tasks.push(Task {
                    row: span.row + first,
                    output_row: span.output_row + first,
                    rows: rows_together.min(span.rows - first),
                    position: span.position + first,
                    head: key_value_head * group + head,
                    heads: heads_together.min(group - head),
                    key_value_head,
                    ..*span
                });
            }
        }
    }
}
