//! Attention of a few query vectors over the blocks of their sequence.
//!
//! Scores are never kept beyond one block: the softmax runs along, with the largest score and the
//! total so far. Invariant: a vector visits blocks in ascending order, each once, and sees of its
//! last block only what lies before it; so its result depends on its context alone, whichever
//! vectors share the visit.
#![expect(unsafe_code, reason = "raw pointers shared by threads that write disjoint rows")]

use std::mem::MaybeUninit;
use std::ops::Range;

use super::lanes::{F32, Lanes, PANEL};
use super::tile::{self, Left, Sums};
use crate::decode::cache::{BLOCK_TOKENS, BlockId, LARGEST_HEAD};

/// Most query vectors (rows times heads) of a task.
pub(crate) const MOST_VECTORS: usize = 12;

/// Rows of one sequence and the heads that share a head of keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) segment: usize,
    /// First of the rows, and where its output goes.
    pub(crate) row: usize,
    pub(crate) output_row: usize,
    pub(crate) rows: usize,
    /// Position of the first row in its sequence.
    pub(crate) position: usize,
    /// First of the query heads; `rows · heads` is at most [`MOST_VECTORS`].
    pub(crate) head: usize,
    pub(crate) heads: usize,
    pub(crate) key_value_head: usize,
}

/// One layer's attention.
#[derive(Clone, Copy)]
pub(crate) struct Attention {
    /// Rows of rotated queries.
    pub(crate) queries: *const f32,
    pub(crate) query_stride: usize,
    pub(crate) output: *mut f32,
    pub(crate) output_stride: usize,
    pub(crate) head_size: usize,
    /// This layer in the first block of the pool.
    pub(crate) pool: *const f32,
    pub(crate) block_len: usize,
    pub(crate) head_len: usize,
    pub(crate) key_len: usize,
}

/// Working memory of a task.
struct Vectors {
    queries: [MaybeUninit<f32>; MOST_VECTORS * LARGEST_HEAD],
    /// Sums of weighted values, a row each `padded` values.
    sums: [MaybeUninit<f32>; MOST_VECTORS * LARGEST_HEAD],
    scores: [f32; MOST_VECTORS * BLOCK_TOKENS],
    largest: [f32; MOST_VECTORS],
    totals: [f32; MOST_VECTORS],
    padded: usize,
}

/// Attention of `task` over `blocks`.
///
/// # Safety
/// Queries, output and pool hold what `task` and `blocks` name, no other thread touches the
/// task's part of the output, and the processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn attend<L: Lanes>(attention: &Attention, task: &Task, blocks: &[BlockId]) {
    let size = attention.head_size;
    let count = task.rows * task.heads;
    let mut vectors = Vectors {
        queries: [const { MaybeUninit::uninit() }; MOST_VECTORS * LARGEST_HEAD],
        sums: [const { MaybeUninit::uninit() }; MOST_VECTORS * LARGEST_HEAD],
        scores: [0.0; MOST_VECTORS * BLOCK_TOKENS],
        largest: [f32::NEG_INFINITY; MOST_VECTORS],
        totals: [0.0; MOST_VECTORS],
        padded: size.div_ceil(PANEL) * PANEL,
    };
    // SAFETY: by the function's contract; `count` is at most `MOST_VECTORS`.
    unsafe {
        take_queries(attention, task, &mut vectors);
        vectors.sums[..count * vectors.padded].fill(MaybeUninit::new(0.0));
        let of = |block: usize| {
            let start = blocks[block].0 as usize * attention.block_len;
            attention.pool.add(start + task.key_value_head * attention.head_len)
        };
        let common = (task.position + 1) / BLOCK_TOKENS;
        for block in 0..common {
            visit::<L>(attention, &mut vectors, 0..count, of(block), BLOCK_TOKENS);
        }
        for row in 0..task.rows {
            let visible = task.position + row + 1;
            for block in common..visible.div_ceil(BLOCK_TOKENS) {
                let tokens = (visible - block * BLOCK_TOKENS).min(BLOCK_TOKENS);
                let own = row * task.heads..(row + 1) * task.heads;
                visit::<L>(attention, &mut vectors, own, of(block), tokens);
            }
        }
        for vector in 0..count {
            let (row, head) = (vector / task.heads, vector % task.heads);
            let sums = vectors.sums.as_ptr().cast::<f32>().add(vector * vectors.padded);
            let output = attention.output.add((task.output_row + row) * attention.output_stride);
            let output = output.add((task.head + head) * size);
            let factor = 1.0 / vectors.totals[vector];
            for index in 0..size {
                *output.add(index) = *sums.add(index) * factor;
            }
        }
    }
}

