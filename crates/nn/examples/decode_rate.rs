//! How many tokens a second decoding makes, without the engine's sampling and scheduling.
//!
//! ```sh
//! cargo run --release -p rocstar-nn --example decode_rate -- tiny f32 1,16,64
//! ```
//!
//! With `RAYON_NUM_THREADS=1` the time is what the kernel gave the thread, so that a busy machine
//! measures too; with more threads it is the clock's.
#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example that reports")]

use std::sync::Arc;
use std::time::Instant;

use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{
    BLOCK_TOKENS, BlockId, DecodeWeights, Decoder, KvPool, Logits, Segment, Storage,
};
use rocstar_nn::parameters::{Layout, Parameters};

/// Sequences of one length, each in blocks of its own.
struct Batch {
    blocks: Vec<Vec<BlockId>>,
    logits: Vec<f32>,
}

impl Batch {
    fn new(batch: usize, tokens: usize) -> Self {
        let each = tokens.div_ceil(BLOCK_TOKENS);
        let of = |sequence: usize| {
            (0..each).map(|block| BlockId((sequence * each + block) as u32)).collect()
        };
        Self { blocks: (0..batch).map(of).collect(), logits: Vec::new() }
    }

    fn forward(
        &mut self,
        decoder: &mut Decoder,
        weights: &DecodeWeights,
        pool: &mut KvPool,
        tokens: &[u32],
        position: usize,
    ) {
        let segments: Vec<Segment<'_>> = self
            .blocks
            .iter()
            .map(|blocks| Segment { tokens, position, blocks, logits: Logits::Last })
            .collect();
        decoder.forward(weights, pool, &segments, &mut self.logits).expect("the request fits");
    }
}

/// Seconds that this thread ran, where it is alone and the kernel says it; else by the clock.
fn seconds(start: Instant) -> f64 {
    let alone = rayon::current_num_threads() == 1;
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok().filter(|_| alone);
    let nanoseconds = ran.and_then(|ran| ran.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

fn main() {
    let origin = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let shape = argument(0, "tiny");
    let config = if shape == "smol" { ModelConfig::smol() } else { ModelConfig::tiny() };
    let storage = match argument(1, "f32").as_str() {
        "bf16" => Storage::Bf16,
        "int8" => Storage::Int8,
        _ => Storage::F32,
    };
    let prompt: usize = argument(3, "32").parse().expect("prompt tokens");
    let new: usize =
        argument(4, if shape == "smol" { "24" } else { "64" }).parse().expect("tokens");
    let repeats: usize = argument(5, "3").parse().expect("repeats");
    // Values don't matter to the rate; drawing normal ones would take longer than the measurement.
    let mut parameters = Parameters::zeros(Arc::new(Layout::new(&config)));
    for (index, value) in parameters.values_mut().iter_mut().enumerate() {
        *value = (index % 251) as f32 / 5000.0 - 0.025;
    }
    let weights = DecodeWeights::new(&config, &parameters, storage).expect("the shapes agree");
    drop(parameters);
    let mut decoder = Decoder::new(&config);
    for batch in argument(2, "1,16,64").split(',').map(|batch| batch.parse().expect("batch")) {
        let mut sequences = Batch::new(batch, prompt + new);
        let blocks = batch * (prompt + new).div_ceil(BLOCK_TOKENS);
        let mut pool = KvPool::new(&config, blocks);
        let mut best = [f64::MAX; 2];
        for _ in 0..repeats {
            let start = seconds(origin);
            sequences.forward(&mut decoder, &weights, &mut pool, &vec![7; prompt], 0);
            let prefilled = seconds(origin);
            for position in prompt..prompt + new {
                sequences.forward(&mut decoder, &weights, &mut pool, &[3], position);
            }
            best[0] = best[0].min(prefilled - start);
            best[1] = best[1].min(seconds(origin) - prefilled);
        }
        let new_tokens = (batch * new) as f64;
        println!(
            "{shape} {storage:?} batch {batch}: prompts {:.0} tokens/s, decoding {:.0} tokens/s, \
             together {:.0} new tokens/s",
            (batch * prompt) as f64 / best[0],
            new_tokens / best[1],
            new_tokens / (best[0] + best[1]),
        );
    }
}
