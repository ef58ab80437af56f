//! What is minimised: the clipped surrogate of equation 6, token by token, with its derivative.
//!
//! This is the reference, in float64 and over plain slices. The trainer hands each token's
//! log-probability through it and carries the derivative back through the network, so the formula
//! exists once.
//!
//! Invariant: one denominator for all tokens of a step. It comes in from outside; splitting the
//! sequences over calls therefore changes neither the sum nor any derivative.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the clip applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ratio {
    /// Each token's probability ratio (GRPO, equation 6).
    #[default]
    Token,
    /// The geometric mean over the sequence, the same for all its tokens (GSPO, arXiv 2507.18071).
    Sequence,
    /// Each token's clipped ratio as a constant weight of its log-probability (CISPO,
    /// arXiv 2506.13585).
    ClippedWeight,
}

/// Settings of the loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LossConfig {
    /// What the clip applies to.
    pub ratio: Ratio,
    /// ε_low: the ratio counts down to 1 − ε_low.
    pub clip_low: f64,
    /// ε_high: the ratio counts up to 1 + ε_high.
    pub clip_high: f64,
    /// Bound on the loss of tokens with negative advantage, as a multiple of it (dual clip); none by
    /// default.
    pub dual_clip: Option<f64>,
    /// Weight of the divergence from the reference policy; 0 leaves it out.
    pub kl_weight: f64,
    /// Weight of the entropy, which is made larger; 0 leaves it out.
    pub entropy_weight: f64,
    /// Largest weight that corrects for sampling with another policy than the old one (truncated
    /// importance sampling); none by default.
    pub importance_cap: Option<f64>,
}

impl Default for LossConfig {
    fn default() -> Self {
        Self {
            ratio: Ratio::Token,
            clip_low: 0.2,
            clip_high: 0.28,
            dual_clip: None,
            kl_weight: 0.0,
            entropy_weight: 0.0,
            importance_cap: None,
        }
    }
}

/// Settings of the loss that can't work, or a sequence that doesn't fit them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LossError {
    /// A value that can't work.
    #[error("`{setting}` is {value}: it must be {wanted}")]
    Setting {
        /// Its key.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        wanted: &'static str,
    },
    /// A setting needs values that the sequence doesn't have.
    #[error("`{setting}` is set, and the sequence has no `{values}`")]
    Lacks {
        /// The setting's key.
        setting: &'static str,
        /// What is missing.
        values: &'static str,
    },
    /// Values of a sequence are more or fewer than its tokens.
    #[error("the sequence has {found} `{values}` for {tokens} tokens")]
    Length {
        /// Which values.
        values: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        tokens: usize,
    },
}

impl LossConfig {
    /// What is wrong with the settings.
    ///
    /// # Errors
    /// The first value that can't work.
    pub fn validate(&self) -> Result<(), LossError> {
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let dual_clip = self.dual_clip.unwrap_or(f64::INFINITY);
        let cap = self.importance_cap.unwrap_or(f64::INFINITY);
        let settings = [
            ("clip_low", self.clip_low, (0.0..=1.0).contains(&self.clip_low), "from 0 to 1"),
            ("clip_high", self.clip_high, not_negative(self.clip_high), "at least 0"),
            ("dual_clip", dual_clip, dual_clip > 1.0, "above 1"),
            ("kl_weight", self.kl_weight, not_negative(self.kl_weight), "at least 0"),
            ("entropy_weight", self.entropy_weight, self.entropy_weight.is_finite(), "a number"),
            ("importance_cap", cap, cap > 0.0, "above 0"),
        ];
        match settings.into_iter().find(|(_, _, works, _)| !works) {
            Some((setting, value, _, wanted)) => Err(LossError::Setting { setting, value, wanted }),
            None => Ok(()),
        }
    }
}

/// The tokens of one rollout that the policy wrote, in order; all slices have that length.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'s> {
    /// log π_θ: under the weights that are trained.
    pub log_probs: &'s [f64],
    /// log π_old: under the weights before this step.
    pub old_log_probs: &'s [f64],
    /// log-probabilities recorded when sampling; used with [`LossConfig::importance_cap`].
    pub behaviour_log_probs: Option<&'s [f64]>,
    /// log π_ref; used with [`LossConfig::kl_weight`].
    pub reference_log_probs: Option<&'s [f64]>,
    /// Entropy of each token's distribution; used with [`LossConfig::entropy_weight`].
    pub entropies: Option<&'s [f64]>,
    /// The rollout's advantage.
    pub advantage: f64,
}

impl Sequence<'_> {
    /// Whether the sequence has what the settings need, so that none of them is without effect.
    ///
    /// # Errors
    /// The first values that are missing, or that aren't one a token.
    pub fn check(&self, config: &LossConfig) -> Result<(), LossError> {
        let needs = [
            ("importance_cap", config.importance_cap.is_some(), self.behaviour_log_probs),
            ("kl_weight", config.kl_weight != 0.0, self.reference_log_probs),
            ("entropy_weight", config.entropy_weight != 0.0, self.entropies),
        ];
        let names = ["behaviour_log_probs", "reference_log_probs", "entropies"];
        let tokens = self.log_probs.len();
        let length = |values, slice: &[f64]| match slice.len() {
            found if found == tokens => Ok(()),
            found => Err(LossError::Length { values, found, tokens }),
        };
        length("old_log_probs", self.old_log_probs)?;
        for ((setting, is_set, slice), values) in needs.into_iter().zip(names) {
            match slice {
                Some(slice) => length(values, slice)?,
                None if is_set => return Err(LossError::Lacks { setting, values }),
                None => {}
            }
        }
        Ok(())
    }
}

