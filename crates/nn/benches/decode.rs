//! A step of decoding at several batch sizes and storages, and a prompt.
//!
//! ```sh
//! cargo bench -p rocstar-nn --bench decode
//! ```

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{
    BLOCK_TOKENS, BlockId, DecodeWeights, Decoder, KvPool, Logits, Segment, Storage,
};
use rocstar_nn::parameters::Parameters;

/// Tokens before the step that is measured.
const CONTEXT_TOKENS: usize = 64;

fn steps(criterion: &mut Criterion) {
    let config = ModelConfig::tiny();
    let parameters = Parameters::random(&config, 1);
    for storage in [Storage::F32, Storage::Bf16, Storage::Int8] {
        let Ok(weights) = DecodeWeights::new(&config, &parameters, storage) else { return };
        let mut group = criterion.benchmark_group(format!("tiny {storage:?}"));
        for batch in [1, 16, 64] {
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function(format!("step of {batch}"), |bencher| {
                let mut run = Run::new(&config, &weights, batch);
                bencher.iter(|| run.forward(&[3], CONTEXT_TOKENS));
            });
        }
        group.throughput(Throughput::Elements(CONTEXT_TOKENS as u64));
        group.bench_function(format!("prompt of {CONTEXT_TOKENS}"), |bencher| {
            let mut run = Run::new(&config, &weights, 1);
            bencher.iter(|| run.forward(&[7; CONTEXT_TOKENS], 0));
        });
        group.finish();
    }
}

struct Run<'a> {
    weights: &'a DecodeWeights,
    decoder: Decoder,
    pool: KvPool,
    blocks: Vec<Vec<BlockId>>,
    logits: Vec<f32>,
}

impl<'a> Run<'a> {
    fn new(config: &ModelConfig, weights: &'a DecodeWeights, batch: usize) -> Self {
        let each = CONTEXT_TOKENS / BLOCK_TOKENS + 1;
        let of = |sequence: usize| {
            (0..each).map(|block| BlockId((sequence * each + block) as u32)).collect()
        };
        Self {
            weights,
            decoder: Decoder::new(config),
            pool: KvPool::new(config, batch * each),
            blocks: (0..batch).map(of).collect(),
            logits: Vec::new(),
        }
    }

    fn forward(&mut self, tokens: &[u32], position: usize) {
        let segment = |blocks| Segment { tokens, position, blocks, logits: Logits::Last };
        let segments: Vec<Segment<'_>> = self.blocks.iter().map(|blocks| segment(blocks)).collect();
        let done = self.decoder.forward(self.weights, &mut self.pool, &segments, &mut self.logits);
        assert_eq!(done, Ok(()));
        black_box(&self.logits);
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
