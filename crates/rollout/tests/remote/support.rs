//! Servers by script, a tool that doubles, and a player that is asked for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Question, Reply, Script};
use rocstar_record::attempt::Attempt;
use rocstar_record::draw::Key;
use rocstar_record::episode::{TaskId, Timing, ToolOutcome};
use rocstar_record::message::{Arguments, Message, Role, ToolCall, ToolSpec};
use rocstar_rollout::remote::{ChatOptions, ChatPlayer, EndpointOptions, Endpoints};
use rocstar_rollout::{
    Answered, Assignment, PlayError, Played, Player as _, RolloutOptions, Task, Tool, ToolError,
    ToolInstance,
};
use serde_json::json;

pub(crate) const TOOL: &str = "double";

/// Answers `2·n`, whatever is asked of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Double;

impl Tool for Double {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        ToolSpec { name: TOOL.to_owned(), description: None, parameters: Some(parameters) }
    }

    fn open(&self, _: Key) -> Box<dyn ToolInstance> {
        Box::new(*self)
    }
}

impl ToolInstance for Double {
    fn call<'tool>(&'tool self, call: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>> {
        let Arguments::Object(arguments) = &call.arguments else { panic!("{call:?}") };
        let answer = arguments["n"].as_i64().map_or(0, |n| 2 * n).to_string();
        let refused = Answered::refused(answer);
        std::future::ready(Ok(Answered { outcome: ToolOutcome::Ok, ..refused })).boxed()
    }

    fn is_sequential(&self) -> bool {
        false
    }
}

/// Doubles the problem's number with the tool, a few turns long by the seed of the first, and
/// answers what the tool said.
pub(crate) fn doubling() -> Script {
    Script::new(|question: &Question| {
        let first = question.messages[0]["content"].as_str().unwrap_or_default();
        let n: i64 = first.parse().unwrap_or(0);
        let turns = 1 + (n as usize) % 3;
        if question.turns() < turns {
            let last = question.last_text().parse::<i64>().unwrap_or(n);
            let text = format!("I double {last}, seed {}. ", question.seed % 1000);
            return Reply::call(text, TOOL, &json!({"n": last}));
        }
        let reasoning = "as it says".to_owned();
        Reply { reasoning, ..Reply::text(format!("It is {}.", question.last_text())) }
    })
}

pub(crate) fn behaviour() -> Behaviour {
    Behaviour { script: doubling(), ..Behaviour::default() }
}

/// Quick to try again; patient enough for a busy machine.
pub(crate) fn endpoint(server: &FakeEndpoint) -> EndpointOptions {
    EndpointOptions {
        first_byte_ms: 1000,
        idle_ms: 1000,
        request_ms: 20_000,
        first_pause_ms: 1,
        longest_pause_ms: 20,
        tries: 8,
        ..EndpointOptions::at(server.url())
    }
}

pub(crate) fn options() -> RolloutOptions {
    RolloutOptions { response_tokens: 500, max_turns: 5, temperature: 0.6, ..Default::default() }
}

pub(crate) fn task(problem: &str) -> Arc<Task> {
    Arc::new(Task {
        id: TaskId(problem.to_owned()),
        messages: vec![Message::text(Role::User, problem)],
        answer: String::new(),
        functions: Vec::new(),
        meta: serde_json::Map::new(),
    })
}

pub(crate) fn assignments(tasks: &[Arc<Task>], samples: u32) -> Vec<Assignment> {
    let numbered = (0..).zip(tasks);
    let of = |(number, task): (u64, &Arc<Task>)| {
        let task = Arc::clone(task);
        (0..samples)
            .map(move |sample| Assignment { task: Arc::clone(&task), task_number: number, sample })
            .collect::<Vec<_>>()
    };
    numbered.flat_map(of).collect()
}

/// What became of each assignment, by its index; each exactly once.
pub(crate) type All = BTreeMap<usize, Result<Attempt, String>>;

pub(crate) async fn play_with(
    endpoints: Vec<EndpointOptions>,
    options: RolloutOptions,
    assignments: &[Assignment],
) -> Result<All, PlayError> {
    let endpoints = Arc::new(Endpoints::connect(endpoints).await?);
    let tool = (options.tool != rocstar_rollout::ToolMode::None).then(|| Arc::new(Double) as _);
    let chat = ChatOptions { seed: 5, tool_answer_chars: 20 };
    let player = ChatPlayer::new(endpoints, tool, options, chat)?;
    let all = Mutex::new(All::new());
    player
        .play(assignments, &|Played { index, attempt }| {
            let before = all.lock().unwrap().insert(index, attempt);
            assert!(before.is_none(), "{index} came twice");
        })
        .await?;
    let all = all.into_inner().unwrap();
    assert_eq!(all.len(), assignments.len(), "none is missing");
    Ok(all)
}

/// The one attempt at one problem.
pub(crate) async fn attempt(
    server: &FakeEndpoint,
    options: RolloutOptions,
    task: Arc<Task>,
) -> Result<Attempt, String> {
    let all = play_with(vec![endpoint(server)], options, &assignments(&[task], 1)).await;
    all.unwrap().remove(&0).unwrap()
}

/// Attempts without their times and the server's address, which is another each time.
pub(crate) fn timeless(all: All) -> BTreeMap<usize, Attempt> {
    let strip = |(index, attempt): (usize, Result<Attempt, String>)| {
        let attempt = attempt.unwrap_or_else(|cause| panic!("{index}: {cause}"));
        (index, Attempt { timing: Timing::default(), generator: String::new(), ..attempt })
    };
    all.into_iter().map(strip).collect()
}
