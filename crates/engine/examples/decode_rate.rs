//! Decode rate of the engine on one of the benches' shapes, with random weights.
//!
//! `cargo run --release -p rocstar-engine --example decode_rate -- tiny|smol [f32|bf16|int8] [THREADS]`
#![expect(clippy::print_stdout, reason = "an example prints")]

use rocstar_engine::measure::DecodeLoad;
use rocstar_engine::{Engine, EngineOptions};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::Storage;
use rocstar_nn::parameters::Parameters;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let shape = arguments.first().map_or("tiny", String::as_str);
    let (config, new_tokens) = match shape {
        "smol" => (ModelConfig::smol(), 24),
        _ => (ModelConfig::tiny(), 64),
    };
    let storage = match arguments.get(1).map(String::as_str) {
        Some("bf16") => Storage::Bf16,
        Some("int8") => Storage::Int8,
        _ => Storage::F32,
    };
    let threads = arguments.get(2).map(|threads| threads.parse()).transpose()?;
    let parameters = Parameters::random(&config, 0);
    let options = EngineOptions { storage, threads, step_tokens: 4096, ..EngineOptions::default() };
    let engine = Engine::start(config.clone(), &parameters, options)?;
    for batch in [1, 16, 64] {
        let load = DecodeLoad { batch, prompt_tokens: 32, new_tokens };
        let mut rates = Vec::new();
        for run in 0..5 {
            rates.push(load.measure(&engine, run)?);
        }
        rates.sort_by_key(|rate| rate.time);
        let (best, median) = (rates[0], rates[2]);
        println!(
            "{shape} {storage:?} batch {batch}: {:.0} tokens/s (best {:.0}), {:.1} GFLOP/s, \
             overhead {:.1} %",
            median.tokens_per_s(),
            best.tokens_per_s(),
            median.tokens_per_s() * load.operations_per_token(&config) / 1e9,
            100.0 * median.overhead_share,
        );
    }
    Ok(())
}
