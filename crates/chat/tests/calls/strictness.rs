//! The scanner takes for JSON what `serde_json` takes for JSON, and nothing else.

use proptest::prelude::*;
use rocstar_chat::calls::{CallFormat, Event, FailureKind};
use rocstar_record::message::Arguments;
use serde_json::{Map, Value};

const PIECES: [&str; 40] = [
    "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\": ", "\"", "\\", "\\n", "\\u00e9", "\\u",
    "\\ud83d", "\\ude00", "\\/", "1", "0", "-", "+", ".", ".5", "e", "E-2", "true", "false",
    "null", "nul", "True", " ", "\n", "\t", "'", "//", "é", "\u{1}", "\u{feff}", "1e400", "[[]]",
    "{}",
];

/// Text that is JSON in half of the cases: a value, or one with a character taken away or put in.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&PIECES[..]);
    let pieces = prop::collection::vec(piece.clone(), 1..8).prop_map(|pieces| pieces.concat());
    let place = any::<prop::sample::Index>();
    let mutated = (super::round_trip::values(), place, prop::option::of(piece), any::<bool>());
    let mutated = mutated.prop_map(|(value, place, piece, pretty)| {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let at = places[place.index(places.len())];
        let (head, tail) = text.split_at(at);
        match piece {
            Some(piece) => format!("{head}{piece}{tail}"),
            None => format!("{head}{}", tail.chars().skip(1).collect::<String>()),
        }
    });
    prop_oneof![pieces, mutated]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn accepted_is_json_and_refused_is_not(text in texts()) {
        let object = format!("{{\"name\":\"f\",\"arguments\":{{\"a\":{text}}}}}");
        prop_assume!(!object.contains("</tool_call>"));
        let events = CallFormat::Hermes.parse_all(&format!("<tool_call>{object}</tool_call>"));
        let theirs = serde_json::from_str::<Map<String, Value>>(&object);
        match (events.as_slice(), theirs) {
            ([Event::Call(parsed)], Ok(mut theirs)) => {
                let Arguments::Object(ours) = &parsed.call.arguments else { panic!("an object") };
                let theirs = theirs.remove("arguments").expect("arguments");
                assert_close(&Value::Object(ours.clone()), &theirs);
            }
            ([Event::Failed(_)], Err(_)) => {}
            ([Event::Failed(failure)], Ok(_)) => {
                let ours_alone = [
                    FailureKind::DuplicateKey,
                    FailureKind::NumberRange,
                    FailureKind::UnknownKey,
                    FailureKind::TooDeep,
                ];
                prop_assert!(ours_alone.contains(&failure.kind), "{}: {}", object, failure);
            }
            (events, theirs) => panic!("{object}: {events:?}, {theirs:?}"),
        }
    }
}

/// Equal, but for the last digit of floats, which `serde_json` may get wrong.
fn assert_close(ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().expect("a float"), b.as_f64().expect("a float"));
            assert!((a - b).abs() <= a.abs() * 1e-15, "{a:?} {b:?}");
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).for_each(|(a, b)| assert_close(a, b));
        }
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{a:?} {b:?}");
            a.values().zip(b.values()).for_each(|(a, b)| assert_close(a, b));
        }
        _ => assert_eq!(ours, theirs),
    }
}
