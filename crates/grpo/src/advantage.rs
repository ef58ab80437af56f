//! What a rollout is worth: its reward against those of the others that were kept (equation 7).
//!
//! Invariant: without the deviation's ε, advantages of a group sum to zero; a group whose rewards
//! are all equal, or that has one rollout, is worth nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a reward is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The mean of the group, and divided by its standard deviation (GRPO).
    #[default]
    MeanAndDeviation,
    /// The mean of the group only (Dr. GRPO, arXiv 2503.20783).
    Mean,
    /// The mean of the others (leave-one-out, arXiv 2402.14740).
    LeaveOneOut,
}

/// Settings of the advantages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdvantageConfig {
    /// What a reward is compared with.
    pub baseline: Baseline,
    /// Added to the standard deviation, which divides by n − 1.
    pub epsilon: f64,
}

impl Default for AdvantageConfig {
    fn default() -> Self {
        Self { baseline: Baseline::default(), epsilon: 1e-6 }
    }
}

/// Settings that can't work.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("`epsilon` of the advantages is {0}: it must be a number from 0")]
pub struct BadEpsilon(pub f64);

impl AdvantageConfig {
    /// What is wrong with the settings.
    ///
    /// # Errors
    /// ε is no number from 0.
    pub fn validate(&self) -> Result<(), BadEpsilon> {
        let works = self.epsilon.is_finite() && self.epsilon >= 0.0;
        if works { Ok(()) } else { Err(BadEpsilon(self.epsilon)) }
    }
}

/// The advantages of the rollouts with these rewards, in their order. The paper leaves the kind of
/// deviation open; the one over n − 1 is that of the code that was published with it.
pub fn advantages(rewards: &[f64], config: &AdvantageConfig) -> Vec<f64> {
    let count = rewards.len() as f64;
    // An exact test: the mean of equal rewards need not be equal to them.
    if rewards.len() < 2 || rewards.iter().all(|reward| *reward == rewards[0]) {
        return vec![0.0; rewards.len()];
    }
    let mean = rewards.iter().sum::<f64>() / count;
    let centred = rewards.iter().map(|reward| reward - mean);
    match config.baseline {
        Baseline::Mean => centred.collect(),
        Baseline::LeaveOneOut => centred.map(|it| it * count / (count - 1.0)).collect(),
        Baseline::MeanAndDeviation => {
            let square: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
            let deviation = (square / (count - 1.0)).sqrt();
            centred.map(|it| it / (deviation + config.epsilon)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Baseline; 3] = [Baseline::MeanAndDeviation, Baseline::Mean, Baseline::LeaveOneOut];

    fn config(baseline: Baseline) -> AdvantageConfig {
        AdvantageConfig { baseline, ..AdvantageConfig::default() }
    }

    #[test]
    fn known_values() {
        // numpy: r = [1, 0, 0, 0]; (r - r.mean()) / (r.std(ddof=1) + 1e-6)
        let deviated = advantages(&[1.0, 0.0, 0.0, 0.0], &config(Baseline::MeanAndDeviation));
        let expected =
            [1.499_997_000_006, -0.499_999_000_002, -0.499_999_000_002, -0.499_999_000_002];
        for (value, expected) in deviated.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        }
        assert_eq!(
            advantages(&[1.0, 0.0, 0.0, 0.0], &config(Baseline::Mean)),
            [0.75, -0.25, -0.25, -0.25]
        );
        let others = advantages(&[1.0, 0.0, 0.0, 0.0], &config(Baseline::LeaveOneOut));
        assert!((others[0] - 1.0).abs() < 1e-12 && (others[1] + 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let with = |epsilon| AdvantageConfig { epsilon, ..AdvantageConfig::default() };
        assert_eq!(with(0.0).validate(), Ok(()));
        assert_eq!(with(-1.0).validate(), Err(BadEpsilon(-1.0)));
        assert!(with(f64::NAN).validate().is_err());
    }

    #[test]
    fn equal_rewards_are_worth_nothing() {
        for baseline in ALL {
            assert_eq!(advantages(&[0.1; 7], &config(baseline)), [0.0; 7]);
            assert_eq!(advantages(&[1.0], &config(baseline)), [0.0]);
            assert!(advantages(&[], &config(baseline)).is_empty());
        }
    }

    proptest! {
        #[test]
        fn sum_to_zero(rewards in prop::collection::vec(-10.0_f64..10.0, 2..40), which in 0_usize..3) {
            let sum: f64 = advantages(&rewards, &config(ALL[which])).iter().sum();
            prop_assert!(sum.abs() < 1e-6, "{sum}");
        }
    }
}
