//! The decoder written plainly in f64: what decoding is compared with.

use rocstar_nn::config::{ModelConfig, RopeScaling};
use rocstar_nn::parameters::{LayerSlot, Parameters, Slot};

/// Logits of all tokens, `[tokens][vocabulary]`.
pub(crate) fn logits(
    config: &ModelConfig,
    parameters: &Parameters,
    tokens: &[u32],
) -> Vec<Vec<f64>> {
    let slot = |slot| wide(parameters.slot(slot));
    let embedding = slot(Slot::Embedding);
    let hidden = config.hidden_size;
    let row = |token: &u32| embedding[*token as usize * hidden..][..hidden].to_vec();
    let mut stream: Vec<Vec<f64>> = tokens.iter().map(row).collect();
    for layer in 0..config.layers {
        let of = |which| slot(Slot::Layer(layer, which));
        let normed = norm_all(config, &stream, &of(LayerSlot::AttentionNorm));
        let attended = attention(config, &normed, &of);
        add(&mut stream, &product(&attended, &of(LayerSlot::Output), &[]));
        let normed = norm_all(config, &stream, &of(LayerSlot::FeedForwardNorm));
        let gates = product(&normed, &of(LayerSlot::Gate), &[]);
        let ups = product(&normed, &of(LayerSlot::Up), &[]);
        let gated = gates.iter().zip(&ups).map(|(gate, up)| {
            gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect()
        });
        let gated = gated.collect::<Vec<_>>();
        add(&mut stream, &product(&gated, &of(LayerSlot::Down), &[]));
    }
    let normed = norm_all(config, &stream, &slot(Slot::FinalNorm));
    let head = if config.tied_embeddings { embedding } else { slot(Slot::Head) };
    product(&normed, &head, &[])
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn add(stream: &mut [Vec<f64>], other: &[Vec<f64>]) {
    for (row, other) in stream.iter_mut().zip(other) {
        row.iter_mut().zip(other).for_each(|(value, other)| *value += other);
    }
}

fn product(rows: &[Vec<f64>], matrix: &[f64], bias: &[f64]) -> Vec<Vec<f64>> {
    let dot = |row: &[f64], other: &[f64]| row.iter().zip(other).map(|(x, y)| x * y).sum::<f64>();
    let outputs = |row: &Vec<f64>| {
        let all = matrix.chunks(row.len()).enumerate();
        all.map(|(index, weights)| dot(row, weights) + bias.get(index).unwrap_or(&0.0)).collect()
    };
    rows.iter().map(outputs).collect()
}

fn norm(config: &ModelConfig, row: &[f64], weight: &[f64]) -> Vec<f64> {
    let mean = row.iter().map(|value| value * value).sum::<f64>() / row.len() as f64;
    let factor = 1.0 / (mean + f64::from(config.norm_epsilon)).sqrt();
    row.iter().zip(weight).map(|(value, weight)| value * factor * weight).collect()
}

fn norm_all(config: &ModelConfig, rows: &[Vec<f64>], weight: &[f64]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| norm(config, row, weight)).collect()
}

fn frequency(config: &ModelConfig, pair: usize) -> f64 {
    let plain = config.rope.theta.powf(-2.0 * pair as f64 / config.head_size as f64);
    match config.rope.scaling {
        RopeScaling::None => plain,
        RopeScaling::Linear { factor } => plain / factor,
        RopeScaling::Llama3 {
            factor,
            low_frequency_factor,
            high_frequency_factor,
            original_context_tokens,
        } => {
            let wavelength = std::f64::consts::TAU / plain;
            let context = original_context_tokens as f64;
            if wavelength > context / low_frequency_factor {
                plain / factor
            } else if wavelength < context / high_frequency_factor {
                plain
            } else {
                let smooth = (context / wavelength - low_frequency_factor)
                    / (high_frequency_factor - low_frequency_factor);
                (1.0 - smooth) * plain / factor + smooth * plain
            }
        }
    }
}

/// A head of a row, normalised where the model does that, and rotated.
fn head(
    config: &ModelConfig,
    row: &[f64],
    index: usize,
    position: usize,
    weight: &[f64],
) -> Vec<f64> {
    let size = config.head_size;
    let plain = &row[index * size..(index + 1) * size];
    let plain = if weight.is_empty() { plain.to_vec() } else { norm(config, plain, weight) };
    let mut rotated = plain.clone();
    for pair in 0..size / 2 {
        let (sine, cosine) = (position as f64 * frequency(config, pair)).sin_cos();
        let (low, high) = (plain[pair], plain[pair + size / 2]);
        rotated[pair] = low * cosine - high * sine;
        rotated[pair + size / 2] = high * cosine + low * sine;
    }
    rotated
}

fn attention(
    config: &ModelConfig,
    normed: &[Vec<f64>],
    of: &dyn Fn(LayerSlot) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let size = config.head_size;
    let queries = product(normed, &of(LayerSlot::Query), &of(LayerSlot::QueryBias));
    let keys = product(normed, &of(LayerSlot::Key), &of(LayerSlot::KeyBias));
    let values = product(normed, &of(LayerSlot::Value), &of(LayerSlot::ValueBias));
    let (query_norm, key_norm) = (of(LayerSlot::QueryNorm), of(LayerSlot::KeyNorm));
    let mut output = vec![vec![0.0; config.query_size()]; normed.len()];
    for (position, output) in output.iter_mut().enumerate() {
        for index in 0..config.heads {
            let shared = index * config.key_value_heads / config.heads;
            let query = head(config, &queries[position], index, position, &query_norm);
            let scores: Vec<f64> = (0..=position)
                .map(|at| {
                    let key = head(config, &keys[at], shared, at, &key_norm);
                    let dot: f64 = query.iter().zip(&key).map(|(x, y)| x * y).sum();
                    dot / (size as f64).sqrt()
                })
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (at, weight) in weights.iter().enumerate() {
                for column in 0..size {
                    let value = values[at][shared * size + column];
                    output[index * size + column] += weight / total * value;
                }
            }
        }
    }
    output
}
