//! A matrix packed for products: panels of 32 outputs, input after input.
//!
//! Hides the storage. Panel `p` holds outputs `32p..32p + 32`, for each input 32 values side by
//! side, so that a product streams it in one direction. bf16 pairs output `c` (low half of a word)
//! with output `16 + c` (high half), so that a shift and a mask widen them. Outputs beyond the last
//! are zero.

use rayon::prelude::*;

use super::cache::Line;
use super::kernels::PANEL;
use super::weights::Storage;

/// The panels in their storage.
#[derive(Debug)]
pub(crate) enum Panels {
    F32(Vec<Line>),
    Bf16(Vec<Line>),
    Int8(Vec<Line>),
}

/// A packed matrix.
#[derive(Debug)]
pub(crate) struct PackedMatrix {
    pub(crate) panels: Panels,
    /// Int8 only: one for each output, padded to whole panels.
    pub(crate) scales: Vec<f32>,
    /// Inputs, k.
    pub(crate) inputs: usize,
    /// Number of panels.
    pub(crate) count: usize,
}

impl PackedMatrix {
    /// Room for a matrix, all zero.
    pub(crate) fn zeros(outputs: usize, inputs: usize, storage: Storage) -> Self {
        let count = outputs.div_ceil(PANEL);
        let lines = |bytes: usize| {
            bytemuck::allocation::zeroed_vec((count * inputs * PANEL * bytes).div_ceil(64))
        };
        let (panels, scales) = match storage {
            Storage::F32 => (Panels::F32(lines(4)), 0),
            Storage::Bf16 => (Panels::Bf16(lines(2)), 0),
            Storage::Int8 => (Panels::Int8(lines(1)), count * PANEL),
        };
        Self { panels, scales: vec![0.0; scales], inputs, count }
    }

    /// Bytes of memory.
    pub(crate) const fn bytes(&self) -> usize {
        let (Panels::F32(lines) | Panels::Bf16(lines) | Panels::Int8(lines)) = &self.panels;
        lines.len() * size_of::<Line>() + self.scales.len() * size_of::<f32>()
    }

    /// Replaces all values: output `index` becomes `row(index)`; `None` stays zero.
    pub(crate) fn fill<'a>(&mut self, row: impl Fn(usize) -> Option<&'a [f32]> + Sync) {
        let length = self.inputs * PANEL;
        match &mut self.panels {
            Panels::F32(lines) => {
                let values: &mut [f32] = bytemuck::cast_slice_mut(lines);
                values.par_chunks_mut(length).enumerate().for_each(|(panel, values)| {
                    scatter(panel, values, &row, |column| column, |value, _| value);
                });
            }
            Panels::Bf16(lines) => {
                let values: &mut [u16] = bytemuck::cast_slice_mut(lines);
                values.par_chunks_mut(length).enumerate().for_each(|(panel, values)| {
                    let place = |column: usize| 2 * (column % 16) + column / 16;
                    let round = |value, _| half::bf16::from_f32(value).to_bits();
                    scatter(panel, values, &row, place, round);
                });
            }
            Panels::Int8(lines) => {
                let values: &mut [i8] = bytemuck::cast_slice_mut(lines);
                let panels = values.par_chunks_mut(length).zip(self.scales.par_chunks_mut(PANEL));
                panels.enumerate().for_each(|(panel, (values, scales))| {
                    for (column, scale) in scales.iter_mut().enumerate() {
                        let values = row(panel * PANEL + column).unwrap_or_default();
                        let largest =
                            values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
                        *scale = largest / 127.0;
                    }
                    let scales = &*scales;
                    let round = |value: f32, column: usize| match scales[column] {
                        0.0 => 0,
                        scale => (value / scale).round() as i8,
                    };
                    scatter(panel, values, &row, |column| column, round);
                });
            }
        }
    }

    /// Output `index` as a row of `inputs` values.
    pub(crate) fn read(&self, index: usize, into: &mut [f32]) {
        let (panel, column) = (index / PANEL, index % PANEL);
        let start = panel * self.inputs * PANEL;
        match &self.panels {
            Panels::F32(lines) => {
                let values: &[f32] = bytemuck::cast_slice(lines);
                let values = values[start + column..].iter().step_by(PANEL);
                into.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
            }
            Panels::Bf16(lines) => {
                let values: &[u16] = bytemuck::cast_slice(lines);
                let column = 2 * (column % 16) + column / 16;
                let values = values[start + column..].iter().step_by(PANEL);
                let widen = |bits: &u16| f32::from_bits(u32::from(*bits) << 16);
                into.iter_mut().zip(values).for_each(|(into, value)| *into = widen(value));
            }
            Panels::Int8(lines) => {
                let values: &[i8] = bytemuck::cast_slice(lines);
                let scale = self.scales[index];
                let values = values[start + column..].iter().step_by(PANEL);
                into.iter_mut().zip(values).for_each(|(into, value)| {
                    *into = f32::from(*value) * scale;
                });
            }
        }
    }
}

/// Writes the 32 outputs of `panel` input by input.
fn scatter<'a, E>(
    panel: usize,
    values: &mut [E],
    row: &impl Fn(usize) -> Option<&'a [f32]>,
    place: impl Fn(usize) -> usize,
    convert: impl Fn(f32, usize) -> E,
) {
    for column in 0..PANEL {
        let Some(source) = row(panel * PANEL + column) else { continue };
        let to = values.iter_mut().skip(place(column)).step_by(PANEL);
        to.zip(source).for_each(|(to, value)| *to = convert(*value, column));
    }
}
