//! Causal attention over packed sequences, in blocks.
//!
//! The scores of a sequence are never there as a whole: a block of queries meets one block of keys
//! after the other, with a running maximum and sum (Dao et al. 2022, Milakov and Gimelshein 2018).
//! The backward pass computes each block of scores again from the log-sum-exp of its rows.
//!
//! Invariant: sequences don't see each other; a task owns all that it writes, and the sums that it
//! takes are in a fixed order, so that results don't depend on the number of threads.
//!
//! Queries, keys and values lie head after head: all tokens of one key head are one matrix, and the
//! query heads that share it are neighbours (`[tokens, group, width]`), so that a product serves
//! the whole group. Queries are already scaled by `1 / √width`.

use std::cell::RefCell;

use rayon::prelude::*;

use crate::config::ModelConfig;
use crate::gemm::{Matrix, MatrixMut, Output, Threads, multiply};
use crate::kernels::{self, OnlineSoftmax, Window};

mod heads;

pub(crate) use heads::{HeadGradients, HeadWeights, join_backward, merge, split, split_backward};

/// Positions of a block of queries; divides [`KEY_BLOCK`].
const QUERY_BLOCK: usize = 64;
/// Positions of a block of keys.
const KEY_BLOCK: usize = 512;

/// Heads of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadShape {
    /// Key heads.
    pub(crate) key_heads: usize,
    /// Query heads that share a key head.
    pub(crate) group: usize,
    /// Width of a head.
    pub(crate) width: usize,
}

impl HeadShape {
    pub(crate) const fn new(config: &ModelConfig) -> Self {
        Self {
            key_heads: config.key_value_heads,
            group: config.heads / config.key_value_heads,
            width: config.head_size,
        }
    }

    /// Width of the query heads that share a key head.
    const fn group_width(self) -> usize {
        self.group * self.width
    }

    /// Width of all query heads.
    pub(crate) const fn query_width(self) -> usize {
        self.key_heads * self.group_width()
    }

    /// Width of all key heads.
    pub(crate) const fn key_width(self) -> usize {
        self.key_heads * self.width
    }
}

/// Queries, keys and values of all tokens, head after head.
#[derive(Debug, Default, Clone)]
pub(crate) struct Heads {
    /// `[key_heads, tokens, group, width]`.
    pub(crate) queries: Vec<f32>,
    /// `[key_heads, tokens, width]`.
    pub(crate) keys: Vec<f32>,
    /// `[key_heads, tokens, width]`.
    pub(crate) values: Vec<f32>,
}

impl Heads {
    pub(crate) fn resize(&mut self, shape: HeadShape, tokens: usize) {
        self.queries.resize(tokens * shape.query_width(), 0.0);
        self.keys.resize(tokens * shape.key_width(), 0.0);
        self.values.resize(tokens * shape.key_width(), 0.0);
    }
}

thread_local! {
    /// Scores of a block, kept from one block to the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    d_scores: Vec<f32>,
    maxima: Vec<f32>,
}

/// Cuts the next `size` values off the front.
fn take<'a>(rest: &mut &'a mut [f32], size: usize) -> &'a mut [f32] {
    let (first, others) = std::mem::take(rest).split_at_mut(size);
    *rest = others;
    first
}

/// What each query attends to, `[key_heads, tokens, group, width]`, and the log-sum-exp of its
/// scores, `[key_heads, tokens, group]`.
pub(crate) fn forward(
    shape: HeadShape,
    starts: &[usize],
    heads: &Heads,
    attended: &mut [f32],
    log_sums: &mut [f32],
) {
    let tokens = starts.last().copied().unwrap_or(0);
    let (mut attended, mut log_sums) = (attended, log_sums);
    let mut tasks = Vec::new();
    for head in 0..shape.key_heads {
        for sequence in starts.windows(2) {
            let length = sequence[1] - sequence[0];
            for first in (0..length).step_by(QUERY_BLOCK) {
                let queries = QUERY_BLOCK.min(length - first);
                tasks.push(ForwardTask {
                    start: head * tokens + sequence[0],
                    first,
                    queries,
                    attended: take(&mut attended, queries * shape.group_width()),
                    log_sums: take(&mut log_sums, queries * shape.group),
                });
            }
        }
    }
    tasks.into_par_iter().for_each(|task| attend(shape, heads, task));
}

/// A block of queries of one key head's group.
struct ForwardTask<'a> {
    /// Where the sequence starts, in tokens of the heads' buffers.
    start: usize,
    /// First query, from the start of the sequence.
    first: usize,
    /// Positions of the block.
    queries: usize,
    attended: &'a mut [f32],
    log_sums: &'a mut [f32],
}

