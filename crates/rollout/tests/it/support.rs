//! A policy that writes what a script says, a tool that answers from a table, and tasks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::StreamExt as _;
use rocstar_chat::{Family, Special};
use rocstar_record::draw::Key;
use rocstar_record::episode::{Episode, TaskId, Timing, ToolOutcome};
use rocstar_record::message::{Arguments, Message, Role, ToolCall, ToolSpec};
use rocstar_rollout::{
    Answered, Ask, At, BoxStream, Capacity, End, Generator, GeneratorError, MathVerifier, Piece,
    Policy, Progress, RolledOutAll, RolloutError, RolloutOptions, Rollouts, Task, Token, Tool,
    ToolError, ToolInstance,
};
use serde_json::json;

use crate::test_support::tokenizer;

pub(crate) const END: &str = "<|im_end|>";
pub(crate) const AT: At = At { seed: 3, step: 4, first_task: 10 };

pub(crate) fn task(id: &str, problem: &str, answer: &str) -> Arc<Task> {
    Arc::new(Task {
        id: TaskId(id.to_owned()),
        messages: vec![Message::text(Role::User, problem)],
        answer: answer.to_owned(),
        functions: Vec::new(),
        meta: serde_json::Map::new(),
    })
}

pub(crate) fn policy() -> Policy {
    Policy { tokenizer: tokenizer(), family: Family::rstar2().unwrap() }
}

pub(crate) fn options() -> RolloutOptions {
    RolloutOptions { samples: 4, response_tokens: 3000, max_turns: 4, ..Default::default() }
}

pub(crate) fn call(code: &str) -> String {
    let call = json!({"name": "python_code_with_standard_io", "arguments": {"code": code}});
    format!("<tool_call>\n{call}\n</tool_call>")
}

pub(crate) fn answer(value: &str) -> String {
    format!("so</reason><answer>\\boxed{{{value}}}</answer>{END}")
}

/// What a policy writes, by the draw of the turn.
type Script = dyn Fn(Key) -> String + Send + Sync;

/// A policy that writes what its script says, a token at a time, each at another poll.
pub(crate) struct Scripted {
    script: Box<Script>,
    pub(crate) capacity: Capacity,
    /// Asks so far.
    pub(crate) asks: AtomicUsize,
    /// The first asks fail with these, in order, before any token.
    pub(crate) failures: Vec<GeneratorError>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Scripted {
    pub(crate) fn new(script: impl Fn(Key) -> String + Send + Sync + 'static) -> Self {
        let capacity = Capacity {
            total_tokens: 1 << 20,
            free_tokens: 1 << 20,
            block_tokens: 32,
            shares_prefixes: true,
            longest_tokens: 1 << 16,
            most_running: 64,
        };
        let asks = AtomicUsize::new(0);
        Self { script: Box::new(script), capacity, asks, failures: Vec::new() }
    }
}

impl Generator for Scripted {
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
        let number = self.asks.fetch_add(1, Ordering::Relaxed);
        match self.failures.get(number) {
            Some(GeneratorError::Failed { cause }) => {
                let error = GeneratorError::Failed { cause: cause.clone() };
                return Ok(futures::stream::iter([Err(error)]).boxed());
            }
            Some(error) => return Err(error.clone()),
            None => {}
        }
        let mut tokens = tokenizer().encode(&(self.script)(ask.draw), Special::Parse).unwrap();
        let stop = tokens.iter().position(|token| ask.stop_tokens.contains(token));
        tokens.truncate(stop.map_or(usize::MAX, |at| at + 1).min(ask.max_new_tokens));
        let stopped = tokens.last().filter(|last| ask.stop_tokens.contains(last));
        let end = stopped.map_or(End::Length, |stop| End::Stop(*stop));
        let token = |(index, token)| {
            let log_prob = -0.001 * index as f32;
            Token { token, log_prob, model_log_prob: 2.0 * log_prob, version: 1 }
        };
        let tokens = tokens.into_iter().enumerate().map(token);
        let pieces: Vec<Piece> =
            tokens.map(|token| Piece::Tokens(vec![token])).chain([Piece::End(end)]).collect();
        let late = futures::stream::iter(pieces).then(|piece| async {
            tokio::task::yield_now().await;
            Ok(piece)
        });
        Ok(late.boxed())
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }
}

