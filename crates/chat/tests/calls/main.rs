//! Tool calls: each format by examples and faults, all formats by what must hold for any text.

#![cfg(test)]

mod fenced_code;
mod hermes;
mod llama3_json;
mod properties;
mod pythonic;
mod round_trip;
mod strictness;

use rocstar_chat::calls::{CallFailure, CallFormat, CodeTool, Event, FailureKind};
use rocstar_record::message::{Arguments, ToolCall};
use serde_json::{Map, Value, json};

/// A call of `f`.
fn call(arguments: Value) -> ToolCall {
    named("f", arguments)
}

fn named(name: &str, arguments: Value) -> ToolCall {
    let Value::Object(arguments) = arguments else { panic!("{arguments} is no object") };
    ToolCall { id: None, name: name.to_owned(), arguments: Arguments::Object(arguments) }
}

/// The only event of a text, a failure.
fn only_failure(format: &CallFormat, text: &str) -> CallFailure {
    let events = format.parse_all(text);
    match events.as_slice() {
        [Event::Failed(failure)] => failure.clone(),
        _ => panic!("{text:?} gave {events:?}"),
    }
}

/// Calls and texts of a message; a failure ends the test.
fn calls_and_text(format: &CallFormat, text: &str) -> (Vec<ToolCall>, String) {
    let (mut calls, mut rest) = (Vec::new(), String::new());
    for event in format.parse_all(text) {
        match event {
            Event::Text(text) => rest += &text,
            Event::Call(parsed) => calls.push(parsed.call),
            Event::Failed(failure) => panic!("{text:?}: {failure}"),
        }
    }
    (calls, rest)
}

/// Each text fails alone, as it should and where it should.
fn check_faults(format: &CallFormat, table: &[(&str, FailureKind, usize)]) {
    for (text, kind, position) in table {
        let failure = only_failure(format, text);
        assert_eq!((failure.kind, failure.position), (*kind, *position), "{text:?}: {failure}");
        assert_eq!(failure.span, 0..text.len(), "{text:?}: {failure}");
        assert!(!failure.message.is_empty() && !failure.to_string().contains('\n'));
    }
}

#[test]
fn names_of_formats_are_read_as_they_are_written() {
    let tool = CodeTool::new("jupyter_code").expect("a name");
    let mut formats = CallFormat::ALL.to_vec();
    formats.push(CallFormat::FencedCode(tool));
    let names: Vec<_> = formats.iter().map(ToString::to_string).collect();
    let expected = ["hermes", "llama3_json", "pythonic", "fenced_code", "fenced_code:jupyter_code"];
    assert_eq!(names, expected);
    for (format, name) in formats.iter().zip(&names) {
        assert_eq!(name.parse().as_ref(), Ok(format));
    }
    for wrong in ["Hermes", "fenced_code:", ""] {
        let error = wrong.parse::<CallFormat>().expect_err(wrong);
        let message = "is no format of tool calls; there are: `hermes`, `llama3_json`, \
                       `pythonic`, `fenced_code`";
        assert_eq!(error.to_string(), format!("`{wrong}` {message}"));
    }
}

#[test]
fn a_call_that_a_format_has_no_way_to_write_is_refused() {
    let fenced = CallFormat::FencedCode(CodeTool::DEFAULT);
    for (format, call) in [
        (&fenced, named("search", json!({"code": "1"}))),
        (&fenced, named("python", json!({"code": "1", "input": ""}))),
        (&fenced, named("python", json!({"code": 1}))),
        (&CallFormat::Pythonic, named("not a name", json!({}))),
        (&CallFormat::Pythonic, named("import", json!({}))),
        (&CallFormat::Pythonic, named("", json!({}))),
    ] {
        let error = format.render(&call).expect_err("no way to write it");
        assert_eq!((&error.name, &error.format), (&call.name, format));
    }
}

#[test]
fn arguments_that_are_no_object_show_their_fault_again() {
    let faulty = ToolCall {
        id: None,
        name: "f".to_owned(),
        arguments: Arguments::Text("{\"a\": 1,}".to_owned()),
    };
    for format in [CallFormat::Hermes, CallFormat::Llama3Json, CallFormat::Pythonic] {
        let text = format.render(&faulty).expect("a text");
        assert!(text.contains("{\"a\": 1,}"), "{text}");
        only_failure(&format, &text);
    }
}

#[test]
fn kinds_of_failures_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> =
        FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), FailureKind::ALL.len());
}

/// An object with one argument.
fn one(name: &str, value: impl Into<Value>) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value.into())]))
}
