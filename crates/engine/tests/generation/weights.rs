//! Weights replaced while the engine runs.

use rocstar_engine::{
    Engine, EngineError, Event, FinishReason, Generation, SampledToken, WeightVersion,
};
use rocstar_nn::parameters::{LayerSlot, Slot};

use super::{
    ENDLESS, bits, complete, config, endless_engine, engine, options, parameters, prompt, request,
};

const NEXT: WeightVersion = WeightVersion(7);

#[test]
fn after_a_load_the_engine_is_one_with_these_weights() {
    let engine = engine(options());
    // Fills the cache with prefixes of the old weights.
    let old = complete(&engine, request(prompt(1, 70), 10, 0));
    engine.load_weights(&parameters(2), NEXT).unwrap();
    let new = complete(&engine, request(prompt(1, 70), 10, 0));
    let fresh = Engine::start(config(), &parameters(2), options()).unwrap();
    let expected = complete(&fresh, request(prompt(1, 70), 10, 0));
    assert_eq!(bits(&new.tokens), bits(&expected.tokens));
    assert_ne!(bits(&new.tokens), bits(&old.tokens));
    assert_eq!(new.finished.usage.cached_tokens, 0);
    assert!(old.tokens.iter().all(|token| token.version == WeightVersion(0)));
    assert!(new.tokens.iter().all(|token| token.version == NEXT));
    assert_eq!((engine.stats().version, engine.stats().weight_loads), (NEXT, 1));
}

#[test]
fn sequences_in_flight_go_on_with_the_new_weights() {
    let engine = endless_engine(&options());
    let (config, options) = (engine.config().clone(), engine.options().clone());
    let fresh = Engine::start(config, &parameters(2), options).unwrap();
    let asks = (0..6).map(|sample| request(prompt(1, 50), ENDLESS, sample)).collect();
    let mut under_way = engine.generate_together(asks).unwrap();
    let mut first = vec![next_token(&mut under_way[0])];
    first.extend((0..4).map(|_| next_token(&mut under_way[0])));
    engine.load_weights(&parameters(2), NEXT).unwrap();
    for (sample, mut generation) in under_way.into_iter().enumerate() {
        let mut tokens = if sample == 0 { std::mem::take(&mut first) } else { Vec::new() };
        let is_new = |token: &&SampledToken| token.version == NEXT;
        while tokens.iter().filter(is_new).count() < 40 {
            tokens.push(next_token(&mut generation));
        }
        drop(generation);
        // Wherever the load came in between: from there on it is as if the new weights had been
        // given the text so far.
        let old = tokens.len() - 40;
        assert!(tokens[..old].iter().all(|token| token.version == WeightVersion(0)));
        let mut text = prompt(1, 50);
        text.extend(tokens[..old].iter().map(|token| token.token));
        let rest = complete(&fresh, request(text, 40, sample as u32));
        assert_eq!(bits(&rest.tokens), bits(&tokens[old..]));
    }
    assert!(engine.stats().pre_emptions >= 6);
}

fn next_token(generation: &mut Generation) -> SampledToken {
    match generation.next_blocking() {
        Some(Event::Token(token)) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_load_that_cannot_be_leaves_the_present_weights() {
    let engine = engine(options());
    let before = complete(&engine, request(prompt(1, 10), 10, 0));
    let mut broken = parameters(2);
    broken.slot_mut(Slot::Layer(0, LayerSlot::Down))[0] = f32::INFINITY;
    let error = engine.load_weights(&broken, NEXT).unwrap_err();
    assert!(matches!(error, EngineError::NotFinite { .. }), "{error}");
    let error = engine.load_weights(&parameters(2), WeightVersion(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "weights of version 0 can't follow version 0: versions must rise"
    );
    let after = complete(&engine, request(prompt(1, 10), 10, 0));
    assert_eq!(bits(&before.tokens), bits(&after.tokens));
    assert_eq!(engine.stats().weight_loads, 0);
}

#[test]
fn weights_that_overflow_end_the_generation_and_not_the_engine() {
    let mut wild = parameters(1);
    wild.slot_mut(Slot::FinalNorm).fill(f32::MAX);
    let engine = Engine::start(config(), &wild, options()).unwrap();
    let completion = complete(&engine, request(prompt(1, 10), 10, 0));
    let FinishReason::EngineFailed { cause } = completion.finished.reason else {
        panic!("{:?}", completion.finished);
    };
    assert_eq!(cause, "the logits after 10 tokens are not finite; weights of version 0");
    assert_eq!(completion.tokens, []);
    engine.load_weights(&parameters(1), NEXT).unwrap();
    assert_eq!(complete(&engine, request(prompt(1, 10), 10, 0)).tokens.len(), 10);
}
