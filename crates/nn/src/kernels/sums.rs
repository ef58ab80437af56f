//! Sums of rows.

use super::{dot, vectorized};

vectorized! {
    /// `sums[i] += rows[.., i]`, row after row.
    pub(crate) fn add_columns(rows: &[f32], sums: &mut [f32]) {
        for row in rows.chunks_exact(sums.len()) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += *value;
            }
        }
    }
}

vectorized! {
    /// `output[i] += values[i]`.
    pub(crate) fn add(output: &mut [f32], values: &[f32]) {
        for (output, value) in output.iter_mut().zip(values) {
            *output += *value;
        }
    }
}

vectorized! {
    /// Dot product of each row of `left` with the same row of `right`.
    pub(crate) fn dot_rows(left: &[f32], right: &[f32], width: usize, output: &mut [f32]) {
        let rows = left.chunks_exact(width).zip(right.chunks_exact(width));
        for ((left, right), output) in rows.zip(output) {
            *output = dot::<FMA>(left, right);
        }
    }
}