/// The loss of some tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenLosses {
    /// Sum of their losses over the denominator.
    pub loss: f64,
    /// Derivative of the loss by each log-probability.
    pub by_log_prob: Vec<f64>,
    /// Derivative of the loss by each entropy.
    pub by_entropy: Vec<f64>,
    /// Tokens whose ratio was above the clip and counted no more.
    pub clipped_high: usize,
    /// Tokens whose ratio was below the clip and counted no more.
    pub clipped_low: usize,
}

/// The loss of one rollout's tokens. `denominator` is the number of tokens of all rollouts of the
/// step. Settings and sequence are expected to have passed [`LossConfig::validate`] and
/// [`Sequence::check`]; what the sequence lacks is left out of the loss.
///
/// # Panics
/// Where slices are shorter than the tokens, or `clip_low` and `clip_high` cross.
pub fn sequence_loss(
    sequence: &Sequence<'_>,
    config: &LossConfig,
    denominator: f64,
) -> TokenLosses {
    let mut total = TokenLosses::default();
    let length = sequence.log_probs.len();
    let mean_log_ratio = mean_difference(sequence.log_probs, sequence.old_log_probs);
    let mean_lag = sequence
        .behaviour_log_probs
        .map_or(0.0, |behaviour| mean_difference(sequence.old_log_probs, behaviour));
    for index in 0..length {
        let log_ratio = match config.ratio {
            Ratio::Token | Ratio::ClippedWeight => {
                sequence.log_probs[index] - sequence.old_log_probs[index]
            }
            Ratio::Sequence => mean_log_ratio,
        };
        let surrogate =
            Surrogate::of(log_ratio.exp(), sequence.log_probs[index], sequence.advantage, config);
        let weight = importance(sequence, index, mean_lag, config);
        let (kl, kl_slope) = divergence(sequence, index, config);
        let entropy = sequence.entropies.map_or(0.0, |it| it[index]);
        total.loss +=
            (weight * surrogate.loss + kl - config.entropy_weight * entropy) / denominator;
        // The derivative of a sequence's mean is shared among its tokens, and each of its tokens
        // has the same loss: the shares add up to that of one token.
        total.by_log_prob.push((weight * surrogate.slope + kl_slope) / denominator);
        total.by_entropy.push(-config.entropy_weight / denominator);
        total.clipped_high += usize::from(surrogate.clip == Clip::High);
        total.clipped_low += usize::from(surrogate.clip == Clip::Low);
    }
    total
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clip {
    None,
    High,
    Low,
}

/// The surrogate of one token and its derivative by the log-probability.
struct Surrogate {
    loss: f64,
    slope: f64,
    clip: Clip,
}

impl Surrogate {
    fn of(ratio: f64, log_prob: f64, advantage: f64, config: &LossConfig) -> Self {
        let clipped = ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high);
        let outside = match ratio.total_cmp(&clipped) {
            std::cmp::Ordering::Greater => Clip::High,
            std::cmp::Ordering::Less => Clip::Low,
            std::cmp::Ordering::Equal => Clip::None,
        };
        if config.ratio == Ratio::ClippedWeight {
            let slope = -clipped * advantage;
            return Self { loss: slope * log_prob, slope, clip: outside };
        }
        let (plain, bounded) = (-ratio * advantage, -clipped * advantage);
        if bounded > plain {
            return Self { loss: bounded, slope: 0.0, clip: outside };
        }
        match config.dual_clip {
            Some(bound) if advantage < 0.0 && plain > -bound * advantage => {
                Self { loss: -bound * advantage, slope: 0.0, clip: Clip::High }
            }
            _ => Self { loss: plain, slope: plain, clip: Clip::None },
        }
    }
}

/// min(π_old / π_behaviour, cap), a constant; where the ratio is the whole sequence's, from the mean
/// of its logarithm over the sequence, `mean_lag`.
fn importance(sequence: &Sequence<'_>, index: usize, mean_lag: f64, config: &LossConfig) -> f64 {
    let (Some(cap), Some(behaviour)) = (config.importance_cap, sequence.behaviour_log_probs) else {
        return 1.0;
    };
    let log_ratio = match config.ratio {
        Ratio::Token | Ratio::ClippedWeight => sequence.old_log_probs[index] - behaviour[index],
        Ratio::Sequence => mean_lag,
    };
    log_ratio.exp().min(cap)
}

fn mean_difference(left: &[f64], right: &[f64]) -> f64 {
    let sum: f64 = left.iter().zip(right).map(|(left, right)| left - right).sum();
    sum / left.len().max(1) as f64
}

/// The estimate r − ln r − 1 with r = π_ref / π_θ (Schulman's k3), and its derivative.
fn divergence(sequence: &Sequence<'_>, index: usize, config: &LossConfig) -> (f64, f64) {
    match sequence.reference_log_probs {
        Some(reference) if config.kl_weight != 0.0 => {
            let log_ratio = reference[index] - sequence.log_probs[index];
            let ratio = log_ratio.exp();
            (config.kl_weight * (ratio - log_ratio - 1.0), config.kl_weight * (1.0 - ratio))
        }
        _ => (0.0, 0.0),
    }
}
