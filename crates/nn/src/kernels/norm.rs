//! RMSNorm on whole rows: `y = weight · x / √(mean(x²) + ε)`.

use super::{dot, multiply_add, vectorized};

vectorized! {
    /// Normalises each row of `weight.len()` values.
    pub(crate) fn rms_norm(input: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
        let width = weight.len();
        for (input, output) in input.chunks_exact(width).zip(output.chunks_exact_mut(width)) {
            let scale = inverse_rms::<FMA>(input, epsilon);
            for ((output, input), weight) in output.iter_mut().zip(input).zip(weight) {
                *output = *input * scale * *weight;
            }
        }
    }
}

/// Slices of [`rms_norm_backward`], all rows of the weight's width.
#[derive(Debug)]
pub(crate) struct NormBackward<'a> {
    pub(crate) input: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) epsilon: f32,
    /// Change with the output: read, and replaced by the output itself, which the gradient of the
    /// next matrix needs.
    pub(crate) d_output: &'a mut [f32],
    /// Change with the input is added.
    pub(crate) d_input: &'a mut [f32],
    /// Change with the weight is added; one row.
    pub(crate) d_weight: &'a mut [f32],
}

vectorized! {
    /// With `g = d_output · weight` and `s = 1 / rms`: `d_input += s·g - s³·x·mean(g·x)`.
    pub(crate) fn rms_norm_backward(rows: NormBackward<'_>) {
        let weight = rows.weight;
        let width = weight.len();
        let d_weight = &mut rows.d_weight[..width];
        let inputs = rows.input.chunks_exact(width);
        let d_outputs = rows.d_output.chunks_exact_mut(width);
        let d_inputs = rows.d_input.chunks_exact_mut(width);
        for ((input, d_output), d_input) in inputs.zip(d_outputs).zip(d_inputs) {
            let scale = inverse_rms::<FMA>(input, rows.epsilon);
            let along = super::sum_lanes::<FMA>(width, |at, sum| {
                multiply_add::<FMA>(d_output[at] * weight[at], input[at], sum)
            });
            let back = scale * scale * scale * along / width as f32;
            for at in 0..width {
                let normal = input[at] * scale;
                let slope = d_output[at];
                d_weight[at] = multiply_add::<FMA>(slope, normal, d_weight[at]);
                let change = slope * weight[at] * scale - back * input[at];
                d_input[at] += change;
                d_output[at] = normal * weight[at];
            }
        }
    }
}

#[inline(always)]
fn inverse_rms<const FMA: bool>(row: &[f32], epsilon: f32) -> f32 {
    1.0 / (dot::<FMA>(row, row) / row.len() as f32 + epsilon).sqrt()
}
