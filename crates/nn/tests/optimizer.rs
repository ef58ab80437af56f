//! AdamW and clipping against torch's values, and the state through its bytes.
#![cfg(test)]

use proptest::prelude::*;
use rocstar_nn::config::ModelConfig;
use rocstar_nn::optimizer::{AdamW, AdamWOptions, StateError, clip_scale, global_norm};
use rocstar_nn::parameters::Layout;

/// One matrix of `2 · vocabulary` values, one norm of 2.
fn layout(vocabulary_size: usize) -> Layout {
    Layout::new(&ModelConfig { vocabulary_size, hidden_size: 2, layers: 0, ..ModelConfig::tiny() })
}

const OPTIONS: AdamWOptions =
    AdamWOptions { beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weight_decay: 0.1 };

/// What `reference/optimizer.py` prints: the norm before clipping, then the weights.
const STEPS: [(f64, [f64; 6]); 4] = [
    (
        5.236_779_812,
        [0.497_500_000, -1.044_999_948, 1.940_000_048, 0.198_750_309, 1.049_999_942, 1.549_999_954],
    ),
    (
        5.303_444_163,
        [0.456_223_001, -1.089_887_074, 1.892_823_921, 0.230_141_954, 1.100_166_040, 1.591_517_085],
    ),
    (
        5.063_451_564,
        [0.409_180_063, -1.125_090_806, 1.885_992_748, 0.270_912_360, 1.144_131_686, 1.596_109_253],
    ),
    (
        5.196_788_730,
        [0.368_930_136, -1.127_895_759, 1.899_171_866, 0.308_557_763, 1.157_745_224, 1.577_287_254],
    ),
];

#[test]
fn equals_torch() {
    let mut optimizer = AdamW::for_parameters(&layout(2), OPTIONS);
    let mut values = [0.5, -1.0, 2.0, 0.25, 1.0, 1.5];
    for (step, (norm, expected)) in STEPS.into_iter().enumerate() {
        let slope = |at: usize| (3.0 * ((step + at) as f64).sin()) as f32;
        let mut gradient: Vec<f32> = (0..6).map(slope).collect();
        let found = global_norm(&gradient);
        assert!((found - norm).abs() < 1e-6);
        optimizer.step(&mut values, &mut gradient, 0.05, clip_scale(found, 2.0));
        assert_eq!(gradient, [0.0; 6]);
        for (value, expected) in values.iter().zip(expected) {
            assert!((f64::from(*value) - expected).abs() < 1e-6, "{value} {expected}");
        }
    }
    assert_eq!(optimizer.steps(), 4);
}

#[test]
fn clipping_shortens_only_what_is_too_long_and_hides_nothing() {
    assert_eq!(clip_scale(0.5, 1.0), 1.0);
    assert_eq!(clip_scale(0.0, 1.0), 1.0);
    assert!((clip_scale(4.0, 1.0) - 0.25).abs() < 1e-6);
    assert!(clip_scale(f64::NAN, 1.0).is_nan());
}

fn stepped(vocabulary_size: usize, steps: usize) -> (AdamW, Vec<f32>) {
    let layout = layout(vocabulary_size);
    let mut optimizer = AdamW::for_parameters(&layout, OPTIONS);
    let mut values = vec![1.0; layout.len()];
    for step in 0..steps {
        let slope = |at: usize| ((step + 3 * at) as f32).sin();
        let mut gradient: Vec<f32> = (0..layout.len()).map(slope).collect();
        optimizer.step(&mut values, &mut gradient, 0.01, 0.5);
    }
    (optimizer, values)
}

#[test]
fn threads_do_not_change_a_bit() {
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (optimizer, values) = stepped(100_000, 2);
            (optimizer, global_norm(&values), values)
        })
    };
    assert_eq!(with(1), with(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_state_survives_its_bytes(vocabulary_size in 1..50_usize, steps in 0..4_usize) {
        let (optimizer, _) = stepped(vocabulary_size, steps);
        let mut bytes = Vec::new();
        optimizer.write_state(&mut bytes).unwrap();
        let mut read = AdamW::for_parameters(&layout(vocabulary_size), OPTIONS);
        read.read_state(&mut bytes.as_slice()).unwrap();
        prop_assert_eq!(read, optimizer);
    }

    #[test]
    fn a_changed_state_is_refused(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let (optimizer, _) = stepped(10, 1);
        let mut bytes = Vec::new();
        optimizer.write_state(&mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let mut read = AdamW::for_parameters(&layout(10), OPTIONS);
        prop_assert!(read.read_state(&mut bytes.as_slice()).is_err());
    }
}

#[test]
fn a_state_of_another_model_or_a_short_one_is_refused() {
    let (optimizer, _) = stepped(10, 1);
    let mut bytes = Vec::new();
    optimizer.write_state(&mut bytes).unwrap();
    let mut other = AdamW::for_parameters(&layout(11), OPTIONS);
    assert!(matches!(
        other.read_state(&mut bytes.as_slice()),
        Err(StateError::Length { found: 22, expected: 24 })
    ));
    let mut read = AdamW::for_parameters(&layout(10), OPTIONS);
    assert!(matches!(read.read_state(&mut &bytes[..60]), Err(StateError::Io(_))));
    assert!(matches!(read.read_state(&mut &[7; 80][..]), Err(StateError::Magic)));
}
