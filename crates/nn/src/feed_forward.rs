//! SwiGLU, rows shared out to threads. Gate and up lie side by side in each row.

use rayon::prelude::*;

use crate::kernels;

/// Rows that one task handles.
const CHUNK_ROWS: usize = 16;

/// `output = silu(gate) · up`: `gate_up` `[rows, 2 · width]`, `output` `[rows, width]`.
pub(crate) fn forward(gate_up: &[f32], width: usize, output: &mut [f32]) {
    output
        .par_chunks_mut(CHUNK_ROWS * width)
        .zip(gate_up.par_chunks(CHUNK_ROWS * 2 * width))
        .for_each(|(output, gate_up)| kernels::swiglu(gate_up, width, output));
}

/// Replaces `gate_up` by the change with it, and `d_output` by the output of the forward pass.
pub(crate) fn backward(gate_up: &mut [f32], width: usize, d_output: &mut [f32]) {
    d_output
        .par_chunks_mut(CHUNK_ROWS * width)
        .zip(gate_up.par_chunks_mut(CHUNK_ROWS * 2 * width))
        .for_each(|(d_output, gate_up)| kernels::swiglu_backward(gate_up, width, d_output));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(gate: f64, up: f64) -> f64 {
        gate / (1.0 + (-gate).exp()) * up
    }

    #[test]
    fn equals_its_formula_forward_and_backward() {
        let (rows, width) = (35, 19);
        let value = |at: usize| 6.0 * (at as f32 * 0.7).sin();
        let gate_up: Vec<f32> = (0..rows * 2 * width).map(value).collect();
        let slopes: Vec<f32> = (0..rows * width).map(|at| (at as f32 * 0.3).cos()).collect();
        let mut output = vec![0.0; rows * width];
        forward(&gate_up, width, &mut output);
        let (mut changed, mut d_output) = (gate_up.clone(), slopes.clone());
        backward(&mut changed, width, &mut d_output);
        for at in 0..rows * width {
            let (row, column) = (at / width, at % width);
            let place = row * 2 * width + column;
            let (gate, up) = (f64::from(gate_up[place]), f64::from(gate_up[place + width]));
            let slope = f64::from(slopes[at]);
            let close = |value: f32, expected: f64| {
                assert!((f64::from(value) - expected).abs() < 2e-5 * (1.0 + expected.abs()));
            };
            close(output[at], gated(gate, up));
            close(d_output[at], gated(gate, up));
            let step = 1e-5;
            let by_gate = (gated(gate + step, up) - gated(gate - step, up)) / (2.0 * step);
            close(changed[place], slope * by_gate);
            close(changed[place + width], slope * gated(gate, 1.0));
        }
    }
}
