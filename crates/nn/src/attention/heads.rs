//! Between rows of tokens and rows of heads: the projections' output becomes queries, keys and
//! values that attention reads in order, and back. Bias, norm of heads and rotation happen on the
//! way, while a row is in cache.

use rayon::prelude::*;

use super::{HeadShape, Heads, take};
use crate::kernels::{self, NormBackward};
use crate::rope::Rotation;

/// Tokens that one task handles.
const CHUNK_TOKENS: usize = 64;

/// What changes heads on the way, and where their tokens stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadWeights<'a> {
    /// Bias of queries, keys and values, one after the other; empty where the model has none.
    pub(crate) bias: &'a [f32],
    /// RMSNorm of each query head; empty where the model has none.
    pub(crate) query_norm: &'a [f32],
    /// RMSNorm of each key head; empty where the model has none.
    pub(crate) key_norm: &'a [f32],
    /// ε of the norms.
    pub(crate) epsilon: f32,
    /// Angles.
    pub(crate) rotation: &'a Rotation,
    /// Position of each token in its sequence.
    pub(crate) positions: &'a [usize],
}

impl HeadShape {
    fn query_scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Width of queries, keys and values of a token together.
    pub(crate) const fn projected_width(self) -> usize {
        self.query_width() + 2 * self.key_width()
    }
}

/// `projected` is `[tokens, queries | keys | values]`.
pub(crate) fn split(
    shape: HeadShape,
    weights: HeadWeights<'_>,
    projected: &[f32],
    heads: &mut Heads,
) {
    let tokens = weights.positions.len();
    let mut queries = heads.queries.as_mut_slice();
    let (mut keys, mut values) = (heads.keys.as_mut_slice(), heads.values.as_mut_slice());
    let mut tasks = Vec::new();
    for head in 0..shape.key_heads {
        for first in (0..tokens).step_by(CHUNK_TOKENS) {
            let count = CHUNK_TOKENS.min(tokens - first);
            let queries = take(&mut queries, count * shape.group_width());
            let keys = take(&mut keys, count * shape.width);
            let values = take(&mut values, count * shape.width);
            tasks.push((head, first, queries, keys, values));
        }
    }
    let (group_width, width) = (shape.group_width(), shape.width);
    tasks.into_par_iter().for_each(|(head, first, queries, keys, values)| {
        let targets = queries.chunks_exact_mut(group_width).zip(keys.chunks_exact_mut(width));
        for (at, ((query, key), value)) in targets.zip(values.chunks_exact_mut(width)).enumerate() {
            let row = &projected[(first + at) * shape.projected_width()..];
            let position = weights.positions[first + at];
            let place = head * group_width;
            copy_with_bias(row, place, weights.bias, query);
            normalise(query, weights.query_norm, weights.epsilon);
            weights.rotation.rotate(query, position, shape.query_scale());
            let place = shape.query_width() + head * width;
            copy_with_bias(row, place, weights.bias, key);
            normalise(key, weights.key_norm, weights.epsilon);
            weights.rotation.rotate(key, position, 1.0);
            copy_with_bias(row, place + shape.key_width(), weights.bias, value);
        }
    });
}

fn copy_with_bias(row: &[f32], place: usize, bias: &[f32], output: &mut [f32]) {
    let range = place..place + output.len();
    output.copy_from_slice(&row[range.clone()]);
    if !bias.is_empty() {
        kernels::add(output, &bias[range]);
    }
}

fn normalise(heads: &mut [f32], weight: &[f32], epsilon: f32) {
    if !weight.is_empty() {
        let input = heads.to_vec();
        kernels::rms_norm(&input, weight, epsilon, heads);
    }
}

/// `[key_heads, tokens, group, width]` to `[tokens, query_width]`.
pub(crate) fn merge(shape: HeadShape, attended: &[f32], rows: &mut [f32]) {
    let group_width = shape.group_width();
    let tokens = rows.len() / shape.query_width();
    let size = CHUNK_TOKENS * shape.query_width();
    rows.par_chunks_mut(size).enumerate().for_each(|(chunk, rows)| {
        for (at, row) in rows.chunks_exact_mut(shape.query_width()).enumerate() {
            let token = chunk * CHUNK_TOKENS + at;
            for (head, part) in row.chunks_exact_mut(group_width).enumerate() {
                let start = (head * tokens + token) * group_width;
                part.copy_from_slice(&attended[start..start + group_width]);
            }
        }
    });
}

