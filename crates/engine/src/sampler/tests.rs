//! The sampler against its definition in f64, and over many draws.

use proptest::prelude::*;
use rocstar_record::draw::{Key, Purpose};

use super::*;

fn task(sampling: Sampling, position: u64, top: usize) -> Task {
    let key = Key::new(5, Purpose::Sampling);
    Task { row: 0, want: Want::Draw { sampling, key, position }, top }
}

fn run_one(logits: &[f32], task: Task) -> Result<Outcome, NotFinite> {
    let mut outcomes = Vec::new();
    Sampler::new().run(logits, logits.len(), &[task], &mut outcomes);
    outcomes.remove(0)
}

/// The distribution by its definition: probabilities of all tokens, zero where cut off.
fn reference(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let maximum = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let temperature = f64::from(sampling.temperature);
    let weight = |logit: &f32| ((f64::from(*logit) - f64::from(maximum)) / temperature).exp();
    let mut weights: Vec<f64> = logits.iter().map(weight).collect();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|left, right| logits[*right].total_cmp(&logits[*left]).then(left.cmp(right)));
    for cut in order.iter().skip(sampling.top_k.unwrap_or(usize::MAX)) {
        weights[*cut] = 0.0;
    }
    let target = weights.iter().sum::<f64>() * f64::from(sampling.top_p);
    let mut below = 0.0;
    for token in &order {
        if sampling.top_p < 1.0 && below >= target {
            weights[*token] = 0.0;
        }
        below += weights[*token];
    }
    weights.iter_mut().filter(|weight| **weight < f64::from(sampling.min_p)).for_each(|weight| {
        *weight = 0.0;
    });
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Logits on a grid, so that equal ones are common, and no cut falls so near to a border that
/// rounding decides it.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-400..400_i32).prop_map(|value| value as f32 / 32.0), 2..900)
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let top_k = prop::option::of(1..60_usize);
    let top_p = prop_oneof![Just(1.0_f32), 0.01_f32..1.0];
    let min_p = prop_oneof![Just(0.0_f32), 0.0_f32..0.9];
    let temperature = prop_oneof![Just(1.0_f32), 0.2_f32..3.0];
    (temperature, top_k, top_p, min_p).prop_map(|(temperature, top_k, top_p, min_p)| Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
    })
}

proptest! {
    #[test]
    fn the_token_is_where_the_reference_has_it(
        logits in logits(),
        sampling in sampling(),
        position in 0..1000_u64,
    ) {
        let outcome = run_one(&logits, task(sampling, position, 0)).unwrap();
        let probabilities = reference(&logits, &sampling);
        let token = outcome.token as usize;
        let uniform = Key::new(5, Purpose::Sampling).at(position).uniform();
        let below: f64 = probabilities[..token].iter().sum();
        let width = probabilities[token];
        // A border of top-p or min-p that rounding moves changes the kept set by one token.
        let near = 2e-5;
        let borders = [0.999_99, 1.000_01].map(|factor| {
            let top_p = if sampling.top_p < 1.0 { sampling.top_p * factor } else { 1.0 };
            let kept = Sampling { top_p, min_p: sampling.min_p * factor, ..sampling };
            reference(&logits, &kept).iter().filter(|share| **share > 0.0).count()
        });
        prop_assume!(borders[0] == borders[1]);
        prop_assert!(below - near <= uniform && uniform <= below + width + near);
        let expected = width.ln();
        prop_assert!((f64::from(outcome.log_prob) - expected).abs() < 1e-4);
        let model = reference(&logits, &Sampling::default())[token].ln();
        prop_assert!((f64::from(outcome.model_log_prob) - model).abs() < 1e-4);
    }

    #[test]
    fn rows_do_not_know_of_each_other(
        seeds in prop::collection::vec(0..1000_u64, 1..20),
        sampling in sampling(),
    ) {
        // Wide enough to go through threads.
        let vocabulary = 8192;
        let mut logits = Vec::new();
        for seed in &seeds {
            let mut draws = Key::new(*seed, Purpose::Tasks).at(0);
            logits.extend((0..vocabulary).map(|_| draws.uniform() as f32 * 9.0));
        }
        let tasks: Vec<Task> =
            (0..seeds.len()).map(|row| Task { row, ..task(sampling, row as u64, 3) }).collect();
        let mut together = Vec::new();
        let mut sampler = Sampler::new();
        sampler.run(&logits, vocabulary, &tasks, &mut together);
        for (task, outcome) in tasks.iter().zip(&together) {
            let row = &logits[task.row * vocabulary..][..vocabulary];
            prop_assert_eq!(&run_one(row, Task { row: 0, ..*task }), outcome);
        }
    }

    #[test]
    fn the_likeliest_come_in_order(logits in logits(), top in 1..40_usize) {
        let outcome = run_one(&logits, task(Sampling::greedy(), 0, top)).unwrap();
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|left, right| {
            let (a, b) = (logits[*left as usize], logits[*right as usize]);
            b.total_cmp(&a).then(left.cmp(right))
        });
        order.truncate(top);
        let ids: Vec<u32> = outcome.top.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids, order);
        prop_assert_eq!(outcome.top[0], (outcome.token, outcome.model_log_prob));
        prop_assert_eq!(outcome.log_prob, 0.0);
    }

    #[test]
    fn what_is_not_finite_gives_no_token(
        mut logits in logits(),
        place: prop::sample::Index,
        sampling in sampling(),
        bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
    ) {
        let place = place.index(logits.len());
        logits[place] = bad;
        prop_assert_eq!(run_one(&logits, task(sampling, 0, 0)), Err(NotFinite));
    }
}

