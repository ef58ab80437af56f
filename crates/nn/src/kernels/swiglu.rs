//! The gate of the feed-forward layer: `silu(gate) · up` with `silu(x) = x / (1 + e⁻ˣ)`.

use super::{exp, multiply_add, vectorized};

vectorized! {
    /// Each row of `gate_up` is a gate's row and then an up row, of `width` values each.
    pub(crate) fn swiglu(gate_up: &[f32], width: usize, output: &mut [f32]) {
        for (row, output) in gate_up.chunks_exact(2 * width).zip(output.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            for ((output, gate), up) in output.iter_mut().zip(gate).zip(up) {
                *output = *gate / (1.0 + exp::<FMA>(-*gate)) * *up;
            }
        }
    }
}

vectorized! {
    /// Replaces gate and up by the change with them, and the change with the output by the output
    /// itself, which the gradient of the next matrix needs.
    pub(crate) fn swiglu_backward(gate_up: &mut [f32], width: usize, d_output: &mut [f32]) {
        let rows = gate_up.chunks_exact_mut(2 * width).zip(d_output.chunks_exact_mut(width));
        for (row, d_output) in rows {
            let (gates, ups) = row.split_at_mut(width);
            for ((gate, up), d_output) in gates.iter_mut().zip(ups).zip(d_output) {
                let share = 1.0 / (1.0 + exp::<FMA>(-*gate));
                let silu = *gate * share;
                let slope = multiply_add::<FMA>(silu, 1.0 - share, share);
                let output = silu * *up;
                *gate = *d_output * *up * slope;
                *up = *d_output * silu;
                *d_output = output;
            }
        }
    }
}
