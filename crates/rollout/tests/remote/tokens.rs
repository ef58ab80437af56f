//! Servers that give tokens: what comes back is what they sampled, and through our own server the
//! same as from the engine itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use rocstar_chat::Family;
use rocstar_engine::openai::{Model, ServerOptions, serve};
use rocstar_engine::{Engine, EngineOptions, KvBudget, Sampling};
use rocstar_fake_endpoint::{
    Behaviour, Context, ContextWording, FakeEndpoint, Fault, Faults, Flavour, TokenScript,
};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::Parameters;
use rocstar_record::attempt::Attempt;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Episode, Timing};
use rocstar_rollout::remote::{
    EndpointKind, EndpointOptions, Endpoints, RemoteError, RemoteGenerator,
};
use rocstar_rollout::{
    Ask, At, Delivery, End, Generator, GeneratorError, LocalGenerator, MathVerifier, Piece,
    PlayError, Played, Player as _, Policy, RolloutOptions, Rollouts, Token, TokenPlayer, ToolMode,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Double, assignments, endpoint, task};
use crate::test_support::tokenizer;

const STOP: u32 = 99;

fn token_server(flavour: Flavour, faults: Faults) -> FakeEndpoint {
    let script = |question: &rocstar_fake_endpoint::TokenQuestion| {
        let first = question.prompt.first().copied().unwrap_or(0);
        (0..first).map(|at| 10 + at).chain([STOP]).collect()
    };
    let token_script = TokenScript::new(script);
    FakeEndpoint::start(Behaviour { flavour, faults, token_script, ..Behaviour::default() })
        .unwrap()
}

fn ask(first: u32, max_new_tokens: usize, temperature: f32) -> Ask {
    Ask {
        prompt: vec![first, 2, 3],
        max_new_tokens,
        sampling: Sampling { temperature, ..Sampling::default() },
        stop_tokens: vec![STOP],
        draw: Key { task: u64::from(first), ..Key::new(1, Purpose::Sampling) },
        delivery: Delivery::AsSampled,
    }
}

async fn all(generator: &RemoteGenerator, ask: Ask) -> Result<(Vec<Token>, End), GeneratorError> {
    let mut pieces = generator.generate(ask)?;
    let mut tokens = Vec::new();
    while let Some(piece) = pieces.next().await {
        match piece? {
            Piece::Tokens(new) => tokens.extend(new),
            Piece::End(end) => return Ok((tokens, end)),
        }
    }
    panic!("no end")
}

async fn remote(options: EndpointOptions) -> Result<RemoteGenerator, RemoteError> {
    RemoteGenerator::new(Arc::new(Endpoints::connect(vec![options]).await?))
}

async fn connect(server: &FakeEndpoint) -> RemoteGenerator {
    remote(endpoint(server)).await.unwrap()
}

#[tokio::test]
async fn tokens_come_with_what_is_known_of_them() {
    for (flavour, version) in [(Flavour::Vllm, 0), (Flavour::Sglang, 7)] {
        let server = token_server(flavour, Faults::none());
        let generator = connect(&server).await;
        let (tokens, end) = all(&generator, ask(3, 10, 1.0)).await.unwrap();
        let ids: Vec<u32> = tokens.iter().map(|token| token.token).collect();
        assert_eq!((ids, end), (vec![10, 11, 12, STOP], End::Stop(STOP)));
        let figure = |at: usize, token: u32| -((token % 7 + 1) as f32) / 8.0 - at as f32 / 64.0;
        for (at, token) in tokens.iter().enumerate() {
            let expected = figure(at, token.token);
            assert_eq!((token.log_prob, token.model_log_prob), (expected, expected));
            assert_eq!(token.version, version);
        }
        // At another temperature only one of the two is known, and the other is none.
        let (tokens, _) = all(&generator, ask(3, 10, 0.5)).await.unwrap();
        let (known, unknown) = match flavour {
            Flavour::Sglang => (tokens[0].log_prob, tokens[0].model_log_prob),
            _ => (tokens[0].model_log_prob, tokens[0].log_prob),
        };
        assert_eq!(known, figure(0, 10));
        assert!(unknown.is_nan());

        let (tokens, end) = all(&generator, ask(30, 4, 1.0)).await.unwrap();
        assert_eq!((tokens.len(), end), (4, End::Length));
        let known = Endpoints::connect(vec![endpoint(&server)]).await.unwrap();
        let kinds: Vec<_> = known.facts().iter().map(|it| it.kind).collect();
        let kind = if version == 0 { EndpointKind::Vllm } else { EndpointKind::Sglang };
        assert_eq!(kinds, [kind]);
        assert_eq!(generator.capacity().longest_tokens, 32_768);
    }
}

