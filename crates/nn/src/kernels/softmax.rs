//! Softmax over a block of attention scores, when the other blocks of its rows come later or are
//! past.
//!
//! A block has `columns` scores in each row. Rows belong to `group` query heads of one position,
//! then to those of the next; a row sees the first `first + row / group` columns, at most all.

use super::{exp, maximum, multiply_add, vectorized};

/// Which scores of a block count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Scores in each row.
    pub(crate) columns: usize,
    /// Columns that the first row sees.
    pub(crate) first: usize,
    /// Rows that see as many.
    pub(crate) group: usize,
}

impl Window {
    #[inline(always)]
    fn seen(self, row: usize) -> usize {
        (self.first + row / self.group).min(self.columns)
    }
}

/// State of the rows over the blocks so far.
#[derive(Debug)]
pub(crate) struct OnlineSoftmax<'a> {
    /// Largest score of each row; -∞ before the first block.
    pub(crate) maxima: &'a mut [f32],
    /// Sum of exponentials of each row.
    pub(crate) sums: &'a mut [f32],
    /// What the rows have attended to so far, `[rows, width]`: rescaled where the maximum rises.
    pub(crate) attended: &'a mut [f32],
    /// Width of a head.
    pub(crate) width: usize,
}

vectorized! {
    /// Replaces scores by `exp(score - maximum of the row so far)`, 0 where they don't count.
    pub(crate) fn online_softmax(scores: &mut [f32], window: Window, state: OnlineSoftmax<'_>) {
        for (row, scores) in scores.chunks_exact_mut(window.columns).enumerate() {
            let (seen, unseen) = scores.split_at_mut(window.seen(row));
            let before = state.maxima[row];
            let peak = maximum(seen);
            let peak = if peak > before { peak } else { before };
            if peak > before && before > f32::NEG_INFINITY {
                let shrink = exp::<FMA>(before - peak);
                state.sums[row] *= shrink;
                let attended = &mut state.attended[row * state.width..(row + 1) * state.width];
                for value in attended {
                    *value *= shrink;
                }
            }
            for score in seen.iter_mut() {
                *score = exp::<FMA>(*score - peak);
            }
            let seen = &*seen;
            state.sums[row] += super::sum_lanes::<FMA>(seen.len(), |at, sum| sum + seen[at]);
            state.maxima[row] = peak;
            unseen.fill(0.0);
        }
    }
}

vectorized! {
    /// Divides each row of `attended` by its sum, and turns the sum into the row's log-sum-exp.
    pub(crate) fn normalise(attended: &mut [f32], width: usize, maxima: &[f32], sums: &mut [f32]) {
        let rows = attended.chunks_exact_mut(width).zip(sums.iter_mut()).zip(maxima);
        for ((attended, sum), peak) in rows {
            let inverse = 1.0 / *sum;
            for value in attended {
                *value *= inverse;
            }
            *sum = peak + sum.ln();
        }
    }
}

vectorized! {
    /// Replaces scores by their probabilities `p` and `d_probabilities` by the change with the
    /// scores, `p · (d_p - means)`, where the mean of a row is the sum of `p · d_p` over all of it.
    pub(crate) fn softmax_backward(
        scores: &mut [f32],
        window: Window,
        log_sums: &[f32],
        means: &[f32],
        d_probabilities: &mut [f32],
    ) {
        let rows = scores.chunks_exact_mut(window.columns);
        let rows = rows.zip(d_probabilities.chunks_exact_mut(window.columns)).enumerate();
        for (row, (scores, changes)) in rows {
            let seen = window.seen(row);
            let (log_sum, mean) = (log_sums[row], means[row]);
            for (score, change) in scores[..seen].iter_mut().zip(&mut changes[..seen]) {
                let probability = exp::<FMA>(*score - log_sum);
                *score = probability;
                *change = multiply_add::<FMA>(probability, *change, -probability * mean);
            }
            scores[seen..].fill(0.0);
            changes[seen..].fill(0.0);
        }
    }
}
