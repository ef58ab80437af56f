//! The Python tool in the real sandbox: what a policy is told, and what is written down.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Doing, Episode, ToolOutcome};
use rocstar_record::message::{Arguments, ToolCall};
use rocstar_rollout::{Answered, PythonTool, RolloutOptions, Tool, ToolInstance, ToolMode};
use rocstar_sandbox::{Error, LocalSandbox, ServiceConfig, jail};
use serde_json::{Value, json};

use crate::support::*;

/// The sandbox, or a line that says why this host can't run it.
pub(crate) fn sandbox() -> Option<Arc<LocalSandbox>> {
    let jail = jail::Config { slots: 4, scientific: false, ..jail::Config::default() };
    match LocalSandbox::start(ServiceConfig { jail, ..ServiceConfig::default() }) {
        Ok(sandbox) => Some(Arc::new(sandbox)),
        Err(Error::Jail(jail::Error::Isolation { lacks })) => {
            println!("SKIP {lacks}");
            None
        }
        Err(error) => panic!("the sandbox does not start: {error}"),
    }
}

pub(crate) fn tool(sandbox: &Arc<LocalSandbox>, tool: ToolMode) -> PythonTool {
    let options = RolloutOptions { tool, tool_wall_ms: 2_000, ..options() };
    PythonTool::new(Arc::clone(sandbox) as _, &options).unwrap()
}

fn open(sandbox: &Arc<LocalSandbox>, mode: ToolMode) -> Box<dyn ToolInstance> {
    tool(sandbox, mode).open(Key::new(1, Purpose::Sampling))
}

fn arguments(arguments: Value) -> ToolCall {
    let Value::Object(map) = arguments else { panic!("{arguments}") };
    ToolCall { id: None, name: String::new(), arguments: Arguments::Object(map) }
}

async fn run(tool: &dyn ToolInstance, code: &str) -> Answered {
    tool.call(&arguments(json!({"code": code}))).await.unwrap()
}

fn exception(name: &str) -> ToolOutcome {
    ToolOutcome::Exception { name: name.to_owned() }
}

