//! How generations end.

use std::sync::Arc;

use rocstar_engine::{
    EngineOptions, FinishReason, KvBudget, Refusal, Request, Sampling, Stop, TokenText,
};

use super::{assert_length, complete, engine, options, prompt, request};

/// Tokens as one or two letters.
#[derive(Debug)]
struct Letters;

impl TokenText for Letters {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.push(b'a' + (token % 26) as u8);
        if token >= 26 {
            bytes.push(b'A' + (token / 26) as u8);
        }
    }
}

fn text_of(tokens: &[u32]) -> String {
    let mut bytes = Vec::new();
    tokens.iter().for_each(|token| Letters.append(*token, &mut bytes));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_stop_token_is_the_last_reported() {
    let engine = engine(options());
    let free = complete(&engine, request(prompt(1, 10), 40, 3)).ids();
    let stop_token = free[12];
    let first = free.iter().position(|token| *token == stop_token).unwrap();
    let mut ask = request(prompt(1, 10), 40, 3);
    ask.stop.tokens = vec![stop_token];
    let stopped = complete(&engine, ask);
    assert_eq!(stopped.ids(), free[..=first]);
    assert_eq!(stopped.finished.reason, FinishReason::StopToken(stop_token));
    assert_eq!(stopped.finished.usage.new_tokens, first + 1);
}

#[test]
fn a_stop_string_may_span_tokens_and_the_text_before_it_is_exact() {
    let engine = engine(options());
    let free = complete(&engine, request(prompt(2, 10), 40, 3)).ids();
    let text = text_of(&free);
    // From within one token to within another.
    let string = text[21..26].to_owned();
    let place = text.find(&string).unwrap();
    let mut ask = request(prompt(2, 10), 40, 3);
    ask.stop.strings = vec!["not there".to_owned(), string.clone()];
    ask.stop.text = Some(Arc::new(Letters));
    let stopped = complete(&engine, ask);
    let expected = FinishReason::StopString { index: 1, text_bytes: place };
    assert_eq!(stopped.finished.reason, expected);
    // Just as many tokens as the string's last byte needed.
    let ids = stopped.ids();
    assert!(text_of(&ids).contains(&string));
    assert!(!text_of(&ids[..ids.len() - 1]).contains(&string));
    assert_eq!(ids, free[..ids.len()]);
}

#[test]
fn the_number_of_tokens_and_the_context_are_bounds() {
    let engine = engine(EngineOptions { context_tokens: Some(50), ..options() });
    assert_length(&complete(&engine, request(prompt(1, 30), 20, 0)), 20);
    let full = complete(&engine, request(prompt(1, 30), 21, 0));
    assert_eq!((full.finished.reason, full.tokens.len()), (FinishReason::Context, 20));
}

#[test]
fn all_of_the_cache_is_a_bound() {
    let engine = engine(EngineOptions { kv: KvBudget::Tokens(64), ..options() });
    assert_eq!(engine.longest_tokens(), 64);
    let full = complete(&engine, request(prompt(1, 30), 100, 0));
    assert_eq!((full.finished.reason, full.tokens.len()), (FinishReason::Context, 34));
}

/// What ended at a bound can be scored afterwards: nothing new needs room.
#[test]
fn a_sequence_of_full_length_can_be_scored() {
    let engine = engine(EngineOptions { kv: KvBudget::Tokens(64), ..options() });
    let score = |tokens| Request { prompt_log_probs: true, ..request(prompt(1, tokens), 0, 0) };
    assert_eq!(complete(&engine, score(64)).prompt.len(), 64);
    let refusal = engine.generate(score(65)).map(|_| ()).unwrap_err();
    assert_eq!(refusal, Refusal::PromptOverCache { prompt_tokens: 65, cache_tokens: 64 });
}

#[test]
fn greedy_has_log_probability_zero_and_the_models_own() {
    let engine = engine(options());
    let ask =
        Request { sampling: Sampling::greedy(), top_log_probs: 1, ..request(prompt(1, 10), 10, 0) };
    for token in complete(&engine, ask).tokens {
        assert_eq!(token.log_prob, 0.0);
        assert!(token.model_log_prob < 0.0);
        assert_eq!(token.top, [(token.token, token.model_log_prob)]);
    }
}

#[test]
fn usage_says_what_it_took() {
    let engine = engine(options());
    let mut ask = request(prompt(1, 33), 5, 0);
    ask.stop = Stop { max_new_tokens: 5, ..Stop::default() };
    let usage = complete(&engine, ask).finished.usage;
    assert_eq!((usage.prompt_tokens, usage.new_tokens, usage.cached_tokens), (33, 5, 0));
    assert!(usage.waited <= usage.first_token && usage.first_token <= usage.total);
}
