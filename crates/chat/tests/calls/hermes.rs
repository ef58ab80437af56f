//! `<tool_call>…</tool_call>`.

use pretty_assertions::assert_eq;
use rocstar_chat::calls::{CallFormat, Event, FailureKind, MAX_CALL_BYTES, MAX_DEPTH, ParsedCall};
use serde_json::json;

use crate::{call, calls_and_text, check_faults, named, one, only_failure};

const HERMES: CallFormat = CallFormat::Hermes;

#[test]
fn a_call_is_written_as_templates_write_it() {
    let call = named("f", json!({"x": [1, -2.5, 1e16, 1.5e-7, null], "y": {"z": "ä\n"}}));
    let text = HERMES.render(&call).expect("a text");
    assert_eq!(
        text,
        "<tool_call>\n\
         {\"name\": \"f\", \"arguments\": {\"x\": [1, -2.5, 1e+16, 1.5e-07, null], \"y\": {\"z\": \"ä\\n\"}}}\n\
         </tool_call>"
    );
    assert_eq!(calls_and_text(&HERMES, &text), (vec![call], String::new()));
}

#[test]
fn text_and_calls_come_in_order_with_their_places() {
    let first = r#"<tool_call>{"name":"f","arguments":{}}</tool_call>"#;
    let text = format!("I look.\n{first}\nthen {first}");
    let parsed = |span| Event::Call(ParsedCall { call: call(json!({})), span });
    assert_eq!(
        HERMES.parse_all(&text),
        [
            Event::Text("I look.\n".into()),
            parsed(8..8 + first.len()),
            Event::Text("\nthen ".into()),
            parsed(14 + first.len()..14 + 2 * first.len()),
        ]
    );
}

/// The threads that report it: vllm-project/vllm#45167, vllm-project/vllm#17790.
#[test]
fn a_closing_tag_inside_a_string_argument_is_text() {
    let code = "print('</tool_call>')  # <tool_call>{\"name\": \"\\\\\"}";
    let call = call(one("code", code));
    let text = HERMES.render(&call).expect("a text");
    assert!(text.contains("print('</tool_call>')"), "the tag is written as it is: {text}");
    assert_eq!(calls_and_text(&HERMES, &text), (vec![call], String::new()));
}

/// The thread that reports it: vllm-project/vllm#28806.
#[test]
fn json_without_tags_is_text() {
    for text in [
        r#"{"name": "f", "arguments": {}}"#,
        "```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
        r#"[{"name": "f", "arguments": {}}]"#,
        r#"</tool_call>{"name": "f", "arguments": {}}</tool_call>"#,
        "<tool_calls>[]</tool_calls>",
        "<tool_call",
        "<<<tool_",
    ] {
        assert_eq!(HERMES.parse_all(text), [Event::Text(text.into())]);
    }
}

