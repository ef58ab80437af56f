//! Logits against the plain f64 decoder.

use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::decode::{DecodeWeights, Storage};
use rocstar_nn::parameters::Parameters;

use crate::reference;
use crate::support::{Model, shapes, small, tokens, weights};

/// The largest difference, as a share of the largest logit.
fn difference(config: &ModelConfig, logits: &[f32], expected: &[Vec<f64>]) -> f64 {
    assert_eq!(logits.len(), expected.len() * config.vocabulary_size);
    let expected: Vec<f64> = expected.concat();
    let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let pairs = logits.iter().zip(&expected);
    pairs.fold(0.0f64, |most, (got, want)| most.max((f64::from(*got) - want).abs())) / largest
}

#[test]
fn logits_equal_the_plain_decoder_for_every_family() {
    for (name, config) in shapes() {
        let parameters = weights(&config, 5);
        let tokens = tokens(&config, 150, 9);
        let expected = reference::logits(&config, &parameters, &tokens);
        let logits = Model::new(&config, &parameters, Storage::F32).all(&tokens);
        let difference = difference(&config, &logits, &expected);
        assert!(difference < 2e-5, "{name}: {difference}");
    }
}

/// What the storage keeps of each weight, by its definition.
fn rounded(parameters: &Parameters, storage: Storage) -> Parameters {
    let mut rounded = parameters.clone();
    for tensor in parameters.layout().tensors().iter().filter(|tensor| tensor.is_matrix()) {
        let values = &mut rounded.values_mut()[tensor.range.clone()];
        for row in values.chunks_mut(tensor.shape[1]) {
            let scale = row.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 127.0;
            for value in row {
                *value = match storage {
                    Storage::F32 => *value,
                    Storage::Bf16 => half::bf16::from_f32(*value).to_f32(),
                    Storage::Int8 => (*value / scale).round() * scale,
                };
            }
        }
    }
    rounded
}

#[test]
fn smaller_storage_computes_with_the_rounded_weights() {
    for storage in [Storage::Bf16, Storage::Int8] {
        for (name, config) in shapes() {
            let parameters = weights(&config, 6);
            let tokens = tokens(&config, 40, 10);
            let expected = reference::logits(&config, &rounded(&parameters, storage), &tokens);
            let logits = Model::new(&config, &parameters, storage).all(&tokens);
            let difference = difference(&config, &logits, &expected);
            assert!(difference < 2e-5, "{name}, {storage:?}: {difference}");
        }
    }
}

#[test]
fn smaller_storage_stays_near_the_full_weights() {
    let config = small(Architecture::Llama);
    let parameters = weights(&config, 7);
    let tokens = tokens(&config, 40, 11);
    let expected = reference::logits(&config, &parameters, &tokens);
    for (storage, most) in [(Storage::Bf16, 0.03), (Storage::Int8, 0.05)] {
        let logits = Model::new(&config, &parameters, storage).all(&tokens);
        let difference = difference(&config, &logits, &expected);
        assert!(difference < most, "{storage:?}: {difference}");
    }
}

#[test]
fn refilled_weights_are_the_new_ones() {
    for (_, config) in shapes() {
        for storage in [Storage::F32, Storage::Bf16, Storage::Int8] {
            let tokens = tokens(&config, 10, 12);
            let mut model = Model::new(&config, &weights(&config, 1), storage);
            model.weights.refill(&weights(&config, 2)).unwrap();
            let refilled = model.all(&tokens);
            assert_eq!(refilled, Model::new(&config, &weights(&config, 2), storage).all(&tokens));
        }
    }
}

#[test]
fn a_tied_model_stores_its_embedding_once() {
    let config = ModelConfig::tiny();
    let parameters = Parameters::random(&config, 1);
    let bytes = |storage| DecodeWeights::new(&config, &parameters, storage).unwrap().bytes();
    let values = parameters.values().len();
    assert_eq!(bytes(Storage::F32), 4 * values);
    assert!(bytes(Storage::Bf16) < 2 * values + values / 100);
    assert!(bytes(Storage::Int8) < values + values / 25);
}
