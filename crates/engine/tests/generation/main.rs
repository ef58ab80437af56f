//! The engine through its public interface, on small models of random weights.
#![cfg(test)]

mod company;
mod ends;
mod lifecycle;
mod prefixes;
mod refusals;
mod weights;

use rocstar_engine::{
    Completion, Engine, EngineOptions, FinishReason, KvBudget, Request, SampledToken,
};
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::parameters::Parameters;
use rocstar_record::draw::{Key, Purpose};

/// A small model with all that differs between families, whose distributions are neither flat nor
/// certain.
fn config() -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Qwen3,
        vocabulary_size: 61,
        hidden_size: 32,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        head_size: 16,
        feed_forward_size: 48,
        context_tokens: 300,
        initializer_range: 0.2,
        ..ModelConfig::tiny()
    }
}

fn parameters(seed: u64) -> Parameters {
    Parameters::random(&config(), seed)
}

/// Room for all that a test does, on the threads of a small machine.
fn options() -> EngineOptions {
    EngineOptions {
        kv: KvBudget::Tokens(4096),
        max_running: 16,
        step_tokens: 64,
        threads: Some(2),
        ..EngineOptions::default()
    }
}

fn engine(options: EngineOptions) -> Engine {
    Engine::start(config(), &parameters(1), options).unwrap()
}

/// An engine whose generations of [`ENDLESS`] tokens run until they are cancelled: whatever a test
/// does in the meantime, they are still there.
fn endless_engine(options: &EngineOptions) -> Engine {
    let config = ModelConfig { context_tokens: 2 * ENDLESS, ..config() };
    let options = EngineOptions { kv: KvBudget::Tokens(8 * ENDLESS), ..options.clone() };
    Engine::start(config, &parameters(1), options).unwrap()
}

const ENDLESS: usize = 100_000;

fn key(sample: u32) -> Key {
    Key { sample, ..Key::new(11, Purpose::Sampling) }
}

/// Any prompt of a length, the same for the same seed.
fn prompt(seed: u64, length: usize) -> Vec<u32> {
    let mut draws = Key::new(seed, Purpose::Tasks).at(0);
    (0..length).map(|_| draws.below(61) as u32).collect()
}

fn request(prompt: Vec<u32>, new_tokens: usize, sample: u32) -> Request {
    Request::new(prompt, new_tokens, key(sample))
}

fn complete(engine: &Engine, request: Request) -> Completion {
    engine.generate(request).unwrap().collect_blocking()
}

/// A token as compared bit for bit: id, both log-probabilities, the likeliest.
type Bits = (u32, [u32; 2], Vec<(u32, u32)>);

fn bits(tokens: &[SampledToken]) -> Vec<Bits> {
    let top =
        |token: &SampledToken| token.top.iter().map(|(id, log)| (*id, log.to_bits())).collect();
    let one = |token: &SampledToken| {
        (token.token, [token.log_prob.to_bits(), token.model_log_prob.to_bits()], top(token))
    };
    tokens.iter().map(one).collect()
}

fn assert_length(completion: &Completion, new_tokens: usize) {
    assert_eq!(completion.finished.reason, FinishReason::Length);
    assert_eq!(completion.tokens.len(), new_tokens);
}
