//! Calls that don't fit are refused before any arithmetic.

use pretty_assertions::assert_eq;
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::decode::{
    BLOCK_TOKENS, BlockId, DecodeError, DecodeWeights, Decoder, KvPool, Logits, Segment, Storage,
};
use rocstar_nn::parameters::Parameters;

use crate::support::{Model, small, weights};

fn refusal(segments: &[Segment<'_>]) -> DecodeError {
    let config = small(Architecture::Llama);
    let mut model = Model::new(&config, &weights(&config, 1), Storage::F32);
    model.pool = KvPool::new(&config, 10);
    let mut logits = Vec::new();
    model.decoder.forward(&model.weights, &mut model.pool, segments, &mut logits).unwrap_err()
}

fn segment<'a>(tokens: &'a [u32], position: usize, blocks: &'a [BlockId]) -> Segment<'a> {
    Segment { tokens, position, blocks, logits: Logits::Last }
}

#[test]
fn each_misfit_has_its_error() {
    let blocks: Vec<BlockId> = (0..7).map(BlockId).collect();
    let good = segment(&[1, 2], 0, &blocks[..1]);
    assert_eq!(
        refusal(&[good, segment(&[], 0, &blocks)]),
        DecodeError::EmptySegment { segment: 1 }
    );
    assert_eq!(
        refusal(&[segment(&[3, 77], 0, &blocks)]),
        DecodeError::TokenOutsideVocabulary { segment: 0, token: 77, vocabulary_size: 77 }
    );
    assert_eq!(
        refusal(&[segment(&[3, 4], 199, &blocks)]),
        DecodeError::BeyondContext { segment: 0, end: 201, context_tokens: 200 }
    );
    assert_eq!(
        refusal(&[segment(&[3], usize::MAX, &blocks)]),
        DecodeError::BeyondContext { segment: 0, end: usize::MAX, context_tokens: 200 }
    );
    assert_eq!(
        refusal(&[segment(&[3, 4], BLOCK_TOKENS - 1, &blocks[..1])]),
        DecodeError::TooFewBlocks { segment: 0, needed: 2, given: 1 }
    );
    assert_eq!(
        refusal(&[segment(&[3], 0, &[BlockId(10)])]),
        DecodeError::BlockOutsidePool { block: 10, blocks: 10 }
    );
}

#[test]
fn a_block_is_written_by_one_segment_only() {
    let shared = [BlockId(4), BlockId(5)];
    let other = [BlockId(4), BlockId(6)];
    let twice = [segment(&[3], BLOCK_TOKENS, &shared), segment(&[4], BLOCK_TOKENS + 3, &shared)];
    assert_eq!(refusal(&twice), DecodeError::BlockWrittenTwice { segment: 1, block: 5 });
    let repeated = [BlockId(2), BlockId(2)];
    let long = vec![1; BLOCK_TOKENS + 1];
    assert_eq!(
        refusal(&[segment(&long, 0, &repeated)]),
        DecodeError::BlockWrittenTwice { segment: 0, block: 2 }
    );
    // Reading a shared block is what sharing is for.
    let config = small(Architecture::Llama);
    let mut model = Model::new(&config, &weights(&config, 1), Storage::F32);
    model.forward(&[segment(&[3], BLOCK_TOKENS, &shared), segment(&[4], BLOCK_TOKENS, &other)]);
}

#[test]
fn shapes_must_agree() {
    let config = small(Architecture::Llama);
    let other = ModelConfig { layers: 3, ..config.clone() };
    let parameters = weights(&config, 1);
    let error = DecodeWeights::new(&other, &parameters, Storage::F32).unwrap_err();
    assert_eq!(error, DecodeError::OtherShape { part: "the buffer of parameters" });
    let mut model = Model::new(&config, &parameters, Storage::F32);
    let error = model.weights.refill(&weights(&other, 1)).unwrap_err();
    assert_eq!(error, DecodeError::OtherShape { part: "the buffer of parameters" });

    let mut logits = Vec::new();
    let mut forward = |weights: &DecodeWeights, pool: &mut KvPool| {
        let segments = [segment(&[1], 0, &[BlockId(0)])];
        Decoder::new(&config).forward(weights, pool, &segments, &mut logits).unwrap_err()
    };
    let error = forward(&model.weights, &mut KvPool::new(&other, 3));
    assert_eq!(error, DecodeError::OtherShape { part: "the pool of keys and values" });
    let strange = DecodeWeights::new(&other, &weights(&other, 1), Storage::F32).unwrap();
    let error = forward(&strange, &mut model.pool);
    assert_eq!(error, DecodeError::OtherShape { part: "the laid-out weights" });

    let wide = ModelConfig { head_size: 258, ..config };
    let error = DecodeWeights::new(&wide, &Parameters::random(&wide, 1), Storage::F32).unwrap_err();
    assert_eq!(error, DecodeError::HeadTooWide { head_size: 258, largest: 256 });
}

#[test]
fn a_refused_call_changes_nothing() {
    let config = small(Architecture::Llama);
    let mut model = Model::new(&config, &weights(&config, 1), Storage::F32);
    let blocks = [BlockId(0), BlockId(1)];
    let before = model.forward(&[segment(&[5, 6, 7], 0, &blocks)]);
    let bad = [segment(&[9], 0, &blocks), segment(&[3], 0, &[BlockId(640)])];
    let mut logits = Vec::new();
    model.decoder.forward(&model.weights, &mut model.pool, &bad, &mut logits).unwrap_err();
    assert_eq!(model.forward(&[segment(&[7], 2, &blocks)]), before);
}

#[test]
fn an_empty_call_has_no_logits() {
    let config = small(Architecture::Llama);
    let mut model = Model::new(&config, &weights(&config, 1), Storage::F32);
    assert_eq!(model.forward(&[]), Vec::<f32>::new());
}

#[test]
fn copies_stay_within_the_pool() {
    let config = small(Architecture::Llama);
    let mut pool = KvPool::new(&config, 3);
    let error = pool.copy_prefix(BlockId(1), BlockId(3), 4).unwrap_err();
    assert_eq!(error.to_string(), "block 3 is outside the pool of 3 blocks");
}
