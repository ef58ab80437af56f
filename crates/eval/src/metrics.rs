//! Figures from scores: means with their errors, pass@k, cons@k, rates.
//!
//! Pure functions over numbers. Invariants: each problem weighs the same, however many samples it
//! has; errors are clustered by problem, since samples of one problem are no independent draws of
//! the suite; what can't be said (an error from one problem, a rate of nothing) is absent, not 0.

mod consensus;
mod figures;

use serde::{Deserialize, Serialize};

pub use consensus::{Votes, cons_at};
pub use figures::{Category, Figures, Outcome, Prices, Same, Sampled, Spent, figures, spent};

/// A mean over problems, with the standard error that the choice of problems and samples gives it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Standard error; `None` for fewer than two problems.
    pub standard_error: Option<f64>,
}

/// A figure that depends on how many samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AtK {
    /// How many.
    pub k: usize,
    /// The figure.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl Estimate {
    /// The mean of one number a problem. The error is the deviation of the problems' numbers over the
    /// root of their count: with the same samples for every problem that is the error clustered by
    /// problem, and holds both what problems differ in and what samples of one differ in.
    /// `None` without problems.
    pub fn of(problems: &[f64]) -> Option<Self> {
        if problems.is_empty() {
            return None;
        }
        let count = problems.len() as f64;
        let value = problems.iter().sum::<f64>() / count;
        let squares: f64 = problems.iter().map(|number| (number - value).powi(2)).sum();
        let variance = squares / (count - 1.0) / count;
        let standard_error = (problems.len() > 1).then(|| variance.sqrt());
        Some(Self { value, standard_error })
    }

    /// avg@k: the mean over problems of each problem's mean. Problems without samples don't count.
    pub fn of_samples(problems: &[impl AsRef<[f64]>]) -> Option<Self> {
        let sampled = problems.iter().map(AsRef::as_ref).filter(|samples| !samples.is_empty());
        let means: Vec<f64> =
            sampled.map(|samples| samples.iter().sum::<f64>() / samples.len() as f64).collect();
        Self::of(&means)
    }
}

/// The value that this share of the sorted values, at least one, lies below; between two neighbours
/// in proportion, as NumPy's `quantile` has it.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// pass@k of one problem: the chance that `k` of its `samples`, drawn without putting back, hold a
/// right one. The mean over draws of k new samples, without bias (Chen et al. 2021, equation 1).
/// `None` where there are fewer than `k` samples, or `k` is 0.
pub fn pass_at(k: usize, samples: usize, right: usize) -> Option<f64> {
    if k == 0 || k > samples || right > samples {
        return None;
    }
    // 1 − C(n−c, k) / C(n, k), as a product that no binomial overflows.
    let wrong = samples - right;
    let all_wrong =
        (0..k).map(|drawn| wrong.saturating_sub(drawn) as f64 / (samples - drawn) as f64);
    Some(1.0 - all_wrong.product::<f64>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All subsets of `n` things, as bits, with `k` members.
    fn subsets(n: usize, k: usize) -> impl Iterator<Item = u32> {
        (0..1_u32 << n).filter(move |set| set.count_ones() as usize == k)
    }

    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_right_one() {
        for n in 1..=12 {
            for right in 0..=n {
                for k in 1..=n {
                    let holds = |set: &u32| set & ((1 << right) - 1) != 0;
                    let all = subsets(n, k).count() as f64;
                    let expected = subsets(n, k).filter(holds).count() as f64 / all;
                    let found = pass_at(k, n, right).unwrap();
                    assert!((found - expected).abs() < 1e-12, "{n} {right} {k}: {found}");
                }
            }
        }
    }

    #[test]
    fn values_worked_by_hand() {
        // 1 − C(7,2)/C(10,2) = 1 − 21/45.
        assert!((pass_at(2, 10, 3).unwrap() - 24.0 / 45.0).abs() < 1e-15);
        assert_eq!(pass_at(1, 4, 1), Some(0.25));
        assert_eq!((pass_at(0, 4, 1), pass_at(5, 4, 1), pass_at(1, 0, 0)), (None, None, None));
        // Means 1, 0.5, 0: mean 0.5, deviation 0.5, error 0.5/√3.
        let estimate =
            Estimate::of_samples(&[vec![1.0, 1.0], vec![0.0, 1.0], vec![], vec![0.0]]).unwrap();
        assert_eq!(estimate.value, 0.5);
        assert!((estimate.standard_error.unwrap() - 0.5 / 3.0_f64.sqrt()).abs() < 1e-15);
        assert_eq!(Estimate::of(&[0.25]), Some(Estimate { value: 0.25, standard_error: None }));
        assert_eq!(Estimate::of_samples(&[vec![]]), None);
    }

    /// The textbook's form of the error of a mean whose samples come in clusters of one size: the
    /// root of the sum, over clusters, of the squared sum of deviations, over all samples, with the
    /// usual correction for few clusters.
    fn clustered_error(problems: &[Vec<f64>]) -> f64 {
        let count: f64 = problems.iter().map(|samples| samples.len() as f64).sum();
        let mean = problems.iter().flatten().sum::<f64>() / count;
        let sums = problems
            .iter()
            .map(|samples| samples.iter().map(|sample| sample - mean).sum::<f64>().powi(2));
        let clusters = problems.len() as f64;
        (sums.sum::<f64>() * clusters / (clusters - 1.0)).sqrt() / count
    }

    proptest! {
        #[test]
        fn the_error_is_the_clustered_one(
            (k, problems) in (1_usize..8).prop_flat_map(|k| {
                let problem = prop::collection::vec(0.0_f64..1.0, k);
                (Just(k), prop::collection::vec(problem, 2..20))
            }),
        ) {
            let estimate = Estimate::of_samples(&problems).unwrap();
            let error = estimate.standard_error.unwrap();
            prop_assert!((error - clustered_error(&problems)).abs() < 1e-12, "{k} {error}");
        }

        #[test]
        fn pass_at_k_grows_with_k_and_with_right_ones(n in 1_usize..200, right in 0_usize..200) {
            let right = right.min(n);
            let all: Vec<f64> = (1..=n).map(|k| pass_at(k, n, right).unwrap()).collect();
            prop_assert!((all[0] - right as f64 / n as f64).abs() < 1e-12);
            prop_assert!(all.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12));
            prop_assert_eq!(all[n - 1], if right > 0 { 1.0 } else { 0.0 });
            if right < n {
                let more = (1..=n).map(|k| pass_at(k, n, right + 1).unwrap());
                prop_assert!(all.iter().zip(more).all(|(less, more)| *less <= more + 1e-12));
            }
        }
    }
}