/// Copies the queries side by side, scaled.
///
/// # Safety
/// As [`attend`].
#[inline(always)]
unsafe fn take_queries(attention: &Attention, task: &Task, vectors: &mut Vectors) {
    let size = attention.head_size;
    let scale = 1.0 / (size as f32).sqrt();
    for row in 0..task.rows {
        // SAFETY: the heads of a row lie one after the other.
        let from = unsafe {
            let row = attention.queries.add((task.row + row) * attention.query_stride);
            std::slice::from_raw_parts(row.add(task.head * size), task.heads * size)
        };
        let to = &mut vectors.queries[row * task.heads * size..];
        for (to, from) in to.iter_mut().zip(from) {
            to.write(from * scale);
        }
    }
}

/// Lets the vectors `range` see the first `tokens` tokens of a block.
///
/// # Safety
/// `block` points to the keys and values of a head; the rest as [`attend`].
#[inline(always)]
unsafe fn visit<L: Lanes>(
    attention: &Attention,
    vectors: &mut Vectors,
    range: Range<usize>,
    block: *const f32,
    tokens: usize,
) {
    // SAFETY: queries and sums of `range` are initialised; the block holds `head_size` rows of
    // keys and `padded / PANEL` panels of values.
    unsafe {
        for part in tile::tiles(range.len(), L::ROWS) {
            let first = range.start + part.start;
            let rows = part.len();
            let size = attention.head_size;
            let queries = vectors.queries.as_ptr().cast::<f32>().add(first * size);
            let scores = vectors.scores.as_mut_ptr().add(first * BLOCK_TOKENS);
            tile::one_panel::<L, F32>(
                Left { values: queries, stride: size, rows, inputs: size },
                block,
                Sums { values: scores, stride: BLOCK_TOKENS, go_on: false },
            );
            for vector in first..first + rows {
                soften::<L>(vectors, vector, tokens);
            }
            let weights = Left { values: scores, stride: BLOCK_TOKENS, rows, inputs: tokens };
            let values = block.add(attention.key_len);
            let mut panel = 0;
            while panel < vectors.padded / PANEL {
                let start = first * vectors.padded + panel * PANEL;
                let sums = vectors.sums.as_mut_ptr().cast::<f32>().add(start);
                let sums = Sums { values: sums, stride: vectors.padded, go_on: true };
                let of = |panel: usize| values.add(panel * BLOCK_TOKENS * PANEL);
                if rows <= 3 && L::PANELS[1] == 2 && panel + 2 <= vectors.padded / PANEL {
                    tile::two_panels::<L, F32>(weights, [of(panel), of(panel + 1)], sums);
                    panel += 2;
                } else {
                    tile::one_panel::<L, F32>(weights, of(panel), sums);
                    panel += 1;
                }
            }
        }
    }
}

/// Turns the scores of a block into weights against the largest score so far, and brings what was
/// summed before to the same measure.
///
/// # Safety
/// As [`visit`].
#[inline(always)]
unsafe fn soften<L: Lanes>(vectors: &mut Vectors, vector: usize, tokens: usize) {
    let scores = &mut vectors.scores[vector * BLOCK_TOKENS..(vector + 1) * BLOCK_TOKENS];
    scores[tokens..].fill(f32::NEG_INFINITY);
    // SAFETY: a block's scores are two groups of lanes; sums hold `padded` values a vector.
    unsafe {
        let (low, high) = (L::load(scores.as_ptr()), L::load(scores.as_ptr().add(16)));
        let before = vectors.largest[vector];
        let largest = low.max(high).largest();
        let largest = if before > largest { before } else { largest };
        let shift = L::splat(-largest);
        low.add(shift).exp().store(scores.as_mut_ptr());
        high.add(shift).exp().store(scores.as_mut_ptr().add(16));
        scores[tokens..].fill(0.0);
        let (low, high) = (L::load(scores.as_ptr()), L::load(scores.as_ptr().add(16)));
        let mut total = low.add(high).sum();
        if before != largest && vectors.totals[vector] != 0.0 {
            let factor = L::splat(before - largest).exp();
            let sums = vectors.sums.as_mut_ptr().cast::<f32>().add(vector * vectors.padded);
            for at in (0..vectors.padded).step_by(16) {
                L::load(sums.add(at)).mul(factor).store(sums.add(at));
            }
            let mut lanes = [0.0; 16];
            factor.store(lanes.as_mut_ptr());
            vectors.totals[vector] *= lanes[0];
        }
        total += vectors.totals[vector];
        vectors.totals[vector] = total;
        vectors.largest[vector] = largest;
    }
}
