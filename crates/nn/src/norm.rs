//! RMSNorm over the hidden size, rows shared out to threads.
//!
//! Invariant: the sum over rows of the weight's gradient is taken in a fixed order, so that it
//! doesn't depend on the number of threads.

use rayon::prelude::*;

use crate::kernels::{self, NormBackward};

/// Rows that one task handles.
const CHUNK_ROWS: usize = 32;

/// `output = weight · input / rms(input)`, each `[rows, weight.len()]`.
pub(crate) fn forward(input: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
    let size = CHUNK_ROWS * weight.len();
    output
        .par_chunks_mut(size)
        .zip(input.par_chunks(size))
        .for_each(|(output, input)| kernels::rms_norm(input, weight, epsilon, output));
}

/// Adds the change with the input to `d_input` and the change with the weight to `d_weight`, and
/// replaces `d_output` by the output of the forward pass. An empty `d_weight` is frozen.
pub(crate) fn backward(rows: NormBackward<'_>) {
    let NormBackward { input, weight, epsilon, d_output, d_input, d_weight } = rows;
    let width = weight.len();
    let size = CHUNK_ROWS * width;
    let mut partial = vec![0.0; input.len().div_ceil(size) * width];
    d_output
        .par_chunks_mut(size)
        .zip(d_input.par_chunks_mut(size))
        .zip(input.par_chunks(size))
        .zip(partial.par_chunks_mut(width))
        .for_each(|(((d_output, d_input), input), d_weight)| {
            let rows = NormBackward { input, weight, epsilon, d_output, d_input, d_weight };
            kernels::rms_norm_backward(rows);
        });
    if !d_weight.is_empty() {
        kernels::add_columns(&partial, d_weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norm(input: &[f32], weight: &[f32]) -> Vec<f64> {
        let squares: f64 = input.iter().map(|x| f64::from(*x).powi(2)).sum();
        let scale = 1.0 / (squares / input.len() as f64 + 1e-6).sqrt();
        input.iter().zip(weight).map(|(x, w)| f64::from(*x) * scale * f64::from(*w)).collect()
    }

    #[test]
    fn equals_its_formula_forward_and_backward() {
        let (rows, width) = (70, 37);
        let value = |at: usize, rate: f32| (at as f32 * rate).sin();
        let input: Vec<f32> = (0..rows * width).map(|at| value(at, 0.7)).collect();
        let weight: Vec<f32> = (0..width).map(|at| 1.0 + 0.3 * value(at, 0.9)).collect();
        let slopes: Vec<f32> = (0..rows * width).map(|at| value(at, 0.31)).collect();
        let mut output = vec![0.0; rows * width];
        forward(&input, &weight, 1e-6, &mut output);
        let (mut d_output, mut d_input) = (slopes.clone(), vec![0.5; rows * width]);
        let mut d_weight = vec![0.0; width];
        backward(NormBackward {
            input: &input,
            weight: &weight,
            epsilon: 1e-6,
            d_output: &mut d_output,
            d_input: &mut d_input,
            d_weight: &mut d_weight,
        });
        for row in [0, 31, 32, 69] {
            let range = row * width..(row + 1) * width;
            let (input, slopes) = (&input[range.clone()], &slopes[range.clone()]);
            for (value, expected) in output[range.clone()].iter().zip(norm(input, &weight)) {
                assert!((f64::from(*value) - expected).abs() < 1e-5);
            }
            for column in 0..width {
                let loss = |shift: f32| -> f64 {
                    let mut moved = input.to_vec();
                    moved[column] += shift;
                    let output = norm(&moved, &weight);
                    output.iter().zip(slopes).map(|(y, slope)| y * f64::from(*slope)).sum()
                };
                let step = 2.0_f32.powi(-8);
                let expected = 0.5 + (loss(step) - loss(-step)) / f64::from(2.0 * step);
                let value = f64::from(d_input[range.start + column]);
                assert!((value - expected).abs() < 1e-3, "{value} {expected}");
            }
        }
        for (at, value) in output.iter().enumerate() {
            assert!((value - d_output[at]).abs() < 1e-6);
        }
        let first: f64 = (0..rows)
            .map(|row| f64::from(slopes[row * width] * output[row * width] / weight[0]))
            .sum();
        assert!((f64::from(d_weight[0]) - first).abs() < 1e-4);
    }
}
