//! Adapters: their gradient against the full one and finite differences, and merging.
#![cfg(test)]

mod support;

use rocstar_nn::config::Architecture;
use rocstar_nn::lora::{Adapters, Lora, LoraError};
use rocstar_nn::parameters::{LayerSlot, Parameters, Slot};
use rocstar_nn::step::{
    CrossEntropy, Gradient, Model, Policy, Recompute, StepError, StepOptions, Workspace,
    forward_backward, logits,
};
use support::{Pack, formula_model, odd_config, relative_error};

const ALL: [LayerSlot; 7] = [
    LayerSlot::Query,
    LayerSlot::Key,
    LayerSlot::Value,
    LayerSlot::Output,
    LayerSlot::Gate,
    LayerSlot::Up,
    LayerSlot::Down,
];

fn lora(targets: &[LayerSlot]) -> Lora {
    Lora { rank: 3, alpha: 5.0, targets: targets.to_vec() }
}

/// Adapters whose two matrices are both not zero.
fn adapters(model: &Model, targets: &[LayerSlot]) -> Adapters {
    let mut adapters = Adapters::random(&model.config, lora(targets), 5).unwrap();
    for (at, value) in adapters.values_mut().iter_mut().enumerate() {
        *value += 0.1 * (at as f32 * 0.77).sin();
    }
    adapters
}

fn gradient(model: &Model, adapters: &Adapters, pack: &Pack) -> (f64, Adapters) {
    let mut gradient = adapters.zeros_like();
    let mut objective = CrossEntropy::new(pack.count() as f64);
    forward_backward(
        Policy::adapted(model, adapters),
        pack.packed(),
        StepOptions { recompute: Recompute::Layers, ..StepOptions::default() },
        &mut objective,
        Gradient::Adapters(&mut gradient),
        &mut Workspace::new(),
    )
    .unwrap();
    (objective.loss(), gradient)
}

#[test]
fn fresh_adapters_change_nothing() {
    let model = formula_model(odd_config(Architecture::Llama, true));
    let pack = Pack::new(&[9, 4]);
    let fresh = Adapters::random(&model.config, lora(&ALL), 1).unwrap();
    let mut workspace = Workspace::new();
    let base = logits(Policy::new(&model), pack.packed(), &mut workspace).unwrap();
    let adapted = Policy::adapted(&model, &fresh);
    assert_eq!(logits(adapted, pack.packed(), &mut workspace).unwrap(), base);
}

#[test]
fn merging_equals_the_adapters() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        for targets in [&ALL[..], &[LayerSlot::Key, LayerSlot::Up]] {
            let model = formula_model(odd_config(architecture, true));
            let adapters = adapters(&model, targets);
            let pack = Pack::new(&[9, 14]);
            let policy = Policy::adapted(&model, &adapters);
            let expected = logits(policy, pack.packed(), &mut Workspace::new()).unwrap();
            let base = Policy::new(&model);
            let base = logits(base, pack.packed(), &mut Workspace::new()).unwrap();
            let mut merged = model.clone();
            adapters.merge(&mut merged.parameters);
            let merged = Policy::new(&merged);
            let merged = logits(merged, pack.packed(), &mut Workspace::new()).unwrap();
            assert!(relative_error(&merged, &expected) < 1e-5);
            assert!(relative_error(&base, &expected) > 1e-2);
        }
    }
}

/// With `W' = W + s·B·A`: `dB = s·dW'·Aᵀ` and `dA = s·Bᵀ·dW'`, where dW' is the full gradient of the
/// merged model.
#[test]
fn gradients_are_the_full_gradient_seen_through_the_pair() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let model = formula_model(odd_config(architecture, false));
        let adapters = adapters(&model, &ALL);
        let pack = Pack::new(&[9, 14]);
        let (loss, found) = gradient(&model, &adapters, &pack);
        let mut merged = model.clone();
        adapters.merge(&mut merged.parameters);
        let mut full = Parameters::zeros(model.parameters.layout().clone());
        let mut objective = CrossEntropy::new(pack.count() as f64);
        forward_backward(
            Policy::new(&merged),
            pack.packed(),
            StepOptions::default(),
            &mut objective,
            Gradient::Full(&mut full),
            &mut Workspace::new(),
        )
        .unwrap();
        assert!((loss - objective.loss()).abs() < 1e-5);
        let (rank, scale) = (3, adapters.lora().scale());
        for pair in adapters.pairs() {
            let weight = full.slot(Slot::Layer(pair.layer, pair.slot));
            let down = &adapters.values()[pair.down.clone()];
            let up = &adapters.values()[pair.up.clone()];
            let (mut d_down, mut d_up) = (vec![0.0; down.len()], vec![0.0; up.len()]);
            for output in 0..pair.outputs {
                for input in 0..pair.inputs {
                    let slope = scale * weight[output * pair.inputs + input];
                    for inner in 0..rank {
                        d_up[output * rank + inner] += slope * down[inner * pair.inputs + input];
                        d_down[inner * pair.inputs + input] += slope * up[output * rank + inner];
                    }
                }
            }
            assert!(relative_error(&found.values()[pair.down.clone()], &d_down) < 3e-5);
            assert!(relative_error(&found.values()[pair.up.clone()], &d_up) < 3e-5);
        }
    }
}

#[test]
fn gradients_equal_finite_differences() {
    let model = formula_model(odd_config(Architecture::Qwen3, true));
    let mut adapters = adapters(&model, &ALL);
    let pack = Pack::new(&[9, 14]);
    let (_, found) = gradient(&model, &adapters, &pack);
    let norm = found.values().iter().map(|slope| f64::from(*slope).powi(2)).sum::<f64>().sqrt();
    let before = adapters.values().to_vec();
    let mut moved = |by: f64| {
        let values = adapters.values_mut().iter_mut().zip(&before).zip(found.values());
        for ((value, before), slope) in values {
            *value = (f64::from(*before) + by * f64::from(*slope)) as f32;
        }
        gradient(&model, &adapters, &pack).0
    };
    let step = 3e-3 / norm;
    let slope = (moved(step) - moved(-step)) / (2.0 * step);
    assert!((slope - norm * norm).abs() < 0.01 * norm * norm, "{slope} {}", norm * norm);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let config = odd_config(Architecture::Llama, true);
    let zeros = |lora| Adapters::zeros(&config, lora).unwrap_err();
    assert_eq!(zeros(Lora { rank: 0, ..lora(&ALL) }), LoraError::NoRank);
    assert_eq!(zeros(lora(&[])), LoraError::NoTargets);
    let slot = LayerSlot::AttentionNorm;
    assert_eq!(zeros(lora(&[slot])), LoraError::NotMatrix { slot });
    let model = formula_model(config);
    let adapters = adapters(&model, &ALL);
    let pack = Pack::new(&[4]);
    let mut full = Parameters::zeros(model.parameters.layout().clone());
    let refused = forward_backward(
        Policy::adapted(&model, &adapters),
        pack.packed(),
        StepOptions::default(),
        &mut CrossEntropy::new(1.0),
        Gradient::Full(&mut full),
        &mut Workspace::new(),
    );
    assert_eq!(refused, Err(StepError::GradientOfAnotherPolicy));
}
