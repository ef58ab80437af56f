//! What prompts share is computed once.

use rocstar_engine::EngineOptions;

use super::{complete, engine, options, prompt, request};

#[test]
fn a_group_of_rollouts_computes_its_prompt_once() {
    let engine = engine(options());
    let prompt = prompt(1, 75);
    let group = (0..16).map(|sample| request(prompt.clone(), 4, sample)).collect();
    let cached: Vec<usize> = engine
        .generate_together(group)
        .unwrap()
        .into_iter()
        .map(|generation| generation.collect_blocking().finished.usage.cached_tokens)
        .collect();
    // All but the first found the whole prompt, without its last token.
    assert_eq!(cached[0], 0);
    assert_eq!(cached[1..], [74; 15]);
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.cached_tokens), (16 * 75, 15 * 74));
    assert_eq!(stats.prefilled_tokens, 75 + 15);
}

#[test]
fn the_next_turn_computes_only_the_last_token_and_the_tools() {
    let engine = engine(options());
    // Lengths that end within a block, and at its end.
    for (sample, length) in [(0, 45), (1, 64), (2, 63), (3, 65)] {
        let mut conversation = prompt(u64::from(sample) + 20, length);
        for turn in 0..3_u64 {
            let before = conversation.len();
            let completion = complete(&engine, request(conversation.clone(), 13, sample));
            let cached = completion.finished.usage.cached_tokens;
            // The last token sampled was never computed; then come six of the tool.
            assert_eq!(cached, if turn == 0 { 0 } else { before - 7 });
            conversation.extend(completion.ids());
            conversation.extend(prompt(turn + 90, 6));
        }
    }
}

#[test]
fn without_sharing_everything_is_computed() {
    let engine = engine(EngineOptions { share_prefixes: false, ..options() });
    for _ in 0..2 {
        let completion = complete(&engine, request(prompt(1, 40), 3, 0));
        assert_eq!(completion.finished.usage.cached_tokens, 0);
    }
    assert_eq!(engine.stats().kv_blocks_free, engine.stats().kv_blocks);
}