#[tokio::test]
async fn faults_leave_no_trace_in_tokens() {
    let faults = vec![
        Fault::Status(500),
        Fault::Cut { after_pieces: 1 },
        Fault::CutQuietly { after_pieces: 2 },
        Fault::ErrorWithin { after_pieces: 1 },
        Fault::TooMany { retry_after_s: Some(0.0) },
        Fault::Garbage,
        Fault::ByteByByte,
        Fault::Aborted,
        Fault::FalseEnd,
    ];
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let good_server = token_server(flavour, Faults::none());
        let good = connect(&good_server).await;
        let bad_server = token_server(flavour, Faults::each_question(2, faults.clone()));
        let bad = connect(&bad_server).await;
        for first in 0..14 {
            let expected = all(&good, ask(first, 9, 1.0)).await.unwrap();
            assert_eq!(all(&bad, ask(first, 9, 1.0)).await.unwrap(), expected);
        }
        let met: Vec<_> = bad_server.seen().iter().filter_map(|seen| seen.fault).collect();
        assert!(faults.iter().all(|fault| met.contains(fault)), "{flavour:?}: {met:?}");
    }
}

#[tokio::test]
async fn a_token_server_that_ignores_the_limit_is_cut_off() {
    for (flavour, fault) in [
        (Flavour::Vllm, Fault::NeverStops),
        (Flavour::Vllm, Fault::IgnoresLimit),
        (Flavour::Sglang, Fault::IgnoresLimit),
    ] {
        let server = token_server(flavour, Faults::always(fault));
        let generator = connect(&server).await;
        let (tokens, end) = all(&generator, ask(30, 5, 1.0)).await.unwrap();
        assert_eq!((tokens.len(), end), (5, End::Length), "{flavour:?} {fault:?}");
    }
}

#[tokio::test]
async fn a_context_shorter_than_the_ask_ends_the_answer() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        for wording in [ContextWording::Vllm, ContextWording::Sglang, ContextWording::Bare] {
            let context = Context { tokens: 20, wording };
            let token_script = TokenScript::new(|_| vec![7; 90]);
            let behaviour = Behaviour { flavour, context, token_script, ..Behaviour::default() };
            let server = FakeEndpoint::start(behaviour).unwrap();
            let generator = connect(&server).await;
            // Three tokens are the prompt.
            let (tokens, end) = all(&generator, ask(1, 52, 1.0)).await.unwrap();
            let fit = if wording == ContextWording::Bare { 13 } else { 17 };
            assert_eq!((tokens.len(), end), (fit, End::Context), "{flavour:?} {wording:?}");
            let (tokens, end) = all(&generator, ask(1, 17, 1.0)).await.unwrap();
            assert_eq!((tokens.len(), end), (17, End::Length), "{flavour:?} {wording:?}");
            let long = Ask { prompt: vec![1; 20], ..ask(1, 50, 1.0) };
            assert_eq!(all(&generator, long).await.unwrap(), (Vec::new(), End::Context));
        }
    }
}

/// The attempts of a server that meets one request with this fault.
async fn played(fault: Fault) -> Result<Vec<Result<Attempt, String>>, PlayError> {
    let policy = Policy { tokenizer: tokenizer(), family: Family::rstar2().unwrap() };
    let stop = policy.tokenizer.token_id(policy.family.end_of_turn()).unwrap();
    let server = FakeEndpoint::start(Behaviour {
        flavour: Flavour::Vllm,
        faults: Faults::new(move |arrival| (arrival.number == 1).then_some(fault)),
        token_script: TokenScript::new(move |_| vec![65, 66, stop]),
        ..Behaviour::default()
    })
    .unwrap();
    let generator = Arc::new(connect(&server).await);
    let options = RolloutOptions {
        response_tokens: 60,
        most_running: 1,
        tool: ToolMode::None,
        ..RolloutOptions::default()
    };
    let player = TokenPlayer::new(policy, generator, None, options, (3, "m".to_owned())).unwrap();
    let made = Mutex::new(BTreeMap::new());
    let ended = |one: Played| drop(made.lock().unwrap().insert(one.index, one.attempt));
    player.play(&assignments(&[task("1"), task("2"), task("3")], 1), &ended).await?;
    Ok(made.into_inner().unwrap().into_values().collect())
}