fn attend(shape: HeadShape, heads: &Heads, task: ForwardTask<'_>) {
    let (width, group_width) = (shape.width, shape.group_width());
    let ForwardTask { start, first, queries: positions, attended, log_sums } = task;
    let rows = positions * shape.group;
    let query_start = (start + first) * group_width;
    let queries = Matrix::new(&heads.queries[query_start..], rows, width);
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.maxima.clear();
        scratch.maxima.resize(rows, f32::NEG_INFINITY);
        log_sums.fill(0.0);
        let end = first + positions;
        for key in (0..end).step_by(KEY_BLOCK) {
            let columns = KEY_BLOCK.min(end - key);
            let at = (start + key) * width;
            let keys = Matrix::new(&heads.keys[at..], columns, width);
            let values = Matrix::new(&heads.values[at..], columns, width);
            let scores = sized(&mut scratch.scores, rows * columns);
            let output = MatrixMut::new(scores, rows, columns);
            product(output, Output::Replace, queries, keys.transposed());
            let window = Window { columns, first: first + 1 - key, group: shape.group };
            let (maxima, sums) = (scratch.maxima.as_mut_slice(), &mut *log_sums);
            let state = OnlineSoftmax { maxima, sums, attended: &mut *attended, width };
            kernels::online_softmax(scores, window, state);
            let mode = if key == 0 { Output::Replace } else { Output::Add };
            let output = MatrixMut::new(attended, rows, width);
            product(output, mode, Matrix::new(scores, rows, columns), values);
        }
        kernels::normalise(attended, width, &scratch.maxima, log_sums);
    });
}

fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

/// What the forward pass left and the pass behind it brings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backward<'a> {
    /// Queries, keys and values.
    pub(crate) heads: &'a Heads,
    /// `[key_heads, tokens, group]`.
    pub(crate) log_sums: &'a [f32],
    /// Change with what was attended to, `[key_heads, tokens, group, width]`.
    pub(crate) d_attended: &'a [f32],
    /// Dot product of each query's `d_attended` and `attended`, `[key_heads, tokens, group]`.
    pub(crate) means: &'a [f32],
}

/// Writes the change with queries, keys and values.
pub(crate) fn backward(
    shape: HeadShape,
    starts: &[usize],
    saved: Backward<'_>,
    change: &mut Heads,
) {
    let tokens = starts.last().copied().unwrap_or(0);
    let mut queries = change.queries.as_mut_slice();
    let (mut keys, mut values) = (change.keys.as_mut_slice(), change.values.as_mut_slice());
    let mut tasks = Vec::new();
    for head in 0..shape.key_heads {
        for sequence in starts.windows(2) {
            let length = sequence[1] - sequence[0];
            tasks.push(BackwardTask {
                start: head * tokens + sequence[0],
                length,
                d_queries: take(&mut queries, length * shape.group_width()),
                d_keys: take(&mut keys, length * shape.width),
                d_values: take(&mut values, length * shape.width),
            });
        }
    }
    tasks.into_par_iter().with_max_len(1).for_each(|mut task| {
        task.d_keys.fill(0.0);
        task.d_values.fill(0.0);
        for first in (0..task.length).step_by(QUERY_BLOCK) {
            let positions = QUERY_BLOCK.min(task.length - first);
            attend_backward(shape, saved, &mut task, first, positions);
        }
    });
}

/// One sequence and one key head with its group.
struct BackwardTask<'a> {
    /// Where the sequence starts, in tokens of the heads' buffers.
    start: usize,
    length: usize,
    d_queries: &'a mut [f32],
    d_keys: &'a mut [f32],
    d_values: &'a mut [f32],
}

/// The block of queries from `first`, against all keys that it sees.
fn attend_backward(
    shape: HeadShape,
    saved: Backward<'_>,
    task: &mut BackwardTask<'_>,
    first: usize,
    positions: usize,
) {
    let (width, group, group_width) = (shape.width, shape.group, shape.group_width());
    let rows = positions * group;
    let at = (task.start + first) * group_width;
    let queries = Matrix::new(&saved.heads.queries[at..], rows, width);
    let d_attended = Matrix::new(&saved.d_attended[at..], rows, width);
    let at = (task.start + first) * group;
    let (log_sums, means) = (&saved.log_sums[at..at + rows], &saved.means[at..at + rows]);
    let d_queries = &mut task.d_queries[first * group_width..];
    let end = first + positions;
    SCRATCH.with_borrow_mut(|scratch| {
        for key in (0..end).step_by(KEY_BLOCK) {
            let columns = KEY_BLOCK.min(end - key);
            let at = (task.start + key) * width;
            let keys = Matrix::new(&saved.heads.keys[at..], columns, width);
            let values = Matrix::new(&saved.heads.values[at..], columns, width);
            let scores = sized(&mut scratch.scores, rows * columns);
            let d_scores = sized(&mut scratch.d_scores, rows * columns);
            let output = MatrixMut::new(scores, rows, columns);
            product(output, Output::Replace, queries, keys.transposed());
            let output = MatrixMut::new(d_scores, rows, columns);
            product(output, Output::Replace, d_attended, values.transposed());
            let window = Window { columns, first: first + 1 - key, group };
            kernels::softmax_backward(scores, window, log_sums, means, d_scores);
            let probabilities = Matrix::new(scores, rows, columns);
            let d_scores = Matrix::new(d_scores, rows, columns);
            let mode = if key == 0 { Output::Replace } else { Output::Add };
            product(MatrixMut::new(d_queries, rows, width), mode, d_scores, keys);
            let d_keys = MatrixMut::new(&mut task.d_keys[key * width..], columns, width);
            product(d_keys, Output::Add, d_scores.transposed(), queries);
            let d_values = MatrixMut::new(&mut task.d_values[key * width..], columns, width);
            product(d_values, Output::Add, probabilities.transposed(), d_attended);
        }
    });
}

fn product(output: MatrixMut<'_>, mode: Output, left: Matrix<'_>, right: Matrix<'_>) {
    multiply(output, mode, left, right, 1.0, Threads::One);
}