/// What becomes of a program, by its text.
type Table = dyn Fn(String) -> BoxFuture<'static, Result<ToolOutcome, ToolError>> + Send + Sync;

/// A tool that answers `ran CODE`, or what its table says.
#[derive(Clone)]
pub(crate) struct TableTool {
    table: Arc<Table>,
    is_sequential: bool,
}

impl fmt::Debug for TableTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableTool").finish_non_exhaustive()
    }
}

impl TableTool {
    pub(crate) fn new<F>(table: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ToolOutcome, ToolError>> + Send + 'static,
    {
        Self { table: Arc::new(move |code| table(code).boxed()), is_sequential: false }
    }

    pub(crate) fn sequential(self) -> Self {
        Self { is_sequential: true, ..self }
    }

    pub(crate) fn working() -> Self {
        Self::new(|_| std::future::ready(Ok(ToolOutcome::Ok)))
    }
}

impl Tool for TableTool {
    fn spec(&self) -> ToolSpec {
        let name = "python_code_with_standard_io".to_owned();
        ToolSpec { name, description: None, parameters: None }
    }

    fn open(&self, _episode: Key) -> Box<dyn ToolInstance> {
        Box::new(self.clone())
    }
}

impl ToolInstance for TableTool {
    fn call<'tool>(&'tool self, call: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>> {
        let Arguments::Object(arguments) = &call.arguments else { panic!("{call:?}") };
        let code = arguments["code"].as_str().unwrap().to_owned();
        let outcome = (self.table)(code.clone());
        let answered = async move {
            let refused = Answered::refused(format!("ran {code}"));
            Ok(Answered { outcome: outcome.await?, program: code, ..refused })
        };
        answered.boxed()
    }

    fn is_sequential(&self) -> bool {
        self.is_sequential
    }
}

pub(crate) fn rollouts(
    generator: impl Generator + 'static,
    tool: impl Tool + 'static,
    options: RolloutOptions,
) -> Rollouts {
    let (generator, tool) = (Arc::new(generator), Some(Arc::new(tool) as _));
    Rollouts::new(policy(), generator, tool, Arc::new(MathVerifier), options).unwrap()
}

pub(crate) async fn roll_out(rollouts: &Rollouts, tasks: &[Arc<Task>]) -> RolledOutAll {
    let all = try_roll_out(rollouts, tasks).await.unwrap();
    let samples = rollouts.options().samples;
    for group in &all.groups {
        assert_eq!(group.episodes.len() + group.lost.len(), samples, "none is missing");
        assert!(group.episodes.iter().all(|episode| episode.check().is_ok()));
    }
    all
}

pub(crate) async fn try_roll_out(
    rollouts: &Rollouts,
    tasks: &[Arc<Task>],
) -> Result<RolledOutAll, RolloutError> {
    let last = std::sync::Mutex::new(None);
    let told = |progress: Progress| {
        let mut last = last.lock().unwrap();
        let before: Option<Progress> = last.replace(progress);
        assert_eq!(progress.ended, before.map_or(0, |before| before.ended) + 1);
    };
    let all = rollouts.roll_out(AT, tasks, &told).await?;
    let told = last.into_inner().unwrap().unwrap();
    assert_eq!((told.ended, told.of), (told.of, tasks.len() * rollouts.options().samples));
    assert_eq!(told.lost, all.groups.iter().map(|group| group.lost.len()).sum::<usize>());
    Ok(all)
}

/// Episodes without their times.
pub(crate) fn timeless(all: &RolledOutAll) -> Vec<Episode> {
    let mut episodes: Vec<Episode> =
        all.groups.iter().flat_map(|group| group.episodes.clone()).collect();
    for episode in &mut episodes {
        episode.timing = Timing::default();
        for call in episode.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
            (call.wall_us, call.cpu_us, call.memory_bytes) = (0, 0, None);
        }
    }
    episodes
}
