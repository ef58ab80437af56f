//! The loss against hand-worked values, its derivatives against differences, and its invariance.

#![cfg(test)]

use proptest::prelude::*;
use rocstar_grpo::loss::{LossConfig, LossError, Ratio, Sequence, TokenLosses, sequence_loss};

fn sequence<'s>(new: &'s [f64], old: &'s [f64], advantage: f64) -> Sequence<'s> {
    Sequence {
        log_probs: new,
        old_log_probs: old,
        behaviour_log_probs: None,
        reference_log_probs: None,
        entropies: None,
        advantage,
    }
}

fn one(ratio: f64, advantage: f64, config: &LossConfig) -> TokenLosses {
    sequence_loss(&sequence(&[ratio.ln()], &[0.0], advantage), config, 1.0)
}

#[test]
fn the_clip_stops_what_goes_too_far_and_nothing_else() {
    let config = LossConfig::default();
    // (ratio, advantage, loss, derivative)
    let cases = [
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 1.0, -1.1, -1.1),
        (1.5, 1.0, -1.28, 0.0),
        (1.5, -1.0, 1.5, 1.5),
        (0.5, 1.0, -0.5, -0.5),
        (0.5, -1.0, 0.8, 0.0),
    ];
    for (ratio, advantage, loss, slope) in cases {
        let found = one(ratio, advantage, &config);
        assert!((found.loss - loss).abs() < 1e-12, "{ratio} {advantage}: {found:?}");
        assert!((found.by_log_prob[0] - slope).abs() < 1e-12, "{ratio} {advantage}: {found:?}");
    }
    assert_eq!(one(1.5, 1.0, &config).clipped_high, 1);
    assert_eq!(one(0.5, -1.0, &config).clipped_low, 1);
    assert_eq!(one(1.5, -1.0, &config).clipped_high, 0);
}

#[test]
fn the_dual_clip_bounds_the_loss_of_bad_tokens() {
    let config = LossConfig { dual_clip: Some(3.0), ..LossConfig::default() };
    let found = one(5.0, -1.0, &config);
    assert_eq!((found.loss, found.by_log_prob[0]), (3.0, 0.0));
}

#[test]
fn importance_is_truncated() {
    let config = LossConfig { importance_cap: Some(2.0), ..LossConfig::default() };
    let (new, old, behaviour) = ([-1.0, -1.0], [-1.0, -1.0], [-1.5, -4.0]);
    let tokens = Sequence { behaviour_log_probs: Some(&behaviour), ..sequence(&new, &old, 1.0) };
    let found = sequence_loss(&tokens, &config, 1.0);
    let expected = [-(0.5_f64.exp()), -2.0];
    for (value, expected) in found.by_log_prob.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-12);
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let default = LossConfig::default();
    default.validate().expect("the default works");
    let wrong = [
        ("clip_low", LossConfig { clip_low: -3.0, ..default }),
        ("clip_high", LossConfig { clip_high: f64::NAN, ..default }),
        ("dual_clip", LossConfig { dual_clip: Some(1.0), ..default }),
        ("kl_weight", LossConfig { kl_weight: -0.1, ..default }),
        ("entropy_weight", LossConfig { entropy_weight: f64::INFINITY, ..default }),
        ("importance_cap", LossConfig { importance_cap: Some(0.0), ..default }),
    ];
    for (key, config) in wrong {
        let error = config.validate().expect_err(key);
        assert!(matches!(error, LossError::Setting { setting, .. } if setting == key), "{error}");
    }
}

#[test]
fn what_a_setting_needs_must_be_there() {
    let (new, old) = ([-1.0, -1.0], [-1.0, -1.0]);
    let plain = sequence(&new, &old, 1.0);
    plain.check(&LossConfig::default()).expect("nothing more is needed");
    let config = LossConfig { kl_weight: 0.1, ..LossConfig::default() };
    let lacks = LossError::Lacks { setting: "kl_weight", values: "reference_log_probs" };
    assert_eq!(plain.check(&config), Err(lacks));
    let short = Sequence { reference_log_probs: Some(&old[..1]), ..plain };
    let length = LossError::Length { values: "reference_log_probs", found: 1, tokens: 2 };
    assert_eq!(short.check(&config), Err(length));
}

const RATIOS: [Ratio; 3] = [Ratio::Token, Ratio::Sequence, Ratio::ClippedWeight];

#[derive(Debug, Clone)]
struct Tokens {
    new: Vec<f64>,
    old: Vec<f64>,
    behaviour: Vec<f64>,
    reference: Vec<f64>,
    entropies: Vec<f64>,
    advantage: f64,
}

