//! `{"name": …, "parameters": …}`.

use pretty_assertions::assert_eq;
use rocstar_chat::calls::{CallFormat, Event, FailureKind};
use serde_json::json;

use crate::{call, calls_and_text, check_faults, named, one, only_failure};

const LLAMA3: CallFormat = CallFormat::Llama3Json;

#[test]
fn a_call_is_the_message_or_stands_behind_the_tag() {
    let object = r#"{"name": "f", "parameters": {"a": "};<|python_tag|>"}}"#;
    let wanted = call(one("a", "};<|python_tag|>"));
    assert_eq!(LLAMA3.render(&wanted).as_deref(), Ok(object));
    for (before, after) in [
        ("", ""),
        ("\n ", "\n"),
        ("<|python_tag|>", ""),
        ("<|python_tag|> ", ""),
        ("I look. <|python_tag|>", " Done."),
    ] {
        let (calls, rest) = calls_and_text(&LLAMA3, &format!("{before}{object}{after}"));
        assert_eq!(calls, std::slice::from_ref(&wanted), "{before:?}");
        let text = before.split("<|python_tag|>").next().expect("a part");
        assert_eq!(rest, format!("{text}{after}"));
    }
}

#[test]
fn calls_follow_each_other_behind_a_semicolon() {
    let calls = [named("f", json!({})), named("g", json!({"a": ";"})), named("h", json!({}))];
    let text = LLAMA3.render_all(&calls).expect("a text");
    assert_eq!(
        text,
        r#"{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"a": ";"}}; {"name": "h", "parameters": {}}"#
    );
    let (parsed, rest) = calls_and_text(&LLAMA3, &text);
    assert_eq!((parsed.as_slice(), rest.as_str()), (&calls[..], ""));
    // Without it, what follows is text, as anywhere else in the message.
    let (parsed, rest) = calls_and_text(&LLAMA3, &text.replace("; {", "\n{"));
    assert_eq!(parsed, &calls[..1]);
    assert!(rest.starts_with("\n{\"name\": \"g\""), "{rest}");
}

#[test]
fn the_type_may_be_said_and_keys_come_in_any_order() {
    for text in [
        r#"{"type": "function", "name": "f", "parameters": {}}"#,
        r#"{ "type" :"function","parameters": {}, "name": "f"}"#,
        "{\n  \"parameters\": {},\n  \"name\": \"f\"\n}",
    ] {
        assert_eq!(calls_and_text(&LLAMA3, text), (vec![call(json!({}))], String::new()));
    }
}

#[test]
fn other_json_and_json_later_on_is_text() {
    for text in [
        r#"{"answer": 3}"#,
        r#"{"names": []}"#,
        r#"{"type": "circle", "name": "c"}"#,
        "{}",
        "{name: 1}",
        r#"{"na"#,
        "{ ",
        r#"So: {"name": "f", "parameters": {}}"#,
        r#"[{"name": "f", "parameters": {}}]"#,
        "<|python_tag",
        "",
    ] {
        let (calls, rest) = calls_and_text(&LLAMA3, text);
        assert_eq!((calls, rest.as_str()), (vec![], text));
    }
}

#[test]
fn faults() {
    use FailureKind::{
        ArgumentsNotAnObject, BadEscape, DuplicateKey, MissingArguments, MissingName, NotAnObject,
        Syntax, Unclosed, UnknownKey,
    };
    check_faults(
        &LLAMA3,
        &[
            (r#"{"name": "f", "parameters": {"a": 1,}} so"#, Syntax, 36),
            (r#"{"name": 'f', "parameters": {}}"#, Syntax, 9),
            (r#"{"name": "f", "parameters": {"a": "\x"}}"#, BadEscape, 36),
            (r#"{"name": "f", "parameters": {}, "name": "f"}"#, DuplicateKey, 37),
            (r#"{"name": "f", "arguments": {}}"#, MissingArguments, 29),
            (r#"{"name": "Alice", "age": 3}"#, MissingArguments, 26),
            (r#"{"name": "f", "parameters": "{}"}"#, ArgumentsNotAnObject, 32),
            (r#"{"parameters": {}}"#, MissingName, 17),
            (r#"{"name": "f", "parameters": {}, "type": "tool"}"#, UnknownKey, 46),
            (r#"{"name": "f", "parameters": {"#, Unclosed, 29),
            ("<|python_tag|>", Unclosed, 14),
            ("<|python_tag|>print(1)", NotAnObject, 14),
            (r#"<|python_tag|>brave_search.call(query="x")"#, NotAnObject, 14),
        ],
    );
}

#[test]
fn calls_before_a_faulty_one_stand() {
    let text = r#"{"name": "f", "parameters": {}}; and"#;
    let events = LLAMA3.parse_all(text);
    let [Event::Call(first), Event::Failed(failure)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(first.span, 0..31);
    assert_eq!((failure.kind, failure.span.clone()), (FailureKind::NotAnObject, 31..text.len()));
    assert_eq!(
        only_failure(&LLAMA3, "<|python_tag|>print(1)").to_string(),
        "Tool call could not be read: expected `{` of the call's JSON object, found `p` \
         (line 1, column 15, after `<|python_tag|>`)"
    );
}

#[test]
fn text_that_can_not_become_a_call_is_not_held_back() {
    let mut parser = LLAMA3.parser();
    assert_eq!(parser.push("{\"na"), []);
    assert_eq!(parser.push("t\": 1}"), [Event::Text("{\"nat\": 1}".into())]);
    let mut parser = LLAMA3.parser();
    assert_eq!(parser.push("\n"), [Event::Text("\n".into())]);
    assert_eq!(parser.push("{\"name\": \"f\", \"parameters\": {}"), []);
    assert!(matches!(parser.push("}").as_slice(), [Event::Call(_)]), "the brace closes the call");
}
