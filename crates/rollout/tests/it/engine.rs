//! The engine as the policy: a small model of random weights.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use rocstar_engine::{Engine, EngineOptions, KvBudget};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::Parameters;
use rocstar_record::episode::Finish;
use rocstar_rollout::{Ask, Delivery};
use rocstar_rollout::{
    End, Generator as _, GeneratorError, LocalGenerator, MathVerifier, Piece, RolloutOptions,
    Rollouts, ToolMode,
};

use crate::support::*;

fn engine(kv_tokens: usize, max_running: usize) -> Engine {
    let config = ModelConfig {
        vocabulary_size: 258,
        hidden_size: 32,
        layers: 2,
        heads: 2,
        key_value_heads: 1,
        head_size: 16,
        feed_forward_size: 48,
        context_tokens: 2048,
        initializer_range: 0.2,
        ..ModelConfig::tiny()
    };
    let options = EngineOptions {
        kv: KvBudget::Tokens(kv_tokens),
        max_running,
        max_waiting: 2,
        step_tokens: 256,
        threads: Some(2),
        ..EngineOptions::default()
    };
    Engine::start(config.clone(), &Parameters::random(&config, 1), options).unwrap()
}

fn random_options(tool: ToolMode) -> RolloutOptions {
    RolloutOptions { samples: 4, response_tokens: 60, tool, ..options() }
}

fn with_engine(engine: &Engine, options: RolloutOptions) -> Rollouts {
    let tool = (options.tool != ToolMode::None).then(|| Arc::new(TableTool::working()) as _);
    let generator = Arc::new(LocalGenerator::new(engine.clone()));
    Rollouts::new(policy(), generator, tool, Arc::new(MathVerifier), options).unwrap()
}

/// With room for two or three episodes, the engine never has to throw one out; and neither the
/// cache's size nor how tokens are delivered changes an episode.
#[tokio::test]
async fn what_is_reserved_is_never_taken_away() {
    let tasks: Vec<_> = (0..4).map(|number| task(&format!("t{number}"), "?", "1")).collect();
    let mut seen = Vec::new();
    for (kv_tokens, max_running, tool) in [
        (1600, 8, ToolMode::Stateless),
        (1 << 16, 2, ToolMode::Stateless),
        (1 << 16, 16, ToolMode::Stateless),
    ] {
        let engine = engine(kv_tokens, max_running);
        let all = roll_out(&with_engine(&engine, random_options(tool)), &tasks).await;
        let stats = engine.stats();
        assert_eq!((stats.pre_emptions, stats.refused, stats.running), (0, 0, 0));
        assert_eq!(stats.new_tokens as usize, all.usage.policy_tokens);
        assert!(all.usage.most_reserved_tokens <= kv_tokens, "{:?}", all.usage);
        assert!(all.usage.most_at_once > 1 && all.usage.most_at_once <= max_running);
        seen.push(timeless(&all));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    assert!(seen[0].iter().any(|episode| episode.finish == Finish::TokenLimit));
    assert!(seen[0].iter().all(|one| one.weight_versions.iter().all(|(version, _)| *version == 0)));
    // Different samples and tasks draw differently.
    assert_ne!(seen[0][0].tokens, seen[0][1].tokens);
    assert_ne!(seen[0][0].tokens, seen[0][4].tokens);
}

fn ask(delivery: Delivery) -> Ask {
    Ask {
        prompt: vec![1, 2, 3],
        max_new_tokens: 40,
        sampling: rocstar_engine::Sampling::default(),
        stop_tokens: vec![257],
        draw: rocstar_record::draw::Key::new(1, rocstar_record::draw::Purpose::Sampling),
        delivery,
    }
}

#[tokio::test]
async fn delivery_changes_when_tokens_come_and_not_which() {
    use futures::StreamExt as _;
    let generator = LocalGenerator::new(engine(4096, 4));
    let mut all = Vec::new();
    for delivery in [Delivery::AsSampled, Delivery::AtEnd] {
        let pieces: Vec<_> = generator.generate(ask(delivery)).unwrap().collect().await;
        let pieces: Result<Vec<Piece>, GeneratorError> = pieces.into_iter().collect();
        let mut tokens = Vec::new();
        let mut end = None;
        for piece in pieces.unwrap() {
            assert_eq!(end, None, "nothing follows the end");
            match piece {
                Piece::Tokens(more) => tokens.extend(more),
                Piece::End(it) => end = Some(it),
            }
        }
        all.push((tokens, end));
    }
    assert_eq!(all[0], all[1]);
    assert!(matches!(all[0].1, Some(End::Length | End::Stop(257))));
}

#[tokio::test]
async fn refusals_say_what_can_be_done() {
    let engine = engine(4096, 1);
    let generator = LocalGenerator::new(engine.clone());
    let refused = |ask| match generator.generate(ask) {
        Err(GeneratorError::Refused { cause }) => cause,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let outside = refused(Ask { prompt: vec![300], ..ask(Delivery::AtEnd) });
    assert!(outside.contains("token 300"), "{outside}");
    let long = refused(Ask { prompt: vec![1; 4000], ..ask(Delivery::AtEnd) });
    assert!(long.contains("the context holds 2048"), "{long}");
    // More asks than may run and wait.
    let endless = || Ask { max_new_tokens: 2000, stop_tokens: vec![], ..ask(Delivery::AtEnd) };
    let running: Vec<_> = (0..4).map(|_| generator.generate(endless())).collect();
    assert!(running[..3].iter().all(Result::is_ok));
    assert!(matches!(running[3], Err(GeneratorError::Busy { .. })));
}

/// Dropping a rollout half-way ends what the engine did for it.
#[tokio::test]
async fn a_rollout_that_is_dropped_frees_the_engine() {
    let engine = engine(1 << 16, 16);
    let options = RolloutOptions { response_tokens: 1500, ..random_options(ToolMode::Stateless) };
    let rollouts = with_engine(&engine, options);
    let tasks = [task("a", "?", "1")];
    {
        let rolling = rollouts.roll_out(AT, &tasks, &|_| ());
        let begun = async {
            while engine.stats().new_tokens < 40 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = begun => {}
            _ = rolling => {}
        }
    }
    while engine.stats().running + engine.stats().waiting > 0 {
        tokio::task::yield_now().await;
    }
    assert!(engine.stats().new_tokens < 4 * 1500, "they were cut short");
}
