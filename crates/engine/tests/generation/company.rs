//! A result doesn't depend on its company: neither on the other requests, nor on the engine's size.

use proptest::prelude::*;
use rocstar_engine::{Completion, EngineOptions, Event, KvBudget, Request, Sampling};
use rocstar_nn::decode::Storage;

use super::{bits, complete, engine, options, prompt, request};

#[derive(Debug, Clone)]
struct Ask {
    /// Prompts are the beginning of a few texts, so that they share.
    text: u64,
    prompt_tokens: usize,
    new_tokens: usize,
    sampling: Sampling,
    prompt_log_probs: bool,
}

impl Ask {
    fn request(&self, sample: usize) -> Request {
        Request {
            sampling: self.sampling,
            top_log_probs: sample % 3,
            prompt_log_probs: self.prompt_log_probs,
            ..request(prompt(self.text, self.prompt_tokens), self.new_tokens, sample as u32)
        }
    }
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let plain = Sampling::default();
    prop::sample::select(vec![
        plain,
        Sampling::greedy(),
        Sampling { temperature: 0.7, ..plain },
        Sampling { top_k: Some(5), ..plain },
        Sampling { temperature: 1.5, top_p: 0.8, ..plain },
        Sampling { min_p: 0.1, top_p: 0.9, top_k: Some(20), ..plain },
    ])
}

fn ask() -> impl Strategy<Value = Ask> {
    (0..3_u64, 1..90_usize, 1..40_usize, sampling(), prop::bool::weighted(0.15)).prop_map(
        |(text, prompt_tokens, new_tokens, sampling, prompt_log_probs)| Ask {
            text,
            prompt_tokens,
            new_tokens,
            sampling,
            prompt_log_probs,
        },
    )
}

fn sizes() -> impl Strategy<Value = EngineOptions> {
    // The smallest cache holds one of the longest sequences: 130 tokens.
    (160..700_usize, 1..10_usize, 0..100_usize, 1..4_usize, any::<bool>()).prop_map(
        |(kv_tokens, max_running, more_tokens, threads, share_prefixes)| EngineOptions {
            kv: KvBudget::Tokens(kv_tokens),
            max_running,
            step_tokens: max_running + more_tokens,
            threads: Some(threads),
            share_prefixes,
            ..options()
        },
    )
}

fn same(left: &Completion, right: &Completion) {
    assert_eq!(bits(&left.tokens), bits(&right.tokens));
    assert_eq!(left.prompt, right.prompt);
    assert_eq!(left.finished.reason, right.finished.reason);
}

fn storage() -> impl Strategy<Value = Storage> {
    prop::sample::select(vec![Storage::F32, Storage::Bf16, Storage::Int8])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn neither_neighbours_nor_sizes_change_a_result(
        asks in prop::collection::vec(ask(), 1..12),
        sizes in sizes(),
        storage in storage(),
        reverse: bool,
    ) {
        let alone = engine(EngineOptions { storage, share_prefixes: false, ..options() });
        let crowd = engine(EngineOptions { storage, ..sizes });
        let requests = asks.iter().enumerate().map(|(sample, ask)| ask.request(sample));
        let mut numbered: Vec<(usize, Request)> = requests.clone().enumerate().collect();
        if reverse {
            numbered.reverse();
        }
        let (places, together): (Vec<usize>, Vec<Request>) = numbered.into_iter().unzip();
        let under_way = crowd.generate_together(together).unwrap();
        for (place, generation) in places.into_iter().zip(under_way) {
            let expected = complete(&alone, asks[place].request(place));
            same(&generation.collect_blocking(), &expected);
        }
        // And once more, now that prefixes are cached.
        for (request, ask) in requests.zip(&asks) {
            let again = complete(&crowd, request.clone());
            same(&again, &complete(&alone, request));
            prop_assert_eq!(again.tokens.len(), ask.new_tokens);
        }
        let stats = crowd.stats();
        prop_assert_eq!(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
    }
}

#[test]
fn a_small_cache_makes_sequences_give_way_and_changes_nothing() {
    let small = EngineOptions { kv: KvBudget::Tokens(256), ..options() };
    let (crowded, roomy) = (engine(small), engine(options()));
    let requests = || (0..8).map(|sample| request(prompt(sample, 30), 60, sample as u32)).collect();
    let crowd = crowded.generate_together(requests()).unwrap();
    let free = roomy.generate_together(requests()).unwrap();
    for (left, right) in crowd.into_iter().zip(free) {
        same(&left.collect_blocking(), &right.collect_blocking());
    }
    assert!(crowded.stats().pre_emptions > 0);
    assert_eq!(roomy.stats().pre_emptions, 0);
}

#[test]
fn events_one_by_one_are_those_of_the_whole() {
    let engine = engine(options());
    let ask = Request { prompt_log_probs: true, ..request(prompt(3, 20), 15, 1) };
    let whole = complete(&engine, ask.clone());
    let mut generation = engine.generate(ask).unwrap();
    assert_eq!(generation.next_blocking(), Some(Event::Prompt(whole.prompt.clone())));
    for token in &whole.tokens {
        assert_eq!(generation.next_blocking(), Some(Event::Token(token.clone())));
    }
    let Some(Event::Finished(finished)) = generation.next_blocking() else {
        panic!("no end");
    };
    assert_eq!(finished.reason, whole.finished.reason);
    assert_eq!(generation.next_blocking(), None);
}

#[test]
fn a_generation_cut_and_continued_draws_the_same() {
    let engine = engine(options());
    let whole = complete(&engine, request(prompt(4, 20), 30, 1));
    let mut beginning = prompt(4, 20);
    beginning.extend(&whole.ids()[..11]);
    let rest = complete(&engine, request(beginning, 19, 1));
    assert_eq!(bits(&rest.tokens), bits(&whole.tokens[11..]));
}

#[test]
fn log_probabilities_of_a_prompt_are_those_of_its_sampling() {
    let engine = engine(options());
    let sampled = complete(&engine, request(prompt(5, 40), 50, 1));
    let mut text = prompt(5, 40);
    text.extend(sampled.ids());
    let scored = complete(&engine, Request { prompt_log_probs: true, ..request(text, 0, 1) });
    assert_eq!(scored.tokens, []);
    assert_eq!((scored.prompt.len(), scored.prompt[0].model_log_prob), (90, None));
    for (scored, sampled) in scored.prompt[40..].iter().zip(&sampled.tokens) {
        assert_eq!(scored.token, sampled.token);
        assert_eq!(scored.model_log_prob, Some(sampled.model_log_prob));
    }
}
