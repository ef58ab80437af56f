//! The update of AdamW on a part of the weights, and the sum of squares that clipping needs.

use super::{LANES, multiply_add, vectorized};

/// Numbers of one step, bias corrections folded in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamUpdate {
    /// Weights are multiplied by it first: `1 - learning_rate · weight_decay`.
    pub(crate) keep: f32,
    /// The gradient is multiplied by it.
    pub(crate) gradient_scale: f32,
    pub(crate) beta1: f32,
    pub(crate) one_minus_beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) one_minus_beta2: f32,
    /// `learning_rate / (1 - beta1^steps)`.
    pub(crate) rate: f32,
    /// `1 / √(1 - beta2^steps)`.
    pub(crate) root_scale: f32,
    pub(crate) epsilon: f32,
}

vectorized! {
    /// Updates weights and both moments, and clears the gradient.
    pub(crate) fn adam(
        update: AdamUpdate,
        values: &mut [f32],
        gradient: &mut [f32],
        mean: &mut [f32],
        square: &mut [f32],
    ) {
        let length = values.len();
        let (gradient, mean) = (&mut gradient[..length], &mut mean[..length]);
        let square = &mut square[..length];
        for at in 0..length {
            let slope = gradient[at] * update.gradient_scale;
            let scaled = update.one_minus_beta1 * slope;
            let new_mean = multiply_add::<FMA>(update.beta1, mean[at], scaled);
            let scaled = update.one_minus_beta2 * slope * slope;
            let new_square = multiply_add::<FMA>(update.beta2, square[at], scaled);
            let root = multiply_add::<FMA>(new_square.sqrt(), update.root_scale, update.epsilon);
            values[at] = values[at] * update.keep - update.rate * new_mean / root;
            mean[at] = new_mean;
            square[at] = new_square;
            gradient[at] = 0.0;
        }
    }
}

vectorized! {
    /// Sum of squares, added up in `f64`.
    pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                let value = f64::from(*value);
                *sum += value * value;
            }
        }
        let rest: f64 = rest.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
        sums.iter().sum::<f64>() + rest
    }
}
