//! What a model does in messages becomes an attempt, by the rules of an episode.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{
    Behaviour, Call, Context, ContextWording, FakeEndpoint, Question, Reply, Script,
};
use rocstar_record::attempt::{Attempt, TokenCounts};
use rocstar_record::episode::{Finish, ToolOutcome};
use rocstar_record::message::{Arguments, Message, Role, ToolSpec};
use rocstar_rollout::remote::{
    ChatAsk, ChatHeard, ChatOptions, EndpointOptions, Endpoints, LimitField, RemoteConversation,
    RemoteError, ToolCalls,
};
use rocstar_rollout::{Conversation as _, PlayError, RolloutOptions, Task, ToolMode};
use serde_json::json;

use crate::support::*;

fn scripted(script: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> FakeEndpoint {
    FakeEndpoint::start(Behaviour { script: Script::new(script), ..behaviour() }).unwrap()
}

/// By the number of turns before.
fn by_turn(replies: Vec<Reply>) -> FakeEndpoint {
    scripted(move |question| replies[question.turns()].clone())
}

fn calls(names_and_arguments: &[(&str, &str)]) -> Reply {
    let call = |&(name, arguments): &(&str, &str)| Call {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    Reply { calls: names_and_arguments.iter().map(call).collect(), ..Reply::default() }
}

fn outcomes(attempt: &Attempt) -> Vec<Option<ToolOutcome>> {
    attempt.calls().map(|call| call.run.as_ref().map(|run| run.outcome.clone())).collect()
}

#[tokio::test]
async fn an_attempt_holds_what_was_written_run_and_counted() {
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let made = attempt(&server, options(), task("3")).await.unwrap();
    assert_eq!(made.finish, Finish::Done);
    assert_eq!(made.answer_text(), "It is 6.");
    assert_eq!(made.turns[1].reasoning.as_deref(), Some("as it says"));
    assert_eq!(outcomes(&made), [Some(ToolOutcome::Ok)]);
    assert_eq!(made.turns[0].calls[0].run.as_ref().unwrap().shown, "6");
    assert_eq!(made.generator, format!("fake at {}", server.url()));
    // The server counts four characters as a token, and a name as one.
    let text = |turn: usize| made.turns[turn].text.len().div_ceil(4);
    let policy = text(0) + 1 + r#"{"n":3}"#.len().div_ceil(4) + 3 + text(1);
    assert_eq!(made.tokens.prompt_tokens, Some(1));
    assert_eq!(made.tokens.policy_tokens, Some(policy));
    assert!(made.tokens.response_tokens >= Some(policy) && !made.tokens.are_exact);

    let seen = server.seen();
    let second = &seen[1].body["messages"];
    assert_eq!(second[1]["role"], "assistant");
    assert_eq!(second[1]["tool_calls"][0]["id"], "call_0");
    assert!(second[1].get("reasoning_content").is_none());
    let answer = json!({"role": "tool", "content": "6", "tool_call_id": "call_0", "name": TOOL});
    assert_eq!(second[2], answer);
    // Each turn has a seed of its own, that every JSON reader keeps.
    assert!(seen[0].seed != seen[1].seed && seen.iter().all(|seen| seen.seed < 1 << 53));
}

#[tokio::test]
async fn whoever_counts_nothing_leaves_the_counts_open() {
    let server = FakeEndpoint::start(Behaviour { tells_usage: false, ..behaviour() }).unwrap();
    let made = attempt(&server, options(), task("3")).await.unwrap();
    assert_eq!((made.finish, made.tokens), (Finish::Done, TokenCounts::default()));
    // The budget still ends: it is estimated.
    let server = scripted(|_| calls(&[(TOOL, r#"{"n": 1}"#)]));
    let few = RolloutOptions { response_tokens: 30, max_turns: 50, ..options() };
    let made = attempt(&server, few, task("3")).await.unwrap();
    assert!(matches!(made.finish, Finish::TokenLimit | Finish::ToolAnswerTooLong), "{made:?}");
}

#[tokio::test]
async fn calls_that_cannot_be_run_are_answered_by_the_rules_of_an_episode() {
    let good = r#"{"n": 1}"#;
    let first = calls(&[
        (TOOL, r#"{"n": "#),
        ("triple", good),
        (TOOL, good),
        (TOOL, r#"{"n": 2}"#),
        (TOOL, good),
        ("", good),
    ]);
    let server = by_turn(vec![first, Reply::text("done")]);
    let options = RolloutOptions { parallel_calls: 2, ..options() };
    let made = attempt(&server, options, task("1")).await.unwrap();
    assert_eq!(made.finish, Finish::Done);
    let shown: Vec<_> = made.calls().map(|call| call.run.as_ref().unwrap().shown.clone()).collect();
    assert_eq!((shown[2].as_str(), shown[3].as_str()), ("2", "4"));
    let kinds = outcomes(&made);
    assert!(matches!(kinds[0], Some(ToolOutcome::Malformed { .. })), "{kinds:?}");
    let refusals = [
        (1, "Tool call refused: there is no tool `triple`; there is `double`."),
        (4, "Tool call refused: at most 2 calls of a turn are run."),
    ];
    for (index, message) in refusals {
        let message = message.to_owned();
        assert_eq!(kinds[index], Some(ToolOutcome::Refused { message }));
    }
    assert!(matches!(kinds[5], Some(ToolOutcome::Malformed { .. })), "{kinds:?}");
    // What the model was told, shortened to the limit of this player.
    let told = &server.seen()[1].body["messages"][2]["content"];
    let told = told.as_str().unwrap();
    assert!(told.starts_with("Tool call ") && told.contains("characters cut"), "{told}");
    assert_eq!(told, shown[0]);
}

#[tokio::test]
async fn the_last_turn_runs_nothing() {
    let server = scripted(|_| calls(&[(TOOL, r#"{"n": 1}"#)]));
    let options = RolloutOptions { max_turns: 3, ..options() };
    let made = attempt(&server, options, task("1")).await.unwrap();
    assert_eq!(made.finish, Finish::TurnLimit);
    assert_eq!(outcomes(&made), [Some(ToolOutcome::Ok), Some(ToolOutcome::Ok), None]);
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn calls_of_a_tasks_functions_are_its_answer() {
    let function = ToolSpec { name: "f".to_owned(), description: None, parameters: None };
    let task = Arc::new(Task { functions: vec![function], ..Task::clone(&task("1")) });
    let server = scripted(|_| calls(&[("f", r#"{"x": 1}"#), ("f", "{")]));
    let no_tool = RolloutOptions { tool: ToolMode::None, ..options() };
    for options in [no_tool, options()] {
        let made = attempt(&server, options, Arc::clone(&task)).await.unwrap();
        assert_eq!((made.finish, outcomes(&made)), (Finish::Done, vec![None, None]));
        let written: Vec<_> = made.calls().flat_map(|call| call.call.clone()).collect();
        assert_eq!(written[0].arguments, Arguments::from_text(r#"{"x": 1}"#));
        assert_eq!(written[1].arguments, Arguments::Text("{".to_owned()));
    }
    let offered = |index: usize| server.seen()[index].body["tools"].as_array().unwrap().len();
    assert_eq!((offered(0), offered(1)), (1, 2));
}

#[tokio::test]
async fn limits_are_told_apart() {
    let long = || scripted(|_| Reply::text("x".repeat(400)));
    let few = RolloutOptions { response_tokens: 50, ..options() };
    let made = attempt(&long(), few, task("1")).await.unwrap();
    assert_eq!((made.finish, made.tokens.policy_tokens), (Finish::TokenLimit, Some(50)));

    // The budget is of all turns together, and the answers of tools are in it.
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let few = RolloutOptions { response_tokens: 30, ..options() };
    let made = attempt(&server, few, task("5")).await.unwrap();
    let asked: Vec<_> =
        server.seen().iter().map(|seen| seen.body["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(asked[0], 30);
    assert!(asked.windows(2).all(|pair| pair[1] < pair[0]), "{asked:?}");
    assert_ne!(made.finish, Finish::Done);
}

fn narrow(tokens: usize, wording: ContextWording, script: Script) -> FakeEndpoint {
    let context = Context { tokens, wording };
    FakeEndpoint::start(Behaviour { context, script, ..behaviour() }).unwrap()
}

const WORDINGS: [ContextWording; 3] =
    [ContextWording::Vllm, ContextWording::Sglang, ContextWording::Bare];

/// What was asked for, in order.
fn asked(server: &FakeEndpoint) -> Vec<u64> {
    server.seen().iter().map(|seen| seen.body["max_tokens"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_budget_beyond_the_context_is_cut_to_what_has_room() {
    for wording in WORDINGS {
        // A prompt of one token.
        let short = narrow(100, wording, Script::new(|_| Reply::text("done")));
        let made = attempt(&short, options(), task("1")).await.unwrap();
        assert_eq!((made.finish, made.answer_text()), (Finish::Done, "done"), "{wording:?}");

        let long = narrow(100, wording, Script::new(|_| Reply::text("x".repeat(4000))));
        let made = attempt(&long, options(), task("1")).await.unwrap();
        assert_eq!(made.finish, Finish::ContextLimit, "{wording:?}");
        let (policy, steps) = match wording {
            ContextWording::Bare => (62, vec![500, 250, 125, 62]),
            _ => (99, vec![500, 99]),
        };
        assert_eq!((made.tokens.policy_tokens, asked(&long)), (Some(policy), steps));
    }
}

#[tokio::test]
async fn a_tools_answer_takes_of_the_context_what_it_needs_and_no_more() {
    for wording in WORDINGS {
        // With the rest of the budget the second prompt is longer than the context. What is left of
        // the context is enough.
        let script = Script::new(|question| match question.turns() {
            0 => calls(&[(TOOL, "{"); 3]),
            _ => Reply::text("done"),
        });
        let server = narrow(100, wording, script);
        let budget = RolloutOptions { response_tokens: 99, ..options() };
        let made = attempt(&server, budget, task("3")).await.unwrap();
        assert_eq!((made.finish, made.answer_text()), (Finish::Done, "done"), "{wording:?}");
        let asked = asked(&server);
        assert!(asked[..2] == [99, 93] && asked.len() > 2, "{asked:?}");
    }
}

#[tokio::test]
async fn a_full_context_ends_the_attempt_as_in_tokens() {
    for wording in WORDINGS {
        // The problem and the calls fit; what the model is told of them doesn't.
        let script = Script::new(|_| calls(&[(TOOL, "{"); 10]));
        let server = narrow(45, wording, script);
        let made = attempt(&server, options(), task("3")).await.unwrap();
        let ended = (made.finish, made.turns.len());
        assert_eq!(ended, (Finish::ToolAnswerTooLong, 1), "{wording:?}");
    }
    for wording in WORDINGS {
        let unread = narrow(40, wording, doubling());
        let made = attempt(&unread, options(), task(&"1".repeat(200))).await.unwrap();
        assert_eq!((made.finish, made.turns.len()), (Finish::ContextLimit, 0), "{wording:?}");
        let prompt_tokens = (wording != ContextWording::Bare).then_some(50);
        let none = (Some(0), Some(0), prompt_tokens);
        let tokens = made.tokens;
        assert_eq!((tokens.policy_tokens, tokens.response_tokens, tokens.prompt_tokens), none);
    }
}

#[tokio::test]
async fn a_conversation_that_fills_the_context_says_so() {
    let server = narrow(40, ContextWording::Vllm, Script::new(|_| Reply::text("yes")));
    let endpoints = Arc::new(Endpoints::connect(vec![endpoint(&server)]).await.unwrap());
    let options = RolloutOptions { tool: ToolMode::None, ..options() };
    let mut conversation =
        RemoteConversation::new(endpoints, None, options, ChatOptions::default(), None).unwrap();
    let reply = conversation.say("hello", &mut |_| {}).await.unwrap();
    assert_eq!((reply.finish, reply.texts), (Finish::Done, vec!["yes".to_owned()]));
    let long = "x".repeat(200);
    let full = conversation.say(&long, &mut |_| {}).await.unwrap_err().to_string();
    assert!(full.contains("begin a new one") && full.contains("40 tokens"), "{full}");
    // What could not be said was not said.
    assert!(conversation.say("hello?", &mut |_| {}).await.is_ok());
}

#[tokio::test]
async fn our_own_dialect_needs_text_alone() {
    let call =
        format!("<tool_call>{{\"name\": \"{TOOL}\", \"arguments\": {{\"n\": 4}}}}</tool_call>");
    let text = format!("so {call}{call}<tool_call>{{</tool_call>");
    let server = by_turn(vec![Reply::text(text.clone()), Reply::text("8")]);
    let endpoint = EndpointOptions { tool_calls: ToolCalls::Ours, ..endpoint(&server) };
    let all = play_with(vec![endpoint], options(), &assignments(&[task("4")], 1)).await.unwrap();
    let made = all[&0].as_ref().unwrap();
    assert_eq!(made.finish, Finish::Done);
    assert_eq!((made.turns[0].text.as_str(), made.answer_text()), ("so ", "8"));
    let kinds = outcomes(made);
    assert_eq!(kinds[..2], [Some(ToolOutcome::Ok), Some(ToolOutcome::Ok)]);
    assert!(matches!(kinds[2], Some(ToolOutcome::Malformed { .. })));
    let body = &server.seen()[1].body;
    assert!(body.get("tools").is_none());
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(body["messages"][2]["content"], json!(text));
    let answer = body["messages"][3]["content"].as_str().unwrap();
    assert!(answer.starts_with("<tool_response>\n8\n</tool_response>"), "{answer}");
}

#[tokio::test]
async fn the_bodies_fields_are_as_the_settings_say() {
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let mut extra = serde_json::Map::new();
    extra.insert("reasoning_effort".to_owned(), json!("low"));
    let endpoint = EndpointOptions {
        limit_field: LimitField::MaxCompletionTokens,
        return_reasoning: true,
        extra,
        ..endpoint(&server)
    };
    let options = RolloutOptions { tool: ToolMode::None, top_k: 9, ..options() };
    play_with(vec![endpoint], options, &assignments(&[task("0")], 1)).await.unwrap();
    let body = server.seen().remove(0).body;
    assert_eq!(body["max_completion_tokens"], 500);
    assert_eq!(body["reasoning_effort"], "low");
    assert_eq!(body["temperature"].to_string(), "0.6");
    assert_eq!(body["top_k"], 9);
    let absent = ["max_tokens", "tools", "min_p", "rocstar"];
    assert!(absent.iter().all(|name| body.get(name).is_none()), "{body}");
}

#[tokio::test]
async fn an_answer_is_heard_as_it_comes_and_anew_when_it_broke_off() {
    use rocstar_fake_endpoint::{Fault, Faults};
    let faults = Faults::first(vec![Fault::Cut { after_pieces: 3 }]);
    let script = Script::new(|_| Reply::text("one two three"));
    let server = FakeEndpoint::start(Behaviour { faults, script, ..behaviour() }).unwrap();
    let endpoints = Endpoints::connect(vec![endpoint(&server)]).await.unwrap();
    let ask = ChatAsk {
        messages: vec![Message::text(Role::User, "?")],
        tools: Vec::new(),
        max_tokens: None,
        sampling: options().sampling(),
        draw: rocstar_record::draw::Key::new(1, rocstar_record::draw::Purpose::Sampling),
    };
    let mut heard = vec![String::new()];
    let reply = endpoints
        .ask(&ask, &mut |part| match part {
            ChatHeard::Text(text) => heard.last_mut().unwrap().push_str(text),
            ChatHeard::Again => heard.push(String::new()),
        })
        .await
        .unwrap();
    assert_eq!(reply.text, "one two three");
    assert_eq!(heard.last().unwrap(), "one two three");
    assert!("one two three".starts_with(&heard[0]) && heard.len() <= 2, "{heard:?}");
}

#[tokio::test]
async fn what_keeps_all_from_being_asked_is_told_at_once() {
    let server = FakeEndpoint::start(Behaviour {
        // A variable that whoever runs tests sets.
        key: Some(env!("CARGO_PKG_NAME").to_owned()),
        ..behaviour()
    })
    .unwrap();
    let connect = async |options| Endpoints::connect(vec![options]).await.map(drop);
    let good = EndpointOptions { api_key_env: "CARGO_PKG_NAME".to_owned(), ..endpoint(&server) };
    let endpoints = Endpoints::connect(vec![good.clone()]).await.unwrap();
    assert!(!format!("{endpoints:?}").contains("Bearer"));
    let refused = connect(endpoint(&server)).await.unwrap_err();
    assert!(matches!(refused, RemoteError::Refused { status: 401, .. }), "{refused}");
    let unset = EndpointOptions { api_key_env: "ROCSTAR_NO_SUCH_KEY".to_owned(), ..good.clone() };
    let missing = connect(unset).await.unwrap_err().to_string();
    assert!(missing.contains("`ROCSTAR_NO_SUCH_KEY`"), "{missing}");
    let other = EndpointOptions { model: "other".to_owned(), ..good.clone() };
    let unknown = connect(other).await.unwrap_err().to_string();
    assert!(unknown.contains("serves `fake`; not `other`"), "{unknown}");
    let nobody = EndpointOptions { url: "http://127.0.0.1:1".to_owned(), ..good };
    let nobody = connect(nobody).await.unwrap_err();
    assert!(matches!(nobody, RemoteError::Unreachable { .. }), "{nobody}");
    let wrong_key = FakeEndpoint::start(Behaviour { key: Some("other".to_owned()), ..behaviour() });
    let wrong_key = wrong_key.unwrap();
    let keyed =
        EndpointOptions { api_key_env: "CARGO_PKG_NAME".to_owned(), ..endpoint(&wrong_key) };
    let echoed = connect(keyed).await.unwrap_err().to_string();
    assert!(echoed.ends_with("wrong key: Bearer <key>"), "{echoed}");
    for url in
        ["http://:se-cret@127.0.0.1:1", "http://h?key=se-cret", "h:se-cret@h", "http://[se@x"]
    {
        let refused = connect(EndpointOptions::at(url)).await.unwrap_err().to_string();
        assert!(!refused.contains("se-cret") && refused.contains("`url`"), "{refused}");
    }
    let listless = Behaviour { lists_models: false, ..behaviour() };
    let listless = FakeEndpoint::start(listless).unwrap();
    let unnamed = connect(endpoint(&listless)).await.unwrap_err().to_string();
    assert!(unnamed.contains("name the model that it serves (`--endpoint-model`)"), "{unnamed}");
    let named = EndpointOptions { model: "any".to_owned(), ..endpoint(&listless) };
    assert_eq!(connect(named).await, Ok(()));
    let none = Endpoints::connect(Vec::new()).await.map(drop).unwrap_err();
    assert_eq!(none, RemoteError::None);

    let mixed = vec![
        EndpointOptions { api_key_env: "CARGO_PKG_NAME".to_owned(), ..endpoint(&server) },
        EndpointOptions {
            api_key_env: "CARGO_PKG_NAME".to_owned(),
            tool_calls: ToolCalls::Ours,
            ..endpoint(&server)
        },
    ];
    let ended = play_with(mixed, options(), &[]).await;
    assert!(matches!(ended, Err(PlayError::Remote(RemoteError::Options { .. }))));
}