impl Tokens {
    /// Those before the token `at`, and the others.
    fn split(&self, at: usize) -> [Self; 2] {
        [0..at, at..self.new.len()].map(|range| Self {
            new: self.new[range.clone()].to_vec(),
            old: self.old[range.clone()].to_vec(),
            behaviour: self.behaviour[range.clone()].to_vec(),
            reference: self.reference[range.clone()].to_vec(),
            entropies: self.entropies[range].to_vec(),
            advantage: self.advantage,
        })
    }

    fn sequence(&self) -> Sequence<'_> {
        Sequence {
            log_probs: &self.new,
            old_log_probs: &self.old,
            behaviour_log_probs: Some(&self.behaviour),
            reference_log_probs: Some(&self.reference),
            entropies: Some(&self.entropies),
            advantage: self.advantage,
        }
    }
}

fn tokens() -> impl Strategy<Value = Tokens> {
    let values = |low: f64, high: f64, length| prop::collection::vec(low..high, length);
    (1_usize..8, -2.0_f64..2.0).prop_flat_map(move |(length, advantage)| {
        let log_probs = values(-3.0, -0.1, length);
        (
            log_probs,
            values(-0.5, 0.5, length),
            values(-3.0, -0.1, length),
            values(-3.0, -0.1, length),
            values(0.0, 3.0, length),
        )
            .prop_map(move |(new, shifts, behaviour, reference, entropies)| {
                let old = new.iter().zip(&shifts).map(|(it, shift)| it + shift).collect();
                Tokens { new, old, behaviour, reference, entropies, advantage }
            })
    })
}

fn config() -> impl Strategy<Value = LossConfig> {
    (
        0_usize..3,
        prop::option::of(1.5_f64..4.0),
        0.0_f64..0.2,
        0.0_f64..0.1,
        prop::option::of(1.0_f64..3.0),
    )
        .prop_map(|(ratio, dual_clip, kl_weight, entropy_weight, importance_cap)| LossConfig {
            ratio: RATIOS[ratio],
            dual_clip,
            kl_weight,
            entropy_weight,
            importance_cap,
            ..LossConfig::default()
        })
}

proptest! {
    /// Except at the corners of the clip, where there is no derivative, and under CISPO, whose
    /// weight is a constant by definition.
    #[test]
    fn derivatives_are_those_of_the_loss(tokens in tokens(), config in config()) {
        prop_assume!(config.ratio != Ratio::ClippedWeight);
        let found = sequence_loss(&tokens.sequence(), &config, 7.0);
        let step = 1e-6;
        for index in 0..tokens.new.len() {
            let shifted = |by: f64| {
                let mut moved = tokens.clone();
                moved.new[index] += by;
                sequence_loss(&moved.sequence(), &config, 7.0)
            };
            let (up, down) = (shifted(step), shifted(-step));
            let same_side = up.clipped_high == down.clipped_high && up.clipped_low == down.clipped_low
                && up.by_log_prob.iter().zip(&down.by_log_prob).all(|(a, b)| (a - b).abs() < 1e-4);
            prop_assume!(same_side);
            let slope = (up.loss - down.loss) / (2.0 * step);
            prop_assert!((slope - found.by_log_prob[index]).abs() < 1e-6, "{slope} {found:?}");
        }
    }

    /// The denominator comes from outside, so even the tokens of one rollout may come in several
    /// calls, where the ratio is each token's own.
    #[test]
    fn tokens_may_be_split_over_calls(tokens in tokens(), config in config(), at in 0_usize..8) {
        let whole = sequence_loss(&tokens.sequence(), &config, 7.0);
        if config.ratio != Ratio::Sequence {
            let parts = tokens.split(at.min(tokens.new.len()));
            let [first, second] = parts.map(|it| sequence_loss(&it.sequence(), &config, 7.0));
            prop_assert!((first.loss + second.loss - whole.loss).abs() < 1e-9);
            prop_assert_eq!(
                [first.by_log_prob, second.by_log_prob].concat(),
                whole.by_log_prob.clone()
            );
        }
        // Twice the denominator: half of the loss and of each derivative.
        let halved = sequence_loss(&tokens.sequence(), &config, 14.0);
        prop_assert!((2.0 * halved.loss - whole.loss).abs() < 1e-9);
        for (half, whole) in halved.by_log_prob.iter().zip(&whole.by_log_prob) {
            prop_assert!((2.0 * half - whole).abs() < 1e-12);
        }
    }

    #[test]
    fn a_step_from_the_old_policy_is_the_plain_policy_gradient(tokens in tokens(), which in 0_usize..3) {
        let config = LossConfig { ratio: RATIOS[which], ..LossConfig::default() };
        let mut tokens = tokens;
        tokens.old = tokens.new.clone();
        let found = sequence_loss(&tokens.sequence(), &config, 5.0);
        for slope in found.by_log_prob {
            prop_assert!((slope + tokens.advantage / 5.0).abs() < 1e-12);
        }
        prop_assert_eq!((found.clipped_high, found.clipped_low), (0, 0));
    }
}
