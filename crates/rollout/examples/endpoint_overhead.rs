//! What asking a model behind HTTP costs us: CPU time of this process for each turn of an episode,
//! with 1,000 episodes at once that call a tool, against a server in another process.
//!
//! ```sh
//! ulimit -n 8192
//! cargo run --release -p rocstar-rollout --example endpoint_overhead
//! ```
//!
//! The tool is a function in this process that does nothing, so what is measured is ours: requests,
//! reading the answers token by token, calls, the books. Printed for answers that come piece by
//! piece, each token by itself, and for whole ones.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for a person to read")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Pace, Reply, Script};
use rocstar_record::draw::Key;
use rocstar_record::episode::{Finish, TaskId, ToolOutcome};
use rocstar_record::message::{Message, Role, ToolCall, ToolSpec};
use rocstar_rollout::remote::{ChatOptions, ChatPlayer, EndpointOptions, Endpoints};
use rocstar_rollout::{
    Answered, Assignment, Played, Player as _, RolloutOptions, Task, Tool, ToolError, ToolInstance,
};
use serde_json::json;

const EPISODES: usize = 1000;
const TURNS: usize = 4;
/// The server counts four characters as a token.
const TEXT_CHARS: usize = 600;
const ROUNDS: usize = 5;

/// Answers at once.
#[derive(Debug, Clone, Copy)]
struct Nothing;

impl Tool for Nothing {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"code": {"type": "string"}}});
        ToolSpec { name: "run".to_owned(), description: None, parameters: Some(parameters) }
    }

    fn open(&self, _: Key) -> Box<dyn ToolInstance> {
        Box::new(*self)
    }
}

impl ToolInstance for Nothing {
    fn call<'tool>(&'tool self, _: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>> {
        let answered = Answered::refused("4".to_owned());
        std::future::ready(Ok(Answered { outcome: ToolOutcome::Ok, ..answered })).boxed()
    }

    fn is_sequential(&self) -> bool {
        false
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        _ => measure(),
    }
}

fn serve() {
    let script = Script::new(|question| {
        let text = "I think about it. ".repeat(TEXT_CHARS / 18);
        if question.turns() + 1 < TURNS {
            Reply::call(text, "run", &json!({"code": "print(2 + 2)"}))
        } else {
            Reply::text(text)
        }
    });
    let behaviour = Behaviour { script, pace: Pace::OneByOne, ..Behaviour::default() };
    let server = FakeEndpoint::start(behaviour).unwrap();
    println!("{}", server.url());
    // Until whoever started us goes away.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// CPU time of a process so far, all its threads together.
fn cpu_time(process: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let times = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

fn assignments() -> Vec<Assignment> {
    let task = |number: usize| Task {
        id: TaskId(number.to_string()),
        messages: vec![Message::text(Role::User, format!("What is {number} + {number}?"))],
        answer: String::new(),
        functions: Vec::new(),
        meta: serde_json::Map::new(),
    };
    let assignment = |number: usize| Assignment {
        task: Arc::new(task(number)),
        task_number: number as u64,
        sample: 0,
    };
    (0..EPISODES).map(assignment).collect()
}

fn measure() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let assignments = assignments();
    for stream in [true, false] {
        let options =
            EndpointOptions { max_concurrent: EPISODES, stream, ..EndpointOptions::at(url.trim()) };
        let rollout = RolloutOptions { most_running: EPISODES, ..RolloutOptions::default() };
        let endpoints = runtime.block_on(Endpoints::connect(vec![options])).unwrap();
        let tool = Some(Arc::new(Nothing) as _);
        let chat = ChatOptions::default();
        let player = ChatPlayer::new(Arc::new(endpoints), tool, rollout, chat).unwrap();
        let (done, turns, tokens) = Default::default();
        let (done, turns, tokens): (AtomicUsize, AtomicUsize, AtomicUsize) = (done, turns, tokens);
        let ended = |played: Played| {
            let attempt = played.attempt.unwrap();
            assert_eq!(attempt.finish, Finish::Done);
            done.fetch_add(1, Ordering::Relaxed);
            turns.fetch_add(attempt.turns.len(), Ordering::Relaxed);
            tokens.fetch_add(attempt.tokens.policy_tokens.unwrap(), Ordering::Relaxed);
        };
        let mut per_turn_ms = Vec::new();
        let began = Instant::now();
        let server_before = cpu_time(&server.id().to_string());
        for _ in 0..ROUNDS {
            let before = (cpu_time("self"), turns.load(Ordering::Relaxed));
            runtime.block_on(player.play(&assignments, &ended)).unwrap();
            let cpu = cpu_time("self") - before.0;
            let turns = turns.load(Ordering::Relaxed) - before.1;
            per_turn_ms.push(cpu.as_secs_f64() * 1000.0 / turns as f64);
        }
        let (wall, turns) = (began.elapsed(), turns.load(Ordering::Relaxed));
        let server_cpu = cpu_time(&server.id().to_string()) - server_before;
        per_turn_ms.sort_by(f64::total_cmp);
        println!(
            "{}: {:.3} ms of CPU a turn (median of {ROUNDS}; least {:.3}, most {:.3}), {} episodes, \
             {turns} turns of {} tokens, {:.1} s; the server took {:.3} ms a turn",
            if stream { "piece by piece" } else { "whole" },
            per_turn_ms[ROUNDS / 2],
            per_turn_ms[0],
            per_turn_ms[ROUNDS - 1],
            done.load(Ordering::Relaxed),
            tokens.load(Ordering::Relaxed) / turns,
            wall.as_secs_f64(),
            server_cpu.as_secs_f64() * 1000.0 / turns as f64,
        );
    }
    // Its standard input closes with this.
    drop(server.stdin.take());
    server.wait().unwrap();
}
