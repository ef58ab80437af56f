//! What must hold for any text of a model, in each format of tool calls: what is found doesn't
//! depend on the pieces in which the text comes, covers the text, and a call that was read and is
//! written again is the same call.
//!
//! Shared by the fuzz target `tool_calls` and by the replay of its corpus in an ordinary test. The
//! first byte says how long the pieces are.

use rocstar_chat::calls::{CallFormat, Event};

/// Panics where a parser is wrong about a text.
pub(crate) fn check(data: &[u8]) {
    let Some((&piece_characters, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    for format in CallFormat::ALL {
        let events = format.parse_all(text);
        covers(text, &events);
        let pieces = in_pieces(&format, text, usize::from(piece_characters).max(1));
        assert_eq!(pieces, events, "{format}: the pieces change what is found");
        for event in events {
            comes_back(&format, event);
        }
    }
}

fn in_pieces(format: &CallFormat, text: &str, piece_characters: usize) -> Vec<Event> {
    let mut parser = format.parser();
    let mut events = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(piece_characters) {
        join(&mut events, parser.push(&piece.iter().collect::<String>()));
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

fn covers(text: &str, events: &[Event]) {
    let mut at = 0;
    for event in events {
        let (start, end) = match event {
            Event::Text(part) => {
                assert!(text[at..].starts_with(part.as_str()), "text is as it was read");
                (at, at + part.len())
            }
            Event::Call(parsed) => (parsed.span.start, parsed.span.end),
            Event::Failed(failure) => {
                assert!((failure.span.start..=failure.span.end).contains(&failure.position));
                assert!(!failure.to_string().is_empty());
                (failure.span.start, failure.span.end)
            }
        };
        assert_eq!(start, at, "no gap, and nothing twice");
        at = end;
    }
    assert_eq!(at, text.len(), "the whole text is accounted for");
}

fn comes_back(format: &CallFormat, event: Event) {
    let Event::Call(parsed) = event else { return };
    let written = format.render(&parsed.call).expect("what was read can be written");
    let again = format.parse_all(&written);
    let [Event::Call(again)] = again.as_slice() else { panic!("{written:?} gave {again:?}") };
    assert_eq!(again.call, parsed.call, "a call survives writing and reading");
}
