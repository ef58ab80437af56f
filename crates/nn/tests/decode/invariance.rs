//! Row invariance: a token's logits are bit for bit a function of its own context.

use proptest::prelude::*;
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::decode::{BLOCK_TOKENS, BlockId, Logits, Segment, Storage};

use crate::support::{Model, Noise, blocks_for, shapes, small, tokens, weights};

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Decodes `sequences` together in random pieces, in random blocks, and returns all logits of each.
fn in_pieces(model: &mut Model, sequences: &[Vec<u32>], seed: u64) -> Vec<Vec<f32>> {
    let mut noise = Noise::new(seed);
    let mut free: Vec<u32> = (0..model.pool.blocks() as u32).collect();
    let blocks: Vec<Vec<BlockId>> = sequences
        .iter()
        .map(|tokens| {
            let mut take = || free.swap_remove((noise.bits() % free.len() as u64) as usize);
            (0..blocks_for(tokens.len())).map(|_| BlockId(take())).collect()
        })
        .collect();
    let mut done = vec![0; sequences.len()];
    let mut logits = vec![Vec::new(); sequences.len()];
    while (0..sequences.len()).any(|index| done[index] < sequences[index].len()) {
        let mut segments = Vec::new();
        let mut which = Vec::new();
        for (index, tokens) in sequences.iter().enumerate() {
            let left = tokens.len() - done[index];
            let most = [1, 1, 5, 20, 64][(noise.bits() % 5) as usize];
            let count = (noise.bits() % (most + 1)) as usize;
            let count = count.min(left);
            if count > 0 {
                segments.push(Segment {
                    tokens: &tokens[done[index]..done[index] + count],
                    position: done[index],
                    blocks: &blocks[index],
                    logits: Logits::All,
                });
                which.push((index, count));
            }
        }
        let mut rows = model.forward(&segments);
        for (index, count) in which {
            let rest = rows.split_off(count * model.config.vocabulary_size);
            logits[index].extend(std::mem::replace(&mut rows, rest));
            done[index] += count;
        }
    }
    logits
}

fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn neighbours_pieces_blocks_and_threads_change_no_bit(
        shape in 0usize..8,
        storage in prop::sample::select(vec![Storage::F32, Storage::Bf16, Storage::Int8]),
        lengths in prop::collection::vec(1usize..130, 1..9),
        threads in 1usize..5,
        seed in any::<u64>(),
    ) {
        let (_, config) = shapes().swap_remove(shape);
        let mut model = Model::new(&config, &weights(&config, 3), storage);
        let sequences: Vec<Vec<u32>> = lengths
            .iter()
            .enumerate()
            .map(|(index, length)| tokens(&config, *length, seed ^ index as u64))
            .collect();
        let together = on_threads(threads, || in_pieces(&mut model, &sequences, seed));
        let mut alone = Model::new(&config, &weights(&config, 3), storage);
        for (tokens, together) in sequences.iter().zip(together) {
            let alone = on_threads(1, || alone.all(tokens));
            prop_assert_eq!(bits(&alone), bits(&together));
        }
    }
}

/// Wide enough that products are cut among threads, with more rows than a unit takes.
#[test]
fn a_wide_model_cuts_its_products_without_changing_a_bit() {
    let config = ModelConfig {
        layers: 2,
        hidden_size: 288,
        feed_forward_size: 700,
        vocabulary_size: 900,
        ..ModelConfig::tiny()
    };
    let tokens = tokens(&config, 170, 4);
    for storage in [Storage::F32, Storage::Bf16, Storage::Int8] {
        let mut model = Model::new(&config, &weights(&config, 3), storage);
        let whole = on_threads(3, || model.all(&tokens));
        let pieces = on_threads(2, || in_pieces(&mut model, std::slice::from_ref(&tokens), 8));
        assert_eq!(bits(&whole), bits(&pieces[0]));
        let blocks: Vec<BlockId> = (0..6).map(BlockId).collect();
        for (index, token) in tokens.iter().enumerate().take(40) {
            let token = [*token];
            let segment =
                Segment { tokens: &token, position: index, blocks: &blocks, logits: Logits::Last };
            let row = on_threads(1, || model.forward(&[segment]));
            let from = index * config.vocabulary_size;
            assert_eq!(bits(&row), bits(&whole[from..from + config.vocabulary_size]));
        }
    }
}

#[test]
fn a_shared_prefix_gives_what_an_own_one_would() {
    let config = small(Architecture::Llama);
    let mut model = Model::new(&config, &weights(&config, 3), Storage::F32);
    let prefix = tokens(&config, BLOCK_TOKENS + 11, 1);
    let (first, second) = (tokens(&config, 9, 2), tokens(&config, 9, 3));
    let own = [&first, &second].map(|tail| model.all(&[prefix.as_slice(), tail].concat()));

    let blocks = [BlockId(20), BlockId(21)];
    let segment =
        |tokens, position, blocks| Segment { tokens, position, blocks, logits: Logits::None };
    model.forward(&[segment(&prefix, 0, &blocks)]);
    model.pool.copy_prefix(BlockId(21), BlockId(22), 11).unwrap();
    let copied = [BlockId(20), BlockId(22)];
    let tails = [
        Segment { logits: Logits::All, ..segment(&first, prefix.len(), &blocks) },
        Segment { logits: Logits::Last, ..segment(&second, prefix.len(), &copied) },
    ];
    let shared = model.forward(&tails);
    let width = config.vocabulary_size;
    assert_eq!(bits(&shared[..9 * width]), bits(&own[0][prefix.len() * width..]));
    assert_eq!(bits(&shared[9 * width..]), bits(&own[1][(prefix.len() + 8) * width..]));
}

#[test]
fn rows_come_in_the_order_of_segments() {
    let config = small(Architecture::Qwen3);
    let mut model = Model::new(&config, &weights(&config, 3), Storage::F32);
    let sequences = [tokens(&config, 5, 1), tokens(&config, 7, 2), tokens(&config, 3, 3)];
    let alone: Vec<Vec<f32>> = sequences.iter().map(|tokens| model.all(tokens)).collect();
    let blocks = [[BlockId(1)], [BlockId(2)], [BlockId(3)]];
    let kinds = [Logits::Last, Logits::None, Logits::All];
    let segments: Vec<Segment<'_>> = (0..3)
        .map(|index| Segment {
            tokens: &sequences[index],
            position: 0,
            blocks: &blocks[index],
            logits: kinds[index],
        })
        .collect();
    let together = model.forward(&segments);
    let expected = [&alone[0][4 * config.vocabulary_size..], &alone[2]].concat();
    assert_eq!(bits(&together), bits(&expected));
}
