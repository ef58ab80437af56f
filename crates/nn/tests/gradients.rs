//! Logits and gradients against values that transformers computed in float64, and against finite
//! differences.
#![cfg(test)]

mod support;

use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::{
    CrossEntropy, Gradient, Model, Objective, Policy, StepError, StepOptions, Workspace,
    forward_backward, log_probs, logits,
};
use serde_json::Value;
use support::{Pack, formula_model, odd_config};

fn llama3_scaling() -> RopeScaling {
    RopeScaling::Llama3 {
        factor: 4.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 3.0,
        original_context_tokens: 16,
    }
}

fn reference_config(name: &str) -> ModelConfig {
    let rope = |theta, scaling| Rope { theta, scaling };
    match name {
        "llama_tied" => ModelConfig {
            heads: 4,
            head_size: 6,
            norm_epsilon: 1e-5,
            rope: rope(100.0, RopeScaling::None),
            ..odd_config(Architecture::Llama, true)
        },
        "llama3_untied" => ModelConfig {
            heads: 3,
            key_value_heads: 1,
            head_size: 8,
            rope: rope(500.0, llama3_scaling()),
            ..odd_config(Architecture::Llama, false)
        },
        "qwen2" => odd_config(Architecture::Qwen2, true),
        _ => ModelConfig {
            key_value_heads: 3,
            head_size: 10,
            ..odd_config(Architecture::Qwen3, false)
        },
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn gradient_of(model: &Model, pack: &Pack, options: StepOptions) -> (f64, Parameters) {
    let mut gradient = Parameters::zeros(model.parameters.layout().clone());
    let mut objective = CrossEntropy::new(pack.count() as f64);
    forward_backward(
        Policy::new(model),
        pack.packed(),
        options,
        &mut objective,
        Gradient::Full(&mut gradient),
        &mut Workspace::new(),
    )
    .unwrap();
    (objective.loss(), gradient)
}

fn compare(name: &str) {
    let all: Value = serde_json::from_str(include_str!("reference/gradients.json")).unwrap();
    let expected = &all[name];
    let model = formula_model(reference_config(name));
    let pack = Pack::new(&[9, 1, 14]);
    assert_eq!(pack.count() as u64, expected["targets"].as_u64().unwrap());
    let found = logits(Policy::new(&model), pack.packed(), &mut Workspace::new()).unwrap();
    let expected_logits = expected["logits"].as_array().unwrap();
    let found = &found[8 * 53..];
    assert_eq!(found.len(), expected_logits.len());
    for (found, expected) in found.iter().zip(expected_logits) {
        assert!((f64::from(*found) - number(expected)).abs() < 3e-5, "{found} {expected}");
    }
    let (loss, gradient) = gradient_of(&model, &pack, StepOptions::default());
    assert!((loss - number(&expected["loss"])).abs() < 1e-5);
    let layout = gradient.layout();
    assert_eq!(layout.tensors().len(), expected["gradients"].as_object().unwrap().len());
    for tensor in layout.tensors() {
        let expected = &expected["gradients"][&tensor.name];
        let values = &gradient.values()[tensor.range.clone()];
        let norm = number(&expected["squares"]).sqrt();
        let tolerance = 2e-5 * norm + 1e-8;
        let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
        assert!((squares.sqrt() - norm).abs() < tolerance, "{} {squares} {norm}", tensor.name);
        let sum: f64 = values.iter().map(|value| f64::from(*value)).sum();
        let count = values.len() as f64;
        let difference = (sum - number(&expected["sum"])).abs();
        assert!(difference < tolerance * count.sqrt(), "{} {difference}", tensor.name);
        for entry in expected["entries"].as_array().unwrap() {
            let at = entry[0].as_u64().unwrap() as usize;
            let difference = (f64::from(values[at]) - number(&entry[1])).abs();
            assert!(difference < tolerance, "{}[{at}] {difference} {tolerance}", tensor.name);
        }
    }
}

#[test]
fn llama_equals_the_reference() {
    compare("llama_tied");
}

#[test]
fn llama_3_with_an_untied_head_equals_the_reference() {
    compare("llama3_untied");
}

#[test]
fn qwen_2_equals_the_reference() {
    compare("qwen2");
}

#[test]
fn qwen_3_equals_the_reference() {
    compare("qwen3");
}

/// Weighs log-probabilities and entropies unevenly.
struct Uneven {
    loss: f64,
}

impl Uneven {
    fn weights(position: usize) -> (f32, f32) {
        ((position as f32 * 0.9).sin(), 0.4 * (position as f32 * 0.5).cos())
    }
}

impl Objective for Uneven {
    fn rows(
        &mut self,
        positions: &[usize],
        log_probs: &[f32],
        entropies: &[f32],
        d_log_probs: &mut [f32],
        d_entropies: &mut [f32],
    ) {
        for (row, position) in positions.iter().enumerate() {
            let (by_log_prob, by_entropy) = Self::weights(*position);
            d_log_probs[row] = by_log_prob;
            d_entropies[row] = by_entropy;
            self.loss += f64::from(by_log_prob) * f64::from(log_probs[row])
                + f64::from(by_entropy) * f64::from(entropies[row]);
        }
    }
}

#[test]
fn log_probabilities_and_entropies_change_as_finite_differences_say() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let mut model = formula_model(odd_config(architecture, true));
        let pack = Pack::new(&[7, 12]);
        let options = StepOptions { temperature: 0.7, ..StepOptions::default() };
        let mut gradient = Parameters::zeros(model.parameters.layout().clone());
        let mut objective = Uneven { loss: 0.0 };
        let mut workspace = Workspace::new();
        let target = Gradient::Full(&mut gradient);
        forward_backward(
            Policy::new(&model),
            pack.packed(),
            options,
            &mut objective,
            target,
            &mut workspace,
        )
        .unwrap();
        let mut loss = |model: &Model| {
            let all = log_probs(Policy::new(model), pack.packed(), 0.7, &mut workspace).unwrap();
            let rows = all.log_probs.iter().zip(&all.entropies).enumerate();
            rows.map(|(position, (log_prob, entropy))| {
                let (by_log_prob, by_entropy) = Uneven::weights(position);
                f64::from(by_log_prob) * f64::from(*log_prob)
                    + f64::from(by_entropy) * f64::from(*entropy)
            })
            .sum::<f64>()
        };
        assert!((objective.loss - loss(&model)).abs() < 1e-5);
        let layout = gradient.layout().clone();
        for tensor in layout.tensors() {
            let slopes = gradient.values()[tensor.range.clone()].to_vec();
            let norm = slopes.iter().map(|slope| f64::from(*slope).powi(2)).sum::<f64>().sqrt();
            let step = 4e-3 / norm.max(1e-3);
            let before = model.parameters.values()[tensor.range.clone()].to_vec();
            let mut moved = |by: f64| {
                let values = &mut model.parameters.values_mut()[tensor.range.clone()];
                for ((value, before), slope) in values.iter_mut().zip(&before).zip(&slopes) {
                    *value = (f64::from(*before) + by * f64::from(*slope)) as f32;
                }
                loss(&model)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            moved(0.0);
            let expected = norm * norm;
            assert!(
                (slope - expected).abs() < 0.01 * expected + 2e-3 * norm,
                "{architecture:?} {} {slope} {expected}",
                tensor.name
            );
        }
    }
}

#[test]
fn a_gradient_is_added_to_what_is_there() {
    let model = formula_model(odd_config(Architecture::Qwen2, true));
    let pack = Pack::new(&[11, 5]);
    let (_, once) = gradient_of(&model, &pack, StepOptions::default());
    let mut twice = once.clone();
    let mut objective = CrossEntropy::new(pack.count() as f64);
    forward_backward(
        Policy::new(&model),
        pack.packed(),
        StepOptions::default(),
        &mut objective,
        Gradient::Full(&mut twice),
        &mut Workspace::new(),
    )
    .unwrap();
    let doubled: Vec<f32> = once.values().iter().map(|value| 2.0 * value).collect();
    assert!(support::relative_error(&doubled, twice.values()) < 1e-5);
}

#[test]
fn packs_that_do_not_fit_are_refused() {
    let model = formula_model(odd_config(Architecture::Llama, true));
    let refuse = |change: &dyn Fn(&mut Pack)| {
        let mut pack = Pack::new(&[4, 6]);
        change(&mut pack);
        log_probs(Policy::new(&model), pack.packed(), 1.0, &mut Workspace::new()).unwrap_err()
    };
    assert_eq!(
        refuse(&|pack| pack.tokens[3] = 53),
        StepError::TokenOutsideVocabulary {
            what: "token",
            token: 53,
            position: 3,
            vocabulary_size: 53
        }
    );
    assert!(matches!(
        refuse(&|pack| pack.targets[0] = 99),
        StepError::TokenOutsideVocabulary { what: "target", token: 99, position: 0, .. }
    ));
    let starts = |starts: Vec<usize>| refuse(&|pack| pack.starts.clone_from(&starts));
    assert_eq!(starts(vec![]), StepError::Starts { tokens: 10, index: 0 });
    assert_eq!(starts(vec![1, 10]), StepError::Starts { tokens: 10, index: 0 });
    assert_eq!(starts(vec![0, 4, 4, 10]), StepError::Starts { tokens: 10, index: 2 });
    assert_eq!(starts(vec![0, 4]), StepError::Starts { tokens: 10, index: 1 });
    assert_eq!(starts(vec![0, 11]), StepError::Starts { tokens: 10, index: 1 });
    assert_eq!(
        refuse(&|pack| pack.targets.truncate(2)),
        StepError::Targets { tokens: 10, targets: 2 }
    );
}
