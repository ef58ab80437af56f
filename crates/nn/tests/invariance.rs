//! Loss and gradients don't depend on packing, micro-batches, threads, or recomputation.
#![cfg(test)]

mod support;

use proptest::prelude::*;
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::{
    CrossEntropy, Gradient, Model, Policy, Recompute, StepOptions, Workspace, forward_backward,
    log_probs,
};
use support::{Pack, formula_model, odd_config, relative_error};

fn add_gradient(
    model: &Model,
    pack: &Pack,
    denominator: usize,
    recompute: Recompute,
    gradient: &mut Parameters,
    workspace: &mut Workspace,
) -> f64 {
    let mut objective = CrossEntropy::new(denominator as f64);
    let options = StepOptions { recompute, temperature: 1.0 };
    let gradient = Gradient::Full(gradient);
    let policy = Policy::new(model);
    forward_backward(policy, pack.packed(), options, &mut objective, gradient, workspace).unwrap();
    objective.loss()
}

fn step(model: &Model, packs: &[Pack], threads: usize, recompute: Recompute) -> (f64, Vec<f32>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let denominator = packs.iter().map(Pack::count).sum();
    let mut gradient = Parameters::zeros(model.parameters.layout().clone());
    let mut workspace = Workspace::new();
    let loss = pool.install(|| {
        let mut one =
            |pack| add_gradient(model, pack, denominator, recompute, &mut gradient, &mut workspace);
        packs.iter().map(&mut one).sum()
    });
    (loss, gradient.values().to_vec())
}

/// Large enough that products use several threads, sequences longer than a block of attention.
fn wide_model(architecture: Architecture) -> Model {
    let config = ModelConfig {
        hidden_size: 96,
        head_size: 16,
        feed_forward_size: 200,
        ..odd_config(architecture, true)
    };
    let mut model = formula_model(config);
    for value in model.parameters.values_mut() {
        *value *= 0.4;
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn micro_batches_and_order_do_not_matter(
        lengths in proptest::collection::vec(1..90_usize, 2..6),
        cut in 1..5_usize,
    ) {
        let model = formula_model(odd_config(Architecture::Qwen3, true));
        let pack = Pack::new(&lengths);
        prop_assume!(pack.count() > 0);
        let all: Vec<usize> = (0..lengths.len()).collect();
        let (loss, gradient) = step(&model, &[pack.pick(&all)], 1, Recompute::None);
        let mut packs = vec![pack.pick(&all[cut.min(all.len() - 1)..])];
        packs.extend(all[..cut.min(all.len() - 1)].iter().rev().map(|at| pack.pick(&[*at])));
        let (split_loss, split_gradient) = step(&model, &packs, 1, Recompute::None);
        prop_assert!((loss - split_loss).abs() < 1e-5, "{loss} {split_loss}");
        let error = relative_error(&gradient, &split_gradient);
        prop_assert!(error < 1e-5, "{error}");
    }
}

#[test]
fn threads_change_nothing_and_repetition_not_a_bit() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let model = wide_model(architecture);
        let packs = [Pack::new(&[700, 130, 3, 64])];
        let one = step(&model, &packs, 1, Recompute::None);
        for threads in [2, 3] {
            let some = step(&model, &packs, threads, Recompute::None);
            assert!((one.0 - some.0).abs() < 1e-6);
            assert!(relative_error(&one.1, &some.1) < 1e-5);
            assert_eq!(some, step(&model, &packs, threads, Recompute::None));
        }
    }
}

#[test]
fn recomputation_gives_the_same_bits() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let model = wide_model(architecture);
        let packs = [Pack::new(&[200, 33]), Pack::new(&[65])];
        let kept = step(&model, &packs, 2, Recompute::None);
        assert_eq!(kept, step(&model, &packs, 2, Recompute::Layers));
    }
}

#[test]
fn a_workspace_can_be_used_for_packs_of_any_size_and_purpose() {
    let model = wide_model(Architecture::Qwen3);
    let (small, large) = (Pack::new(&[20]), Pack::new(&[100, 31]));
    let mut workspace = Workspace::new();
    let gradient = |pack: &Pack, workspace: &mut Workspace| {
        let mut gradient = Parameters::zeros(model.parameters.layout().clone());
        add_gradient(&model, pack, 1, Recompute::None, &mut gradient, workspace);
        gradient
    };
    let first = gradient(&small, &mut workspace);
    gradient(&large, &mut workspace);
    let policy = Policy::new(&model);
    let values = log_probs(policy, large.packed(), 1.0, &mut workspace).unwrap();
    assert_eq!(values, log_probs(policy, large.packed(), 1.0, &mut Workspace::new()).unwrap());
    assert_eq!(first, gradient(&small, &mut workspace));
}

#[test]
fn sequences_of_a_pack_do_not_see_each_other() {
    let model = wide_model(Architecture::Llama);
    let pack = Pack::new(&[80, 40]);
    let mut changed = Pack::new(&[80, 40]);
    for token in &mut changed.tokens[..80] {
        *token = (*token + 17) % 53;
    }
    let of = |pack: &Pack| {
        log_probs(Policy::new(&model), pack.packed(), 1.0, &mut Workspace::new()).unwrap()
    };
    let (before, after) = (of(&pack), of(&changed));
    assert_eq!(before.log_probs[80..], after.log_probs[80..]);
    assert_ne!(before.log_probs[..80], after.log_probs[..80]);
}
