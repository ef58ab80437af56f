//! Rows times a packed matrix, with what follows each product done while the tile is in the cache.
#![expect(unsafe_code, reason = "raw pointers shared by threads that write disjoint tiles")]

use std::ops::Range;

use super::lanes::{Bf16, F32, Int8, Lanes, PANEL, Weight};
use super::tile::{self, Left, MOST_ROWS, Sums};
use crate::decode::matrix::{PackedMatrix, Panels};

/// What is done with a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// `output = product + bias`.
    Store,
    /// `output += product`: the residual stream.
    Add,
    /// The panel holds sixteen gates and their sixteen ups: `output = silu(gate) · up`.
    Gate,
}

/// A product: `output = finish(input · matrixᵀ)`.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    /// `[rows, inputs]`, a row each `input_stride`.
    pub(crate) input: *const f32,
    pub(crate) input_stride: usize,
    pub(crate) matrix: &'a PackedMatrix,
    /// One value a column, or empty.
    pub(crate) bias: &'a [f32],
    pub(crate) finish: Finish,
    /// `[rows, columns]`, a row each `output_stride`.
    pub(crate) output: *mut f32,
    pub(crate) output_stride: usize,
    /// Columns of the output.
    pub(crate) columns: usize,
}

/// The part of `product` that `rows` and `panels` are.
///
/// # Safety
/// Input and output have the rows, no other thread touches this part of the output, and the
/// processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn product<L: Lanes>(
    product: &Product<'_>,
    rows: Range<usize>,
    panels: Range<usize>,
) {
    // SAFETY: by the function's contract.
    unsafe {
        match &product.matrix.panels {
            Panels::F32(lines) => {
                let values: &[f32] = bytemuck::cast_slice(lines);
                stored::<L, F32>(product, values, rows, panels);
            }
            Panels::Bf16(lines) => {
                let values: &[u16] = bytemuck::cast_slice(lines);
                stored::<L, Bf16>(product, values, rows, panels);
            }
            Panels::Int8(lines) => {
                let values: &[i8] = bytemuck::cast_slice(lines);
                stored::<L, Int8>(product, values, rows, panels);
            }
        }
    }
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn stored<L: Lanes, W: Weight>(
    product: &Product<'_>,
    values: &[W::Element],
    rows: Range<usize>,
    panels: Range<usize>,
) {
    let inputs = product.matrix.inputs;
    let together = match rows.len() {
        1 => L::PANELS[0],
        2 | 3 => L::PANELS[1],
        _ => 1,
    };
    let mut scratch = [0.0f32; MOST_ROWS * PANEL];
    let mut first = panels.start;
    while first < panels.end {
        let count = if first + together <= panels.end { together } else { 1 };
        let of = |panel: usize| values[(first + panel) * inputs * PANEL..].as_ptr();
        for tile in tile::tiles(rows.len(), L::ROWS) {
            let row = rows.start + tile.start;
            // SAFETY: `row` is a row of the input; the scratch holds 12 rows of one panel, 3 of two,
            // 1 of four; `finish` gets rows and panels of this call.
            unsafe {
                let left = Left {
                    values: product.input.add(row * product.input_stride),
                    stride: product.input_stride,
                    rows: tile.len(),
                    inputs,
                };
                let stride = count * PANEL;
                let sums = Sums { values: scratch.as_mut_ptr(), stride, go_on: false };
                match count {
                    1 => tile::one_panel::<L, W>(left, of(0), sums),
                    2 => tile::two_panels::<L, W>(left, [of(0), of(1)], sums),
                    _ => tile::four_panels::<L, W>(left, [of(0), of(1), of(2), of(3)], sums),
                }
                for (index, row) in (row..row + tile.len()).enumerate() {
                    for panel in 0..count {
                        let sums = scratch.as_mut_ptr().add(index * stride + panel * PANEL);
                        finish::<L>(product, row, first + panel, sums);
                    }
                }
            }
        }
        first += count;
    }
}

/// Brings 32 sums of a row to where they go.
///
/// # Safety
/// `sums` holds 32 values; the rest as [`product`].
#[inline(always)]
unsafe fn finish<L: Lanes>(product: &Product<'_>, row: usize, panel: usize, sums: *mut f32) {
    // SAFETY: scales and bias are padded to whole panels; the output is written at columns that it
    // has, and only in this panel's.
    unsafe {
        if let Some(scales) = product.matrix.scales.get(panel * PANEL..(panel + 1) * PANEL) {
            scale::<L>(sums, scales.as_ptr());
        }
        let output = product.output.add(row * product.output_stride);
        if product.finish == Finish::Gate {
            let gate = L::load(sums);
            let denominator = gate.mul(L::splat(-1.0)).exp().add(L::splat(1.0));
            gate.div(denominator).mul(L::load(sums.add(16))).store(sums);
            let columns = panel * 16..(panel * 16 + 16).min(product.columns);
            place::<L>(sums, output.add(columns.start), columns.len(), false);
            return;
        }
        if let Some(bias) = product.bias.get(panel * PANEL..(panel + 1) * PANEL) {
            for half in [0, 16] {
                let sum = L::load(sums.add(half)).add(L::load(bias.as_ptr().add(half)));
                sum.store(sums.add(half));
            }
        }
        let add = product.finish == Finish::Add;
        for first in [panel * PANEL, panel * PANEL + 16] {
            let columns = product.columns.saturating_sub(first).min(16);
            place::<L>(sums.add(first - panel * PANEL), output.add(first), columns, add);
        }
    }
}

/// # Safety
/// Both hold 32 values.
#[inline(always)]
unsafe fn scale<L: Lanes>(sums: *mut f32, scales: *const f32) {
    for half in [0, 16] {
        // SAFETY: by the function's contract.
        unsafe { L::load(sums.add(half)).mul(L::load(scales.add(half))).store(sums.add(half)) };
    }
}

/// Writes or adds the first `columns` of sixteen values.
///
/// # Safety
/// `output` has `columns` values.
#[inline(always)]
unsafe fn place<L: Lanes>(sums: *const f32, output: *mut f32, columns: usize, add: bool) {
    // SAFETY: by the function's contract.
    unsafe {
        if columns == 16 {
            let sum = L::load(sums);
            if add { L::load(output).add(sum).store(output) } else { sum.store(output) }
        } else {
            for column in 0..columns {
                let value = *sums.add(column);
                let to = output.add(column);
                *to = if add { *to + value } else { value };
            }
        }
    }
}