/// The thread that reports it: ggml-org/llama.cpp#18183.
#[test]
fn nothing_is_repaired() {
    use FailureKind::{
        ControlCharacter, DuplicateKey, NotAnObject, Syntax, TrailingText, Unclosed,
    };
    check_faults(
        &HERMES,
        &[
            (r#"<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>"#, Syntax, 46),
            (r#"<tool_call>{"name": "f", "arguments": {"a": [1,]}}</tool_call>"#, Syntax, 47),
            (r#"<tool_call>{"name": "f", "arguments": {},}</tool_call>"#, Syntax, 41),
            (r#"<tool_call>{'name': 'f', 'arguments': {}}</tool_call>"#, Syntax, 12),
            (r#"<tool_call>{"name": 'f', "arguments": {}}</tool_call>"#, Syntax, 20),
            (r#"<tool_call>{name: "f", "arguments": {}}</tool_call>"#, Syntax, 12),
            (r#"<tool_call>{"name": f, "arguments": {}}</tool_call>"#, Syntax, 21),
            (r#"<tool_call>{"name": "f" "arguments": {}}</tool_call>"#, Syntax, 24),
            (r#"<tool_call>{"name" "f", "arguments": {}}</tool_call>"#, Syntax, 19),
            (r#"<tool_call>{"name": "f", "arguments": {]}</tool_call>"#, Syntax, 39),
            (r#"<tool_call>{"name": "f", "arguments": {"a": True}}</tool_call>"#, Syntax, 48),
            (r#"<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>"#, Syntax, 47),
            (r#"<tool_call>{"name": "f", "arguments": {"a": 01}}</tool_call>"#, Syntax, 46),
            (r#"<tool_call>{"name": "f", "arguments": {"a": 1.}}</tool_call>"#, Syntax, 46),
            (r#"<tool_call>{"name": "f", "arguments": {"a": -}}</tool_call>"#, Syntax, 45),
            (r#"<tool_call>{"name": "f", /* why */ "arguments": {}}</tool_call>"#, Syntax, 25),
            (r#"<tool_call>{"name": "f", "arguments": {}</tool_call>"#, Syntax, 40),
            (
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"1\n2\"}}</tool_call>",
                ControlCharacter,
                46,
            ),
            (
                r#"<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>"#,
                DuplicateKey,
                30,
            ),
            (
                r#"<tool_call>{"name": "f", "arguments": {"a": 1, "a": 1}}</tool_call>"#,
                DuplicateKey,
                49,
            ),
            (r#"<tool_call>{"name": "f", "arguments": {}}}</tool_call>"#, TrailingText, 41),
            (r#"<tool_call>{"name": "f", "arguments": {}} so</tool_call>"#, TrailingText, 42),
            (r#"<tool_call>{"name": "f", "arguments": {}}</tool</tool_call>"#, TrailingText, 47),
            (r#"<tool_call>{"name": "f", "arguments": {}}<tool_call>"#, TrailingText, 42),
            (r#"<tool_call>{"name": "f", "arguments": {}}{}</tool_call>"#, TrailingText, 41),
            (r#"<tool_call>[{"name": "f", "arguments": {}}]</tool_call>"#, NotAnObject, 11),
            ("<tool_call>\n```json\n{}\n```\n</tool_call>", NotAnObject, 12),
            ("<tool_call></tool_call>", NotAnObject, 11),
            (r#"<tool_call>"{}"</tool_call>"#, NotAnObject, 11),
            ("<tool_call>", Unclosed, 11),
            (r#"<tool_call>{"name": "f", "argum"#, Unclosed, 31),
            (r#"<tool_call>{"name": "f", "arguments": {}}"#, Unclosed, 41),
            (r#"<tool_call>{"name": "f", "arguments": {}}</tool_call"#, Unclosed, 52),
            (r#"<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"#, Unclosed, 57),
        ],
    );
}

#[test]
fn an_object_that_is_no_call_is_a_failure() {
    use FailureKind::{ArgumentsNotAnObject, BadName, MissingArguments, MissingName, UnknownKey};
    check_faults(
        &HERMES,
        &[
            (r#"<tool_call>{}</tool_call>"#, MissingName, 12),
            (r#"<tool_call>{"arguments": {}}</tool_call>"#, MissingName, 27),
            (r#"<tool_call>{"name": 1, "arguments": {}}</tool_call>"#, BadName, 38),
            (r#"<tool_call>{"name": "", "arguments": {}}</tool_call>"#, BadName, 39),
            (r#"<tool_call>{"name": "f"}</tool_call>"#, MissingArguments, 23),
            (r#"<tool_call>{"name": "f", "parameters": {}}</tool_call>"#, MissingArguments, 41),
            (r#"<tool_call>{"name": "f", "arguments": [1]}</tool_call>"#, ArgumentsNotAnObject, 41),
            (
                r#"<tool_call>{"name": "f", "arguments": null}</tool_call>"#,
                ArgumentsNotAnObject,
                42,
            ),
            (
                r#"<tool_call>{"name": "f", "arguments": "{}"}</tool_call>"#,
                ArgumentsNotAnObject,
                42,
            ),
            (
                r#"<tool_call>{"name": "f", "arguments": {}, "code": ""}</tool_call>"#,
                UnknownKey,
                52,
            ),
        ],
    );
}

#[test]
fn values_without_an_exact_meaning_are_failures() {
    use FailureKind::{BadEscape, NumberRange};
    let with = |value: &str| {
        format!("<tool_call>{{\"name\":\"f\",\"arguments\":{{\"a\":{value}}}}}</tool_call>")
    };
    for (value, kind) in [
        (r#""\d""#, BadEscape),
        (r#""\'""#, BadEscape),
        (r#""\u12G4""#, BadEscape),
        (r#""\ud83d""#, BadEscape),
        (r#""\ud83dx""#, BadEscape),
        (r#""\ud83d\n""#, BadEscape),
        (r#""\ud83d\ud83d""#, BadEscape),
        (r#""\ude00""#, BadEscape),
        ("18446744073709551616", NumberRange),
        ("-9223372036854775809", NumberRange),
        ("1e400", NumberRange),
    ] {
        assert_eq!(only_failure(&HERMES, &with(value)).kind, kind, "{value}");
    }
    for (value, expected) in [
        (r#""\ud83d\ude00\u0000\/""#, json!("😀\0/")),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("-0", json!(0)),
        ("1.0", json!(1.0)),
        ("1E+2", json!(100.0)),
        ("5e-324", json!(5e-324)),
        ("2.2250738585072011e-308", json!(2.225_073_858_507_201e-308)),
        ("\"\u{7f}\u{2028}\"", json!("\u{7f}\u{2028}")),
        (" [ ] ", json!([])),
        ("{\n}", json!({})),
    ] {
        let (calls, rest) = calls_and_text(&HERMES, &with(value));
        assert_eq!((calls, rest), (vec![call(one("a", expected))], String::new()), "{value}");
    }
}

#[test]
fn depth_and_size_have_limits() {
    // The call's object and its arguments are two levels.
    for (levels, fails) in [(MAX_DEPTH - 2, false), (MAX_DEPTH - 1, true)] {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text =
            format!("<tool_call>{{\"name\":\"f\",\"arguments\":{{\"a\":{nested}}}}}</tool_call>");
        if fails {
            assert_eq!(only_failure(&HERMES, &text).kind, FailureKind::TooDeep);
        } else {
            assert_eq!(calls_and_text(&HERMES, &text).0.len(), 1);
        }
    }
    let around = r#"{"name":"f","arguments":{"a":""}}"#.len();
    for (length, fails) in [(MAX_CALL_BYTES - around, false), (MAX_CALL_BYTES - around + 1, true)] {
        let long = "x".repeat(length);
        let text =
            format!("<tool_call>{{\"name\":\"f\",\"arguments\":{{\"a\":\"{long}\"}}}}</tool_call>");
        if fails {
            assert_eq!(only_failure(&HERMES, &text).kind, FailureKind::TooLarge);
        } else {
            assert_eq!(calls_and_text(&HERMES, &text).0.len(), 1);
        }
    }
}

#[test]
fn the_model_reads_what_is_wrong_and_where() {
    let text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"code\": \"x\",}}\n</tool_call>";
    let failure = only_failure(&HERMES, text);
    assert_eq!(
        failure.to_string(),
        "Tool call could not be read: expected a key, as JSON allows no comma before `}`, found \
         `}` (line 2, column 41, after `rguments\": {\"code\": \"x\",`)"
    );
    let later = format!("Some text.\n{text}");
    let moved = match HERMES.parse_all(&later).pop() {
        Some(Event::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (moved.line, moved.column, moved.after),
        (failure.line, failure.column, failure.after)
    );
    assert_eq!(moved.position, failure.position + 11);
}

#[test]
fn after_a_failure_reading_goes_on_behind_the_closing_tag() {
    let good = r#"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#;
    let text = format!("<tool_call>{{bad</tool_call> and {good}");
    let events = HERMES.parse_all(&text);
    assert!(
        matches!(events.as_slice(), [Event::Failed(_), Event::Text(_), Event::Call(_)]),
        "{events:?}"
    );
}

#[test]
fn only_what_may_become_a_tag_is_held_back() {
    let mut parser = HERMES.parser();
    let text = |text: &str| vec![Event::Text(text.to_owned())];
    assert_eq!(parser.push("a < b <"), text("a < b "));
    assert_eq!(parser.push("tool_"), []);
    assert_eq!(parser.push("x"), text("<tool_x"));
    assert_eq!(parser.push("<tool_<tool"), text("<tool_"));
    assert_eq!(parser.push("_call>{\"name\": \"f\","), []);
    assert_eq!(parser.push("\"arguments\": {}}</tool_call"), []);
    let events = parser.push("> z");
    assert!(
        matches!(events.as_slice(), [Event::Call(_), Event::Text(z)] if z == " z"),
        "{events:?}"
    );
    assert_eq!(parser.push("<tool_call"), []);
    assert_eq!(parser.finish(), text("<tool_call"));
}
