//! What is done to each row alone: RMSNorm, the rotation, and the way of keys and values to their
//! block.
#![expect(unsafe_code, reason = "raw pointers shared by threads that write disjoint rows")]

use super::lanes::{Lanes, PANEL};
use crate::decode::cache::BLOCK_TOKENS;

/// RMSNorm of one row: `output = input / sqrt(mean(input²) + epsilon) · weight`.
#[derive(Clone, Copy)]
pub(crate) struct Norm<'a> {
    /// Padded with zeros to whole lanes, as input and output are.
    pub(crate) weight: &'a [f32],
    /// Values of the row without padding.
    pub(crate) length: usize,
    pub(crate) epsilon: f32,
}

/// # Safety
/// `input` and `output` hold as many values as `norm.weight`; input is zero beyond `norm.length`.
#[inline(always)]
pub(super) unsafe fn norm<L: Lanes>(norm: Norm<'_>, input: *const f32, output: *mut f32) {
    let lanes = (0..norm.weight.len()).step_by(16);
    // SAFETY: by the function's contract.
    unsafe {
        let mut squares = L::splat(0.0);
        for at in lanes.clone() {
            let value = L::load(input.add(at));
            squares = value.mul_add(value, squares);
        }
        let mean = squares.sum() / norm.length as f32;
        let factor = L::splat(1.0 / (mean + norm.epsilon).sqrt());
        for at in lanes {
            let weight = L::load(norm.weight.as_ptr().add(at));
            L::load(input.add(at)).mul(factor).mul(weight).store(output.add(at));
        }
    }
}

/// One row of queries, keys and values after their product.
#[derive(Clone, Copy)]
pub(crate) struct Heads<'a> {
    /// `[heads · head_size]` queries, then keys, then values.
    pub(crate) row: *mut f32,
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
    /// Cosines, then sines: `head_size` values.
    pub(crate) rotation: &'a [f32],
    /// Weights of the norms of query and key heads; empty where the model has none.
    pub(crate) query_norm: &'a [f32],
    pub(crate) key_norm: &'a [f32],
    pub(crate) epsilon: f32,
    /// Keys and values of this layer's first head in the row's block.
    pub(crate) block: *mut f32,
    /// From a head to the next in the block, and from a head's keys to its values.
    pub(crate) head_len: usize,
    pub(crate) key_len: usize,
    /// Place of the token in its block.
    pub(crate) offset: usize,
}

/// Normalises and rotates the heads of queries (in place) and keys, and brings keys and values to
/// the block.
///
/// # Safety
/// The row and the block have room for all heads, and no other thread touches the row or this
/// place of the block.
#[inline(always)]
pub(super) unsafe fn heads(heads: Heads<'_>) {
    let size = heads.head_size;
    // SAFETY: heads lie one after the other in the row; in the block at multiples of `head_len`.
    unsafe {
        for head in 0..heads.heads {
            let query = std::slice::from_raw_parts_mut(heads.row.add(head * size), size);
            normalise_and_rotate(query, heads.query_norm, heads.epsilon, heads.rotation);
        }
        let keys = heads.row.add(heads.heads * size);
        let values = keys.add(heads.key_value_heads * size);
        for head in 0..heads.key_value_heads {
            let key = std::slice::from_raw_parts_mut(keys.add(head * size), size);
            normalise_and_rotate(key, heads.key_norm, heads.epsilon, heads.rotation);
            let block = heads.block.add(head * heads.head_len);
            for (index, key) in key.iter().enumerate() {
                *block.add(index * BLOCK_TOKENS + heads.offset) = *key;
            }
            let block = block.add(heads.key_len + heads.offset * PANEL);
            for first in (0..size).step_by(PANEL) {
                let columns = PANEL.min(size - first);
                let from = values.add(head * size + first);
                let to = block.add(first * BLOCK_TOKENS);
                std::ptr::copy_nonoverlapping(from, to, columns);
            }
        }
    }
}

#[inline(always)]
fn normalise_and_rotate(head: &mut [f32], norm: &[f32], epsilon: f32, rotation: &[f32]) {
    if !norm.is_empty() {
        let squares = head.iter().fold(0.0, |sum, value| sum + value * value);
        let factor = 1.0 / (squares / head.len() as f32 + epsilon).sqrt();
        for (value, weight) in head.iter_mut().zip(norm) {
            *value = *value * factor * weight;
        }
    }
    let (cosines, sines) = rotation.split_at(rotation.len() / 2);
    let (low, high) = head.split_at_mut(cosines.len());
    let angles = cosines.iter().zip(sines);
    for ((low, high), (cosine, sine)) in low.iter_mut().zip(high).zip(angles) {
        (*low, *high) = (*low * cosine - *high * sine, *high * cosine + *low * sine);
    }
}