#[test]
fn of_equal_logits_the_lowest_id_is_the_likeliest() {
    let mut logits = vec![0.0_f32; 700];
    for place in [699, 300, 301] {
        logits[place] = 2.0;
    }
    assert_eq!(run_one(&logits, task(Sampling::greedy(), 0, 0)).unwrap().token, 300);
    let one = Sampling { top_k: Some(1), ..Sampling::default() };
    for position in 0..20 {
        let outcome = run_one(&logits, task(one, position, 0)).unwrap();
        assert_eq!((outcome.token, outcome.log_prob), (300, 0.0));
    }
}

#[test]
fn the_extremes_take_the_likeliest() {
    let logits: Vec<f32> = (0..600).map(|index| (index % 97) as f32 * 0.01).collect();
    let plain = Sampling::default();
    for sampling in [
        Sampling { temperature: f32::MIN_POSITIVE, top_k: Some(1), ..plain },
        Sampling { temperature: 1e-45, top_k: Some(1), ..plain },
        Sampling { top_p: f32::MIN_POSITIVE, ..plain },
        Sampling { min_p: 1.0, top_k: Some(1), ..plain },
    ] {
        for position in 0..10 {
            let outcome = run_one(&logits, task(sampling, position, 0)).unwrap();
            assert_eq!((outcome.token, outcome.log_prob), (96, 0.0), "{sampling:?}");
        }
    }
    // Six tokens are equally likely: near zero the temperature leaves these.
    let cold = Sampling { temperature: 1e-45, ..plain };
    let outcome = run_one(&logits, task(cold, 3, 0)).unwrap();
    assert_eq!(outcome.token % 97, 96);
    assert!((f64::from(outcome.log_prob) + 6.0_f64.ln()).abs() < 1e-6);
    // Hot, all tokens are equally likely.
    let hot = run_one(&logits, task(Sampling { temperature: f32::MAX, ..plain }, 3, 0)).unwrap();
    assert!((f64::from(hot.log_prob) + 600.0_f64.ln()).abs() < 1e-5);
}

/// Pearson's χ² of drawn counts. The seed is fixed, so this can't fail by chance.
#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..40).map(|index| ((index * 7) % 11) as f32 * 0.3).collect();
    let draws = 40_000;
    for sampling in [
        Sampling::default(),
        Sampling { temperature: 0.6, ..Sampling::default() },
        Sampling { temperature: 1.3, top_k: Some(12), ..Sampling::default() },
        Sampling { top_p: 0.7, ..Sampling::default() },
        Sampling { min_p: 0.3, ..Sampling::default() },
    ] {
        let mut counts = vec![0_u32; logits.len()];
        for position in 0..draws {
            counts[run_one(&logits, task(sampling, position, 0)).unwrap().token as usize] += 1;
        }
        let probabilities = reference(&logits, &sampling);
        let kept = probabilities.iter().filter(|probability| **probability > 0.0).count();
        let squares = counts.iter().zip(&probabilities).map(|(count, probability)| {
            let expected = probability * draws as f64;
            if expected == 0.0 {
                assert_eq!(*count, 0, "a token that is cut off was drawn");
                return 0.0;
            }
            (f64::from(*count) - expected).powi(2) / expected
        });
        let statistic: f64 = squares.sum();
        // Mean and deviation of χ², four deviations up.
        let freedom = (kept - 1) as f64;
        assert!(statistic < freedom + 4.0 * (2.0 * freedom).sqrt(), "{statistic} of {freedom}");
    }
}

#[test]
fn a_given_token_has_the_models_own_log_probability() {
    let logits = [0.0_f32, 1.0, 2.0];
    let outcome =
        run_one(&logits, Task { row: 0, want: Want::Given { token: 1 }, top: 1 }).unwrap();
    let expected = 1.0 - (1.0 + 1.0_f64.exp() + 2.0_f64.exp()).ln();
    assert!((f64::from(outcome.model_log_prob) - expected).abs() < 1e-6);
    assert_eq!((outcome.token, outcome.top[0].0), (1, 2));
}
