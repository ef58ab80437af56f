//! `[f(a=1), g()]`.

use std::path::Path;

use pretty_assertions::assert_eq;
use rocstar_chat::calls::{CallFormat, Event, FailureKind, MAX_CALL_BYTES, MAX_DEPTH, ParsedCall};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{call, calls_and_text, check_faults, named, one, only_failure};

const PYTHONIC: CallFormat = CallFormat::Pythonic;

#[test]
fn calls_are_written_as_one_list() {
    let calls = [
        named("search.web", json!({"q": "it's\n\"x\"", "n": -3, "f": 1.5})),
        named("g", json!({"a-b": null, "from": {"x": [true, false]}, "ok": 1})),
        named("h", json!({})),
    ];
    let text = PYTHONIC.render_all(&calls).expect("a text");
    assert_eq!(
        text,
        "[search.web(q=\"it's\\n\\\"x\\\"\", n=-3, f=1.5), \
         g(**{\"a-b\": None}, **{\"from\": {\"x\": [True, False]}}, ok=1), h()]"
    );
    let (parsed, rest) = calls_and_text(&PYTHONIC, &text);
    assert_eq!((parsed.as_slice(), rest.as_str()), (&calls[..], ""));
    assert_eq!(PYTHONIC.render_all(&[]).as_deref(), Ok(""));
}

#[test]
fn a_list_begins_the_message_and_text_may_follow() {
    let text = "\n [ f ( a = 1 , ) ,\n g() , ] Done. [f()]";
    let place = |call, span| Event::Call(ParsedCall { call, span });
    assert_eq!(
        PYTHONIC.parse_all(text),
        [
            Event::Text("\n ".into()),
            place(call(json!({"a": 1})), 2..17),
            place(named("g", json!({})), 17..28),
            Event::Text(" Done. [f()]".into()),
        ]
    );
}

#[test]
fn other_lists_and_lists_later_on_are_text() {
    for text in [
        "[]",
        "[1, 2]",
        "[see here](https://example.org)",
        "[f]",
        "[f",
        "[ f ",
        "So: [f()]",
        "f()",
        "[\"f\"()]",
        "[1f()]",
        "[f[0]]",
        "[]f()",
        "",
    ] {
        let (calls, rest) = calls_and_text(&PYTHONIC, text);
        assert_eq!((calls, rest.as_str()), (vec![], text));
    }
}

#[test]
fn brackets_and_quotes_in_strings_are_text() {
    for text in [
        r#"[f(a=")]")]"#,
        r#"[f(a="\")]")]"#,
        r#"[f(a="\\")]"#,
        r#"[f(a="'")]"#,
        r#"[f(a='"')]"#,
        r#"[f(a="""a")]""b)]""")]"#,
        r#"[f(a="", b='', c="""""")]"#,
        r#"[f(a=r"\")]")]"#,
        "[f(a='''\n)]\n''')]",
        r#"[f(a="""x\"""")]"#,
        r#"[f(a=["]"], b={"}": ")"})]"#,
    ] {
        let (calls, rest) = calls_and_text(&PYTHONIC, &format!("{text} after"));
        assert_eq!((calls.len(), rest.as_str()), (1, " after"), "{text}");
    }
}

