//! What rolling out costs beside the engine: wall time, the engine's own time, and its time a step,
//! with tokens delivered at the end and as they are sampled, each beside the engine alone on prompts
//! as long.
//!
//! ```sh
//! cargo run --release -p rocstar-rollout --example overhead
//! ```

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for a person to read")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_chat::Family;
use rocstar_engine::{Engine, EngineOptions, KvBudget, Request};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::Parameters;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role, ToolCall, ToolSpec};
use rocstar_rollout::{
    Answered, At, LocalGenerator, MathVerifier, Policy, RolloutOptions, Rollouts, Task, Tool,
    ToolError, ToolInstance, ToolMode, practice,
};

const SAMPLES: usize = 32;
const NEW_TOKENS: usize = 64;
const ROUNDS: usize = 7;

/// A tool that is described and never called.
#[derive(Debug)]
struct Idle;

impl Tool for Idle {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: "idle".to_owned(), description: None, parameters: None }
    }

    fn open(&self, _episode: Key) -> Box<dyn ToolInstance> {
        Box::new(Self)
    }
}

impl ToolInstance for Idle {
    fn call<'tool>(&'tool self, _: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>> {
        std::future::ready(Ok(Answered::refused("idle".to_owned()))).boxed()
    }

    fn is_sequential(&self) -> bool {
        false
    }
}

/// Wall time, and the engine's time and steps in it.
struct Measured {
    wall: Duration,
    busy: Duration,
    steps: u64,
    tokens: u64,
}

fn measure(engine: &Engine, work: &mut dyn FnMut()) -> Measured {
    let (before, began) = (engine.stats(), Instant::now());
    work();
    let (wall, after) = (began.elapsed(), engine.stats());
    Measured {
        wall,
        busy: after.busy - before.busy,
        steps: after.steps - before.steps,
        tokens: after.new_tokens - before.new_tokens,
    }
}

/// The round with the least wall time.
fn show(name: &str, rounds: Vec<Measured>) {
    let Some(best) = rounds.into_iter().min_by_key(|round| round.wall) else { return };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{name:<24} {:>8.1} ms  {:>6} tokens  engine {:>8.1} ms  {:>5.2} ms a step  outside {:>5.1} %",
        ms(best.wall),
        best.tokens,
        ms(best.busy),
        ms(best.busy) / best.steps.max(1) as f64,
        100.0 * (1.0 - best.busy.as_secs_f64() / best.wall.as_secs_f64()),
    );
}

fn main() {
    let tokenizer = practice::tokenizer().unwrap();
    let config = ModelConfig {
        vocabulary_size: tokenizer.vocabulary_size(),
        hidden_size: 128,
        layers: 4,
        heads: 4,
        key_value_heads: 4,
        head_size: 32,
        feed_forward_size: 384,
        ..ModelConfig::tiny()
    };
    let options = EngineOptions { kv: KvBudget::Tokens(1 << 16), ..EngineOptions::default() };
    let engine = Engine::start(config.clone(), &Parameters::random(&config, 1), options).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let task = Arc::new(Task {
        id: TaskId("t".to_owned()),
        messages: vec![Message::text(Role::User, "What is 6 times 7?")],
        answer: "42".to_owned(),
        functions: Vec::new(),
        meta: serde_json::Map::new(),
    });
    let rollouts = |tool: Option<Arc<dyn Tool>>| {
        let options = RolloutOptions {
            samples: SAMPLES,
            response_tokens: NEW_TOKENS,
            tool: if tool.is_some() { ToolMode::Stateless } else { ToolMode::None },
            ..RolloutOptions::default()
        };
        let policy = Policy { tokenizer: tokenizer.clone(), family: Family::rstar2().unwrap() };
        let generator = Arc::new(LocalGenerator::new(engine.clone()));
        Rollouts::new(policy, generator, tool, Arc::new(MathVerifier), options).unwrap()
    };
    let (at_end, as_sampled) = (rollouts(None), rollouts(Some(Arc::new(Idle))));
    let mut results = [const { Vec::new() }; 4];
    for round in 0..ROUNDS as u32 {
        let at = At { seed: 1, step: round, first_task: 0 };
        let tasks = [Arc::clone(&task)];
        let roll_out = |rollouts: &Rollouts| {
            runtime.block_on(rollouts.roll_out(at, &tasks, &|_| ())).unwrap();
        };
        let alone = |of: &Rollouts| {
            let prompt = vec![1; of.prompt_tokens(&task).unwrap()];
            let request = |sample| {
                let draw = Key { sample, step: round, ..Key::new(2, Purpose::Sampling) };
                Request::new(prompt.clone(), NEW_TOKENS, draw)
            };
            let requests = (0..SAMPLES as u32).map(request).collect();
            for generation in engine.generate_together(requests).unwrap() {
                generation.collect_blocking();
            }
        };
        results[0].push(measure(&engine, &mut || alone(&at_end)));
        results[1].push(measure(&engine, &mut || roll_out(&at_end)));
        results[2].push(measure(&engine, &mut || alone(&as_sampled)));
        results[3].push(measure(&engine, &mut || roll_out(&as_sampled)));
    }
    let names = [
        "without a tool, alone",
        "rollouts, at the end",
        "with a tool, alone",
        "rollouts, as sampled",
    ];
    names.into_iter().zip(results).for_each(|(name, rounds)| show(name, rounds));
}