#[tokio::test]
async fn each_program_is_told_as_it_ended() {
    let Some(sandbox) = sandbox() else { return };
    let tool = open(&sandbox, ToolMode::Stateless);
    let limit = |what: &str| ToolOutcome::Limit { what: what.to_owned() };
    for (code, outcome, text) in [
        ("print(6 * 7)", ToolOutcome::Ok, "42"),
        ("x = 6\nprint('a')\nx * 7", ToolOutcome::Ok, "a\n42"),
        ("x = 1", ToolOutcome::Ok, "The program ended without output."),
        ("import sys; sys.exit(0)", ToolOutcome::Ok, "The program ended without output."),
        (
            "import sys; sys.exit(3)",
            ToolOutcome::Exit { code: 3 },
            "The program left with exit status 3.",
        ),
        (
            "print(1",
            exception("SyntaxError"),
            "SyntaxError at line 1: '(' was never closed\n    print(1",
        ),
        (
            "print(1)\nprint(y)",
            exception("NameError"),
            "1\nNameError at line 2: name 'y' is not defined\n    print(y)",
        ),
        (
            "def f(x):\n    return 1 / x\nf(0)",
            exception("ZeroDivisionError"),
            "ZeroDivisionError at line 2: division by zero\n    return 1 / x",
        ),
        ("raise KeyError", exception("KeyError"), "KeyError at line 1\n    raise KeyError"),
        (
            "while True: pass",
            ToolOutcome::Timeout,
            "Timeout: the program ran longer than 2000 ms and was stopped.",
        ),
        (
            "x = 'x' * (2 << 30)",
            limit("memory"),
            "MemoryError: the program used more memory than it may.",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            limit("signal SIGSEGV"),
            "The program was killed by SIGSEGV.",
        ),
    ] {
        let answered = run(&*tool, code).await;
        assert_eq!((answered.outcome, answered.text.as_str()), (outcome, text), "{code}");
        assert_eq!(answered.program, code);
        assert!(!answered.isolation.is_empty() && answered.memory_bytes.is_some(), "{code}");
    }
    let read = tool.call(&arguments(json!({"code": "input()", "input": "4\n"}))).await.unwrap();
    assert_eq!((read.text.as_str(), read.input.as_str()), ("'4'", "4\n"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_the_policys_fault() {
    let Some(sandbox) = sandbox() else { return };
    let tool = open(&sandbox, ToolMode::Stateless);
    for (given, expected) in [
        (json!({}), "the argument `code` is missing."),
        (json!({"code": 1}), "`code` must be a string."),
        (json!({"code": "1", "input": 2}), "`input` must be a string."),
        (json!({"code": "1", "x": 2}), "there is no argument `x`; there are `code` and `input`."),
        (json!({"code": "a\0b"}), "program: holds a NUL byte at offset 1; Python source can't"),
    ] {
        let answered = tool.call(&arguments(given)).await.unwrap();
        assert_eq!(answered.text, format!("Tool call refused: {expected}"));
        assert!(matches!(answered.outcome, ToolOutcome::Refused { .. }));
    }
}

#[tokio::test]
async fn a_session_remembers_and_a_new_episode_does_not() {
    let Some(sandbox) = sandbox() else { return };
    let first = open(&sandbox, ToolMode::Session);
    assert!(first.is_sequential());
    assert_eq!(run(&*first, "x = 5").await.text, "The program ended without output.");
    assert_eq!(run(&*first, "x + 1").await.text, "6");
    assert_eq!(run(&*first, "print(y)").await.outcome, exception("NameError"));
    assert_eq!(run(&*first, "x + 2").await.text, "7", "a fault keeps the state");
    let second = open(&sandbox, ToolMode::Session);
    assert_eq!(run(&*second, "x").await.outcome, exception("NameError"));
    let stateless = open(&sandbox, ToolMode::Stateless);
    run(&*stateless, "x = 5").await;
    assert_eq!(run(&*stateless, "x").await.outcome, exception("NameError"));
}

/// A program that ends the session's interpreter is told so, and the next call gets a new one.
#[tokio::test]
async fn a_session_that_its_program_ended_begins_anew() {
    let Some(sandbox) = sandbox() else { return };
    let tool = open(&sandbox, ToolMode::Session);
    run(&*tool, "x = 5").await;
    for code in
        ["import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    {
        let ended = run(&*tool, code).await;
        assert!(ended.outcome.is_failure(), "{ended:?}");
        let after = run(&*tool, "x").await;
        assert_eq!(after.outcome, exception("NameError"), "{code}: {after:?}");
        run(&*tool, "x = 5").await;
    }
}

/// Each turn, call and verification is written down with its time, one turn after the other.
fn assert_activities(episode: &Episode) {
    let activities = &episode.timing.activities;
    let of = |what| activities.iter().filter(move |it| it.what == what);
    let counts = [Doing::Generating, Doing::Tool, Doing::Verifying].map(|what| of(what).count());
    assert_eq!(counts, [episode.turns.len(), episode.calls().count(), 1]);
    let mut end = 0;
    for turn in of(Doing::Generating) {
        assert!(turn.from_us >= end, "{activities:?}");
        end = turn.from_us + turn.us;
    }
    let verifying = activities.last().unwrap();
    assert_eq!(verifying.what, Doing::Verifying);
    assert!(verifying.from_us >= end, "{activities:?}");
    let all_calls: u64 = of(Doing::Tool).map(|call| call.us).sum();
    let in_calls: u64 = episode.calls().map(|call| call.wall_us).sum();
    assert!(all_calls >= in_calls, "{activities:?}");
}

/// A whole episode: a fault, its correction, the answer.
#[tokio::test]
async fn an_episode_learns_from_what_its_program_did() {
    let Some(sandbox) = sandbox() else { return };
    let script = |draw: Key| match draw.turn {
        0 => format!("{}{END}", call("print(6 * 7")),
        1 => format!("{}{}{END}", call("print(6 * 7)"), call("2 ** 10")),
        _ => answer("42"),
    };
    let options = RolloutOptions { tool_wall_ms: 2_000, ..options() };
    let tool = PythonTool::new(Arc::clone(&sandbox) as _, &options).unwrap();
    assert_eq!(tool.spec().name, "python_code_with_standard_io");
    let rollouts = rollouts(Scripted::new(script), tool, options);
    let all = roll_out(&rollouts, &[task("a", "What is 6 times 7?", "42")]).await;
    for episode in &all.groups[0].episodes {
        let shown: Vec<&str> = episode.calls().map(|call| call.shown.as_str()).collect();
        let fault = "SyntaxError at line 1: '(' was never closed\n    print(6 * 7";
        assert_eq!(shown, [fault, "42", "1024"]);
        assert_eq!(episode.reward, 1.0);
        assert!(episode.calls().all(|call| call.wall_us > 0 && !call.isolation.is_empty()));
        assert!(episode.timing.tools_us > 0);
        assert_activities(episode);
    }
    assert_eq!(all.usage.tool_calls, 4 * 3);
    let again = roll_out(&rollouts, &[task("a", "What is 6 times 7?", "42")]).await;
    assert_eq!(timeless(&again), timeless(&all), "replayed");
}