#[test]
fn one_fault_fails_the_whole_list() {
    use FailureKind::{
        BadEscape, ControlCharacter, DuplicateKey, KeyNotAString, NotALiteral, NumberRange,
        PositionalArgument, Syntax, Unclosed,
    };
    check_faults(
        &PYTHONIC,
        &[
            ("[f(1)]", PositionalArgument, 3),
            ("[f(a)]", PositionalArgument, 3),
            ("[f(a=1, \"x\")]", PositionalArgument, 8),
            ("[f(x) = 2x]", PositionalArgument, 3),
            ("[f(a=x)]", NotALiteral, 5),
            ("[f(a=g())]", NotALiteral, 5),
            ("[f(a=true)]", NotALiteral, 5),
            ("[f(a=(1, 2))]", NotALiteral, 5),
            ("[f(a=b\"x\")]", NotALiteral, 5),
            ("[f(a=f\"{x}\")]", NotALiteral, 5),
            ("[f(a=1j)]", NotALiteral, 5),
            ("[f(a={1: 2})]", KeyNotAString, 6),
            ("[f(a=1, a=2)]", DuplicateKey, 8),
            ("[f(a={\"b\": 1, \"b\": 2})]", DuplicateKey, 14),
            ("[f(a=1, **{\"a\": 2})]", DuplicateKey, 8),
            ("[f(a=18446744073709551616)]", NumberRange, 5),
            ("[f(a=1e999)]", NumberRange, 5),
            ("[f(a=\"\\ud83d\")]", BadEscape, 7),
            ("[f(a=\"\\N{DASH}\")]", BadEscape, 7),
            ("[f(a=\"x\ny\")]", ControlCharacter, 7),
            ("[f(a=1 b=2)]", Syntax, 7),
            ("[f(a=1,, b=2)]", Syntax, 7),
            ("[f(a=1 + 1)]", Syntax, 7),
            ("[f(a=\"x\" \"y\")]", Syntax, 5),
            ("[f(a=)]", Syntax, 5),
            ("[f(from=1)]", Syntax, 3),
            ("[f(*[])]", PositionalArgument, 3),
            ("[f(**x)]", Syntax, 5),
            ("[f.(a=1)]", Syntax, 3),
            ("[if(a=1)]", Syntax, 1),
            ("[f(a=1) g()]", Syntax, 8),
            ("[f(a=1}]", Syntax, 6),
            ("[f(), g(1)]", PositionalArgument, 8),
            ("[f(), g]", Syntax, 7),
            ("[f()", Unclosed, 4),
            ("[f(a=1", Unclosed, 6),
            ("[f(a", Unclosed, 4),
            ("[f(a=", Unclosed, 5),
            ("[f(a=\"x", Unclosed, 7),
            ("[f(a=[1, {", Unclosed, 10),
        ],
    );
}

#[test]
fn the_model_reads_what_is_wrong_and_where() {
    assert_eq!(
        only_failure(&PYTHONIC, "[f(a=1,\n   from=2)]").to_string(),
        "Tool call could not be read: `from` is a word of Python's own; write `**{\"from\": …}` \
         (line 2, column 4, after `[f(a=1,\\n   `)"
    );
}

#[test]
fn depth_and_size_have_limits() {
    for (levels, fails) in [(MAX_DEPTH - 2, false), (MAX_DEPTH - 1, true), (100_000, true)] {
        let text = format!("[f(a={}{})]", "[".repeat(levels), "]".repeat(levels));
        if fails {
            assert_eq!(only_failure(&PYTHONIC, &text).kind, FailureKind::TooDeep);
        } else {
            assert_eq!(calls_and_text(&PYTHONIC, &text).0.len(), 1);
        }
    }
    for (length, fails) in [(MAX_CALL_BYTES - 9, false), (MAX_CALL_BYTES, true)] {
        let text = format!("[f(a=\"{}\")]", "x".repeat(length));
        if fails {
            assert_eq!(only_failure(&PYTHONIC, &text).kind, FailureKind::TooLarge);
        } else {
            assert_eq!(calls_and_text(&PYTHONIC, &text).0.len(), 1);
        }
    }
}

#[test]
fn literals_mean_what_they_mean_in_python() {
    #[derive(Deserialize)]
    struct Case {
        literal: String,
        /// Absent where it is refused; null is a value.
        #[serde(default, deserialize_with = "present")]
        value: Option<Value>,
        /// A float as text, since reading it must be exact.
        float: Option<String>,
    }
    fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(from).map(Some)
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/pythonic_literals.json");
    let cases = std::fs::read_to_string(path).expect("a file of the repository");
    let cases: Vec<Case> = serde_json::from_str(&cases).expect("cases");
    for Case { literal, value, float } in cases {
        let float = float.map(|text| Value::from(text.parse::<f64>().expect("a float")));
        let text = format!("[f(a={literal})]");
        match value.or(float) {
            Some(value) => assert_eq!(
                calls_and_text(&PYTHONIC, &text),
                (vec![call(one("a", value))], String::new()),
                "{literal:?}"
            ),
            None => {
                let events = PYTHONIC.parse_all(&text);
                assert!(matches!(events[0], Event::Failed(_)), "{literal:?}: {events:?}");
            }
        }
    }
}
