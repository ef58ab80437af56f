//! Demonstrations for a cold start: whole conversations with calls, faults, mended calls and an
//! answer.
//!
//! Invariant: what the tool is shown to have answered is what the real tool answers, letter for
//! letter. The answer of a conversation is the tool's last one, right or wrong: see the module above.

use rocstar_chat::calls::{CallFormat, Event};
use rocstar_record::draw::{Draws, Key};
use rocstar_record::message::{Arguments, Message, Role, ToolCall, ToolSpec};
use serde_json::{Map, Value};

use super::problem::{Problem, Split, key};
use super::program::{Fault, Form};
use crate::tool::PythonTool;

/// A conversation to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Demonstration {
    /// Its messages; the last is the assistant's.
    pub messages: Vec<Message>,
    /// The tool that is called in it.
    pub tools: Vec<ToolSpec>,
}

/// Share of the demonstrations whose program is the right one; each of the three others of its kind
/// is shown in a third of the rest. A little more than chance, so that a model has an inkling of what
/// the words mean, and no more.
const RIGHT_SHARE: f64 = 0.28;
/// Share of the calls that are faulty, but for the last that is allowed.
const FAULTY_SHARE: f64 = 0.35;
/// Most faulty calls of a conversation.
const MOST_FAULTS: usize = 3;

/// What is said before a call, after a failed call, and before the answer.
pub(super) const BEFORE_CALL: [&str; 2] = ["I compute it.", "A program tells."];
pub(super) const AFTER_FAILURE: [&str; 2] = ["The call failed, I mend it.", "I write it again."];
pub(super) const BEFORE_ANSWER: [&str; 2] = ["That is the result.", "The program gave it."];

/// Makes up `count` demonstrations on problems of [`Split::Train`].
pub fn demonstrations(count: usize, seed: u64) -> Vec<Demonstration> {
    (0..count).map(|index| demonstration(index, seed)).collect()
}

fn demonstration(index: usize, seed: u64) -> Demonstration {
    let draws = &mut Key { sample: 2, ..key(seed, index) }.at(0);
    let problem = Problem::draw(index, draws, Split::Train);
    let form = chosen(problem.form, draws);
    let code = form.code(&problem.numbers);
    let mut messages = vec![Message::text(Role::User, &problem.text)];
    let mut said = &BEFORE_CALL;
    for _ in 0..MOST_FAULTS {
        if draws.uniform() >= FAULTY_SHARE {
            break;
        }
        let fault = pick(&Fault::ALL, draws);
        messages.push(call(pick(said, draws), &fault.apply(&code), Some(fault)));
        messages.push(Message::text(Role::Tool, failure(fault, &code)));
        said = &AFTER_FAILURE;
    }
    messages.push(call(pick(said, draws), &code, None));
    let result = form.result(&problem.numbers).to_string();
    messages.push(Message::text(Role::Tool, &result));
    let last = pick(&BEFORE_ANSWER, draws);
    messages.push(Message::text(
        Role::Assistant,
        format!("{last}</reason><answer>\\boxed{{{result}}}</answer>"),
    ));
    Demonstration { messages, tools: vec![tool()] }
}

/// The program that a demonstration shows for a problem of this form.
fn chosen(form: Form, draws: &mut Draws) -> Form {
    if draws.uniform() < RIGHT_SHARE {
        return form;
    }
    let others: Vec<Form> = Form::of(form.kind()).filter(|other| *other != form).collect();
    pick(&others, draws)
}

fn pick<T: Copy>(all: &[T], draws: &mut Draws) -> T {
    all[draws.below(all.len() as u64) as usize]
}

/// A turn of the assistant that calls the tool, with the fault in the call if it is one of those.
fn call(said: &str, code: &str, fault: Option<Fault>) -> Message {
    Message { tool_calls: vec![tool_call(code, fault)], ..Message::text(Role::Assistant, said) }
}

/// The call, with a fault in its notation if there is one.
pub(super) fn tool_call(code: &str, fault: Option<Fault>) -> ToolCall {
    let mut arguments = Map::new();
    arguments.insert("code".to_owned(), Value::from(code));
    let arguments = Arguments::Object(arguments);
    // The arguments as the template writes them.
    let text = arguments.to_text().replacen("\":\"", "\": \"", 1);
    let arguments = match fault {
        // The brace of the arguments then closes the call, and that of the call closes nothing.
        Some(Fault::MissingBrace) => {
            Arguments::Text(text.strip_suffix('}').unwrap_or(&text).to_owned())
        }
        Some(Fault::MissingQuote) => {
            Arguments::Text(format!("{}}}", text.strip_suffix("\"}").unwrap_or(&text)))
        }
        _ => arguments,
    };
    ToolCall { id: None, name: tool().name, arguments }
}

/// The tool that is demonstrated: every call a program of its own.
pub(super) fn tool() -> ToolSpec {
    PythonTool::description(false)
}

/// What the tool says to a faulty call.
fn failure(fault: Fault, code: &str) -> String {
    let Some((name, message)) = fault.error() else {
        return unreadable(&tool_call(code, Some(fault)));
    };
    // Every fault is in the last line.
    let faulty = fault.apply(code);
    let line = faulty.lines().count();
    let source = faulty.lines().last().unwrap_or_default();
    format!("{name} at line {line}: {message}\n    {source}")
}

/// What is said to a call that can't be read: the parser's own words.
fn unreadable(call: &ToolCall) -> String {
    let text = CallFormat::Hermes.render(call).unwrap_or_default();
    let failed = CallFormat::Hermes.parse_all(&text).into_iter().find_map(|event| match event {
        Event::Failed(failure) => Some(failure.to_string()),
        Event::Text(_) | Event::Call(_) => None,
    });
    failed.unwrap_or_default()
}