/// The other way, for the change with what was attended to; and the dot product of each query's
/// change with what it attended to, `[key_heads, tokens, group]`.
pub(crate) fn split_backward(
    shape: HeadShape,
    attended_rows: &[f32],
    d_rows: &[f32],
    d_attended: &mut [f32],
    means: &mut [f32],
) {
    let (group_width, query_width) = (shape.group_width(), shape.query_width());
    let tokens = d_rows.len() / query_width;
    let (mut d_attended, mut means) = (d_attended, means);
    let mut tasks = Vec::new();
    for head in 0..shape.key_heads {
        for first in (0..tokens).step_by(CHUNK_TOKENS) {
            let count = CHUNK_TOKENS.min(tokens - first);
            let d_attended = take(&mut d_attended, count * group_width);
            tasks.push((head, first, d_attended, take(&mut means, count * shape.group)));
        }
    }
    tasks.into_par_iter().for_each(|(head, first, d_attended, means)| {
        let chunks = d_attended.chunks_exact_mut(group_width);
        for (at, (part, means)) in chunks.zip(means.chunks_exact_mut(shape.group)).enumerate() {
            let start = (first + at) * query_width + head * group_width;
            part.copy_from_slice(&d_rows[start..start + group_width]);
            let attended = &attended_rows[start..start + group_width];
            kernels::dot_rows(part, attended, shape.width, means);
        }
    });
}

/// Changes with the weights of [`HeadWeights`], added; empty slices where the model has none or
/// they are frozen.
#[derive(Debug)]
pub(crate) struct HeadGradients<'a> {
    pub(crate) bias: &'a mut [f32],
    pub(crate) query_norm: &'a mut [f32],
    pub(crate) key_norm: &'a mut [f32],
}

/// From the change with queries, keys and values to that with the projections' output,
/// `[tokens, queries | keys | values]`. `projected` is what [`split`] was given; it is read only by
/// models that normalise heads.
pub(crate) fn join_backward(
    shape: HeadShape,
    weights: HeadWeights<'_>,
    projected: &[f32],
    change: &Heads,
    d_projected: &mut [f32],
    gradients: HeadGradients<'_>,
) {
    let HeadGradients { bias, query_norm, key_norm } = gradients;
    let width = shape.projected_width();
    let tokens = weights.positions.len();
    let partial_width = 2 * shape.width;
    let mut partial = vec![0.0; tokens.div_ceil(CHUNK_TOKENS) * partial_width];
    d_projected
        .par_chunks_mut(CHUNK_TOKENS * width)
        .zip(partial.par_chunks_mut(partial_width))
        .enumerate()
        .for_each(|(chunk, (rows, partial))| {
            for (at, row) in rows.chunks_exact_mut(width).enumerate() {
                let token = chunk * CHUNK_TOKENS + at;
                join_row(shape, weights, change, token, row);
                if !weights.query_norm.is_empty() {
                    let input = &projected[token * width..(token + 1) * width];
                    norm_backward(shape, weights, input, row, partial);
                }
            }
        });
    for partial in partial.chunks_exact(partial_width) {
        let (query, key) = partial.split_at(shape.width);
        kernels::add(query_norm, query);
        kernels::add(key_norm, key);
    }
    add_bias(width, d_projected, bias);
}

fn join_row(
    shape: HeadShape,
    weights: HeadWeights<'_>,
    change: &Heads,
    token: usize,
    row: &mut [f32],
) {
    let tokens = weights.positions.len();
    let position = weights.positions[token];
    let (queries, rest) = row.split_at_mut(shape.query_width());
    let (keys, values) = rest.split_at_mut(shape.key_width());
    let gather = |output: &mut [f32], source: &[f32], width: usize| {
        for (head, part) in output.chunks_exact_mut(width).enumerate() {
            let start = (head * tokens + token) * width;
            part.copy_from_slice(&source[start..start + width]);
        }
    };
    gather(queries, &change.queries, shape.group_width());
    gather(keys, &change.keys, shape.width);
    gather(values, &change.values, shape.width);
    weights.rotation.rotate_back(queries, position, shape.query_scale());
    weights.rotation.rotate_back(keys, position, 1.0);
}

/// Through the norm of heads; `partial` takes the change with both weights.
fn norm_backward(
    shape: HeadShape,
    weights: HeadWeights<'_>,
    input: &[f32],
    row: &mut [f32],
    partial: &mut [f32],
) {
    let (query_width, key_width) = (shape.query_width(), shape.key_width());
    let (d_query_norm, d_key_norm) = partial.split_at_mut(shape.width);
    let parts = [
        (0..query_width, weights.query_norm, d_query_norm),
        (query_width..query_width + key_width, weights.key_norm, d_key_norm),
    ];
    for (range, weight, d_weight) in parts {
        let mut d_output = row[range.clone()].to_vec();
        let d_input = &mut row[range.clone()];
        d_input.fill(0.0);
        kernels::rms_norm_backward(NormBackward {
            input: &input[range],
            weight,
            epsilon: weights.epsilon,
            d_output: &mut d_output,
            d_input,
            d_weight,
        });
    }
}

/// Adds the sum over all rows.
fn add_bias(width: usize, rows: &[f32], bias: &mut [f32]) {
    if bias.is_empty() {
        return;
    }
    let chunks = rows.par_chunks(CHUNK_TOKENS * width);
    let sums: Vec<Vec<f32>> = chunks
        .map(|rows| {
            let mut sums = vec![0.0; width];
            kernels::add_columns(rows, &mut sums);
            sums
        })
        .collect();
    for sums in sums {
        kernels::add(bias, &sums);
    }
}
