//! What holds for any text, in each format.

use proptest::prelude::*;
use rocstar_chat::calls::{CallFormat, Event};

/// What texts of calls are made of, whole and broken.
const PIECES: [&str; 64] = [
    "<tool_call>",
    "</tool_call>",
    "<tool_",
    "call>",
    "</tool",
    "<",
    "</",
    ">",
    "<|python_tag|>",
    "<|python",
    "_tag|>",
    "|",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"name\"",
    "\"f\"",
    ":",
    ",",
    ";",
    "\"arguments\"",
    "\"parameters\"",
    "\"type\": \"function\"",
    "{\"name\": \"f\", \"arguments\": {",
    "{\"name\": \"f\", \"parameters\": {",
    "}}",
    "\"a\": ",
    "\"",
    "\\",
    "\\u",
    "d83d",
    "\\ude00",
    "'",
    "\"\"\"",
    "'''",
    "[f(",
    "a=",
    "**{",
    ")]",
    "g.h",
    "True",
    "null",
    "1",
    "-",
    ".5",
    "e9",
    "_",
    "```",
    "`",
    "````",
    "python",
    "```python\n",
    "\n```\n",
    "\n",
    "\r",
    " ",
    "\t",
    "x",
    "é",
    "😀",
    "\0",
];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24)
            .prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

fn formats() -> impl Strategy<Value = CallFormat> {
    prop::sample::select(&CallFormat::ALL[..])
}

/// All events of a text that comes in pieces, cut where `cuts` says, neighbouring text joined.
pub(crate) fn parse_in_pieces(format: &CallFormat, pieces: &[&str]) -> Vec<Event> {
    let mut parser = format.parser();
    let mut events = Vec::new();
    for piece in pieces {
        join(&mut events, parser.push(piece));
    }
    join(&mut events, parser.finish());
    events
}

fn join(events: &mut Vec<Event>, more: Vec<Event>) {
    for event in more {
        match (events.last_mut(), event) {
            (Some(Event::Text(last)), Event::Text(text)) => last.push_str(&text),
            (_, event) => events.push(event),
        }
    }
}

/// The text in pieces that end at the given characters.
pub(crate) fn cut<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    ends.push(text.len());
    let mut chosen: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    chosen.extend([0, text.len()]);
    chosen.sort_unstable();
    chosen.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// Texts and spans cover the text, in order and without gaps.
fn assert_covered(text: &str, events: &[Event]) {
    let mut at = 0;
    for event in events {
        let span = match event {
            Event::Text(part) => {
                assert_eq!(text.get(at..at + part.len()), Some(part.as_str()));
                at..at + part.len()
            }
            Event::Call(parsed) => parsed.span.clone(),
            Event::Failed(failure) => {
                let place = failure.position;
                assert!(failure.span.start <= place && place <= failure.span.end, "{failure:?}");
                assert!(text[failure.span.start..place].ends_with(&failure.after), "{failure:?}");
                assert!(failure.line >= 1 && failure.column >= 1, "{failure:?}");
                failure.span.clone()
            }
        };
        assert_eq!(span.start, at, "{events:?}");
        assert!(text.get(span.clone()).is_some(), "{span:?} cuts a character");
        at = span.end;
    }
    assert_eq!(at, text.len(), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn events_do_not_depend_on_how_the_text_came(
        format in formats(),
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = format.parse_all(&text);
        assert_covered(&text, &whole);
        prop_assert_eq!(&parse_in_pieces(&format, &cut(&text, &cuts)), &whole);
        let characters: Vec<&str> = text.split("").collect();
        prop_assert_eq!(&parse_in_pieces(&format, &characters), &whole);
        if text.len() <= 48 {
            for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
                let (head, tail) = text.split_at(at);
                prop_assert_eq!(&parse_in_pieces(&format, &[head, tail]), &whole);
            }
        }
    }

    /// What goes out early is never taken back: the events so far begin the events of any longer
    /// text, up to more text.
    #[test]
    fn what_went_out_stands(format in formats(), text in texts(), more in texts()) {
        let mut parser = format.parser();
        let early = parser.push(&text);
        let mut all = early.clone();
        join(&mut all, parser.push(&more));
        join(&mut all, parser.finish());
        prop_assert_eq!(&all, &format.parse_all(&format!("{text}{more}")));
    }

    /// Plain words are never held back.
    #[test]
    fn words_go_out_at_once(format in formats(), words in "[a-zé.,!? ]{1,40}") {
        let text = format!("so {words}");
        let mut parser = format.parser();
        prop_assert_eq!(parser.push(&text), [Event::Text(text)]);
    }
}

/// Texts that hold a parser up which reads again what it read before. Nothing here measures time:
/// such a parser makes the test hang.
#[test]
fn long_hostile_texts_are_read_once() {
    let long = |piece: &str| piece.repeat((1 << 13) / piece.len());
    let beginnings = [
        "",
        "<tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ",
        "<|python_tag|>",
        "{",
        "{\"name\"",
        "{\"name\":\"f\",\"parameters\":{}}",
        "[",
        "[f",
        "[f(a=",
        "[f(",
        "```",
        "```python",
        "```python\n",
        "```text\n",
    ];
    let fillers = [
        " ",
        "\n",
        "`",
        "<",
        "<tool_",
        "</tool_call",
        "```python\n",
        "[",
        "{\"a\":",
        "9",
        "x",
        "\"\",",
        "\\",
        "'",
        "\"\"\"",
        "_",
        ";",
        "{\"name\":\"f\",\"parameters\":{}};",
        "a=1,",
        "\"x\" ",
    ];
    for format in CallFormat::ALL {
        for beginning in beginnings {
            for filler in fillers {
                let text = format!("{beginning}{}", long(filler));
                assert_covered(&text, &format.parse_all(&text));
            }
        }
    }
}
