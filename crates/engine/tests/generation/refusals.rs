//! What is refused, before anything is computed, and how that reads.

use rocstar_engine::{
    Engine, EngineError, EngineOptions, KvBudget, OptionProblem, Refusal, Request, Sampling,
};
use rocstar_nn::parameters::{LayerSlot, Parameters, Slot};

use super::{config, engine, options, parameters, prompt, request};

fn refusal(change: impl FnOnce(&mut Request)) -> Refusal {
    let mut ask = request(prompt(1, 10), 5, 0);
    change(&mut ask);
    let engine = engine(EngineOptions { kv: KvBudget::Tokens(256), ..options() });
    let refusal = engine.generate(ask).map(|_| ()).unwrap_err();
    assert_eq!(engine.stats().requests, 0);
    refusal
}

#[test]
fn a_request_that_cannot_be_carried_out() {
    assert_eq!(refusal(|ask| ask.prompt.clear()), Refusal::PromptEmpty);
    let outside = Refusal::TokenOutside { index: 3, token: 61, vocabulary: 61 };
    assert_eq!(refusal(|ask| ask.prompt[3] = 61), outside);
    assert_eq!(
        refusal(|ask| ask.prompt = prompt(1, 300)),
        Refusal::PromptTooLong { prompt_tokens: 300, context_tokens: 300 }
    );
    assert_eq!(
        refusal(|ask| ask.prompt = prompt(1, 256)),
        Refusal::PromptOverCache { prompt_tokens: 256, cache_tokens: 256 }
    );
    assert_eq!(refusal(|ask| ask.stop.strings = vec!["x".into()]), Refusal::StopWithoutText);
    let empty = refusal(|ask| ask.stop.strings = vec!["x".into(), String::new()]);
    assert_eq!(empty, Refusal::StopEmpty { index: 1 });
}

#[test]
fn numbers_outside_their_range_are_named() {
    let plain = Sampling::default();
    let wrong = [
        ("temperature", Sampling { temperature: -1.0, ..plain }),
        ("temperature", Sampling { temperature: f32::NAN, ..plain }),
        ("temperature", Sampling { temperature: f32::INFINITY, ..plain }),
        ("top_p", Sampling { top_p: 0.0, ..plain }),
        ("top_p", Sampling { top_p: 1.1, ..plain }),
        ("top_p", Sampling { top_p: f32::NAN, ..plain }),
        ("min_p", Sampling { min_p: -0.1, ..plain }),
        ("min_p", Sampling { min_p: 2.0, ..plain }),
        ("top_k", Sampling { top_k: Some(0), ..plain }),
    ];
    for (field, sampling) in wrong {
        let text = refusal(|ask| ask.sampling = sampling).to_string();
        assert!(text.starts_with(&format!("`{field}` is ")), "{text}");
    }
    let text = refusal(|ask| ask.top_log_probs = 65).to_string();
    assert_eq!(text, "`top_log_probs` is 65, but must be at most 64");
    let text = refusal(|ask| ask.stop.max_new_tokens = 0).to_string();
    assert_eq!(text, "`stop.max_new_tokens` is 0, but must be at least 1");
}

#[test]
fn all_problems_of_options_come_at_once() {
    let wrong = EngineOptions {
        kv: KvBudget::Bytes(10),
        max_running: 8,
        max_waiting: 0,
        step_tokens: 4,
        context_tokens: Some(301),
        threads: Some(0),
        ..options()
    };
    let Err(EngineError::Options(problems)) = Engine::start(config(), &parameters(1), wrong) else {
        panic!("started");
    };
    assert_eq!(problems.len(), 5);
    assert!(problems.contains(&OptionProblem::Zero { field: "threads" }));
    assert!(problems.contains(&OptionProblem::ContextTooLong { asked: 301, model: 300 }));
}

#[test]
fn weights_that_do_not_fit_or_are_no_numbers() {
    let mut broken = parameters(1);
    broken.slot_mut(Slot::Layer(1, LayerSlot::Up))[7] = f32::NAN;
    let error = Engine::start(config(), &broken, options()).unwrap_err().to_string();
    assert!(error.starts_with("weight `model.layers.1.mlp.up_proj.weight`"), "{error}");
    let other = rocstar_nn::config::ModelConfig { layers: 1, ..config() };
    let error = Engine::start(config(), &Parameters::random(&other, 1), options()).unwrap_err();
    assert!(matches!(error, EngineError::OtherShape { .. }), "{error}");
}
