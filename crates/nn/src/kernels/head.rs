//! Log-softmax over the vocabulary, one row of logits at a time.

use super::{exp, maximum, multiply_add, vectorized};

/// What a row of logits amounts to, at the temperature that was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogSoftmax {
    /// Logarithm of the sum of exponentials: `log p = logit / temperature - log_sum`.
    pub(crate) log_sum: f32,
    /// Entropy, nats.
    pub(crate) entropy: f32,
}

vectorized! {
    /// Log-sum-exp and entropy of `logits · inverse_temperature`.
    pub(crate) fn log_softmax(logits: &[f32], inverse_temperature: f32) -> LogSoftmax {
        let peak = maximum(logits);
        let below = |at: usize| (logits[at] - peak) * inverse_temperature;
        let length = logits.len();
        let mut sums = [0.0_f32; super::LANES];
        let mut products = [0.0_f32; super::LANES];
        let whole = length / super::LANES * super::LANES;
        for start in (0..whole).step_by(super::LANES) {
            for lane in 0..super::LANES {
                let below = below(start + lane);
                let term = exp::<FMA>(below);
                sums[lane] += term;
                products[lane] = multiply_add::<FMA>(term, below, products[lane]);
            }
        }
        let mut sum: f32 = sums.iter().sum();
        let mut product: f32 = products.iter().sum();
        for at in whole..length {
            let term = exp::<FMA>(below(at));
            sum += term;
            product += term * below(at);
        }
        let log = sum.ln();
        LogSoftmax {
            log_sum: multiply_add::<FMA>(peak, inverse_temperature, log),
            entropy: log - product / sum,
        }
    }
}

/// How the loss changes with a row's results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowGradient {
    pub(crate) target: usize,
    pub(crate) d_log_prob: f32,
    pub(crate) d_entropy: f32,
    pub(crate) inverse_temperature: f32,
}

vectorized! {
    /// Replaces logits by the change with them:
    /// `(d_log_prob · (1 at target - p) - d_entropy · p · (log p + entropy)) / temperature`.
    pub(crate) fn log_softmax_backward(logits: &mut [f32], row: LogSoftmax, change: RowGradient) {
        let inverse = change.inverse_temperature;
        let d_log_prob = change.d_log_prob * inverse;
        let d_entropy = change.d_entropy * inverse;
        if d_entropy == 0.0 {
            for logit in logits.iter_mut() {
                let log_prob = multiply_add::<FMA>(*logit, inverse, -row.log_sum);
                *logit = -d_log_prob * exp::<FMA>(log_prob);
            }
        } else {
            for logit in logits.iter_mut() {
                let log_prob = multiply_add::<FMA>(*logit, inverse, -row.log_sum);
                let probability = exp::<FMA>(log_prob);
                *logit = -probability * (d_log_prob + d_entropy * (log_prob + row.entropy));
            }
        }
        logits[change.target] += d_log_prob;
    }
}