#[tokio::test]
async fn a_refused_ask_is_one_attempt_and_a_refused_key_is_all() {
    for status in [400, 409, 422] {
        let made = played(Fault::Status(status)).await.unwrap();
        let is_made: Vec<bool> = made.iter().map(Result::is_ok).collect();
        assert_eq!(is_made, [true, false, true]);
        let cause = made[1].as_ref().unwrap_err();
        assert!(cause.contains(&status.to_string()), "{cause}");
    }
    // Odd answers are tried again.
    for fault in [Fault::Aborted, Fault::FalseEnd] {
        assert!(played(fault).await.unwrap().iter().all(Result::is_ok), "{fault:?}");
    }
    for status in [401, 402, 403] {
        let ended = played(Fault::Status(status)).await.map(drop).unwrap_err().to_string();
        assert!(ended.contains(&status.to_string()), "{ended}");
    }
}

#[tokio::test]
async fn a_server_of_messages_is_no_generator() {
    let server = FakeEndpoint::start(Behaviour::default()).unwrap();
    let refused = remote(endpoint(&server)).await.map(drop).unwrap_err();
    assert!(matches!(refused, RemoteError::NoTokens { .. }), "{refused}");
}

fn engine() -> Engine {
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
        kv: KvBudget::Tokens(1 << 14),
        max_running: 8,
        threads: Some(1),
        ..EngineOptions::default()
    };
    Engine::start(config.clone(), &Parameters::random(&config, 1), options).unwrap()
}

async fn episodes(generator: Arc<dyn Generator>) -> Vec<Episode> {
    let policy = Policy { tokenizer: tokenizer(), family: Family::rstar2().unwrap() };
    let options = RolloutOptions {
        samples: 3,
        response_tokens: 60,
        temperature: 0.8,
        top_p: 0.95,
        tool: ToolMode::Stateless,
        ..RolloutOptions::default()
    };
    let tool = Some(Arc::new(Double) as _);
    let rollouts = Rollouts::new(policy, generator, tool, Arc::new(MathVerifier), options).unwrap();
    let at = At { seed: 3, step: 4, first_task: 10 };
    let rolled = rollouts.roll_out(at, &[task("1"), task("2")], &|_| {}).await.unwrap();
    let episodes = rolled.groups.into_iter().flat_map(|group| group.episodes);
    episodes.map(|episode| Episode { timing: Timing::default(), ..episode }).collect()
}

/// The same draws, so the same tokens, log-probabilities and versions, to the last bit: whether the
/// engine is asked here or through `rocstar serve`, whole or streamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_server_gives_what_the_engine_gives() {
    let engine = engine();
    let expected = episodes(Arc::new(LocalGenerator::new(engine.clone()))).await;
    assert_eq!(expected.len(), 6);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let model = Model::new("m".to_owned(), engine, tokenizer(), None, None, 0).unwrap();
    let stop = CancellationToken::new();
    let serving = serve(listener, model, ServerOptions::default(), stop.clone());
    let asking = async {
        for stream in [true, false] {
            let options = EndpointOptions { stream, ..EndpointOptions::at(url.clone()) };
            let known = Arc::new(Endpoints::connect(vec![options]).await.unwrap());
            assert_eq!(known.facts()[0].kind, EndpointKind::Rocstar);
            let generator = RemoteGenerator::new(known).unwrap();
            assert_eq!(generator.capacity().total_tokens, 1 << 14);
            assert_eq!(episodes(Arc::new(generator)).await, expected);
        }
        stop.cancel();
    };
    tokio::join!(serving, asking);
}
