//! Cancelling, stopping, queues, async callers.

use futures::StreamExt as _;
use rocstar_engine::{EngineOptions, Event, FinishReason, Refusal};

use super::{
    ENDLESS, assert_length, bits, complete, endless_engine, engine, options, prompt, request,
};

#[test]
fn a_dropped_generation_frees_its_place() {
    let engine = endless_engine(&EngineOptions { max_running: 1, ..options() });
    let mut first = engine.generate(request(prompt(1, 10), ENDLESS, 0)).unwrap();
    assert!(matches!(first.next_blocking(), Some(Event::Token(_))));
    drop(first);
    // With one place this can run only when the first has gone.
    assert_length(&complete(&engine, request(prompt(2, 10), 3, 0)), 3);
    let stats = engine.stats();
    assert_eq!((stats.requests, stats.finished, stats.cancelled), (2, 2, 1));
    assert_eq!((stats.running, stats.waiting), (0, 0));
    assert_eq!(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
}

#[test]
fn a_cancelled_generation_ends_as_such() {
    let engine = endless_engine(&options());
    let mut generation = engine.generate(request(prompt(1, 10), ENDLESS, 0)).unwrap();
    assert!(matches!(generation.next_blocking(), Some(Event::Token(_))));
    generation.cancel();
    let completion = generation.collect_blocking();
    assert_eq!(completion.finished.reason, FinishReason::Cancelled);
    assert!(completion.tokens.len() < ENDLESS);
}

#[test]
fn what_runs_when_the_engine_is_dropped_ends_as_cancelled() {
    let engine = endless_engine(&options());
    let mut generations: Vec<_> = (0..4)
        .map(|sample| engine.generate(request(prompt(1, 10), ENDLESS, sample)).unwrap())
        .collect();
    assert!(matches!(generations[0].next_blocking(), Some(Event::Token(_))));
    let handle = engine.clone();
    drop(engine);
    // A handle is left: it goes on.
    assert!(matches!(generations[0].next_blocking(), Some(Event::Token(_))));
    drop(handle);
    for generation in generations {
        assert_eq!(generation.collect_blocking().finished.reason, FinishReason::Cancelled);
    }
}

#[test]
fn what_was_not_begun_when_the_engine_is_dropped_ends_as_cancelled() {
    for _ in 0..5 {
        let engine = endless_engine(&options());
        let mut running = engine.generate(request(prompt(1, 10), ENDLESS, 0)).unwrap();
        assert!(matches!(running.next_blocking(), Some(Event::Token(_))));
        // The engine is within a step now, and fetches these after it or never.
        let late: Vec<_> = (1..4)
            .map(|sample| engine.generate(request(prompt(1, 10), ENDLESS, sample)).unwrap())
            .collect();
        drop(engine);
        for generation in late {
            assert_eq!(generation.collect_blocking().finished.reason, FinishReason::Cancelled);
        }
    }
}

#[test]
fn more_than_may_wait_are_refused_and_told() {
    let engine =
        engine(EngineOptions { max_running: 2, max_waiting: 3, step_tokens: 32, ..options() });
    let ask = |sample| request(prompt(1, 10), 280, sample);
    let accepted: Vec<_> = (0..5).map(|sample| engine.generate(ask(sample)).unwrap()).collect();
    let refusal = engine.generate(ask(5)).map(|_| ()).unwrap_err();
    assert_eq!(refusal, Refusal::QueueFull { asked: 1, waiting: 3 });
    assert_eq!(engine.stats().refused, 1);
    for generation in accepted {
        generation.cancel();
        // On a busy machine it may have come to its own end before.
        let reason = generation.collect_blocking().finished.reason;
        assert!(matches!(reason, FinishReason::Cancelled | FinishReason::Length), "{reason:?}");
    }
    // There is room as soon as callers know of it.
    assert_length(&complete(&engine, request(prompt(1, 10), 2, 9)), 2);
}

#[test]
fn together_means_all_or_none() {
    let engine = engine(options());
    let asks = vec![request(prompt(1, 10), 5, 0), request(vec![1000], 5, 0)];
    assert!(engine.generate_together(asks).is_err());
    assert_eq!(engine.stats().requests, 0);
}

/// Trying again would never help, so it isn't what is said.
#[test]
fn a_group_that_never_fits_is_told_so() {
    let engine = engine(EngineOptions { max_running: 2, max_waiting: 1, ..options() });
    let asks = (0..4).map(|sample| request(prompt(1, 10), 5, sample)).collect();
    let refusal = engine.generate_together(asks).map(|_| ()).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyTogether { asked: 4, most: 3 });
}

#[tokio::test]
async fn async_callers_get_the_same() {
    let engine = engine(options());
    let expected = complete(&engine, request(prompt(1, 20), 12, 0));
    let generation = engine.generate(request(prompt(1, 20), 12, 0)).unwrap();
    let completion = generation.completion().await;
    assert_eq!(bits(&completion.tokens), bits(&expected.tokens));
    let events: Vec<Event> =
        engine.generate(request(prompt(1, 20), 12, 0)).unwrap().collect().await;
    assert_eq!(events.len(), 13);
    let tokens = events.into_iter().filter_map(|event| match event {
        Event::Token(token) => Some(token),
        Event::Prompt(_) | Event::Finished(_) => None,
    });
    assert_eq!(bits(&tokens.collect::<Vec<_>>()), bits(&expected.tokens));
}
