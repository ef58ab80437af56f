//! What happened to a run, read on as it is written.
//!
//! Invariant: reading on costs what is new; memory is bounded by [`SHOWN_EVENTS`] and
//! [`MOST_EVENT_BYTES`] whatever the file holds.

use std::collections::VecDeque;

use rocstar_record::run::{LinePlace, Notice, Problem, Reader, State};
use serde_json::Value;

use crate::Error;

/// The last events that are shown.
const SHOWN_EVENTS: usize = 100;
/// Bytes of their lines.
const MOST_EVENT_BYTES: u64 = 1 << 20;
/// Lines that can't be read and are told of.
const MOST_NOTICES: usize = 20;

/// What was read of a run's events.
#[derive(Debug)]
pub struct Events {
    place: LinePlace,
    /// The last, each with the bytes of its line.
    last: VecDeque<(u64, Value)>,
    bytes: u64,
    notices: Vec<Notice>,
    torn: Option<Notice>,
    state: State,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            place: LinePlace::default(),
            last: VecDeque::new(),
            bytes: 0,
            notices: Vec::new(),
            torn: None,
            state: State::Empty,
        }
    }
}

impl Events {
    pub(super) fn read_on(&mut self, reader: &Reader) -> Result<(), Error> {
        let mut lines = match reader.events_behind(&self.place)? {
            Some(lines) => lines,
            None => {
                *self = Self::default();
                reader.events()?
            }
        };
        self.torn = None;
        let mut at = self.place.bytes();
        while let Some(line) = lines.next() {
            let bytes = lines.place().bytes() - at;
            at += bytes;
            match line {
                Ok(event) => self.push(bytes, event),
                Err(notice) if notice.problem == Problem::Torn => self.torn = Some(notice),
                Err(notice) if self.notices.len() < MOST_NOTICES => self.notices.push(notice),
                Err(_) => {}
            }
        }
        self.place = lines.place().clone();
        Ok(())
    }

    fn push(&mut self, bytes: u64, event: Value) {
        self.state = self.state.after(&event);
        self.bytes += bytes;
        self.last.push_back((bytes, event));
        while self.last.len() > SHOWN_EVENTS || self.bytes > MOST_EVENT_BYTES {
            let Some((bytes, _)) = self.last.pop_front() else { break };
            self.bytes -= bytes;
        }
    }

    /// The last events, the newest last.
    pub fn last(&self) -> impl Iterator<Item = &Value> {
        self.last.iter().map(|(_, event)| event)
    }

    /// Bytes of the whole lines so far: what tells that something more happened.
    pub const fn read_bytes(&self) -> u64 {
        self.place.bytes()
    }

    /// The state of the run, where nobody works on it.
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// What can't be read of them.
    pub(super) fn notices(&self) -> impl Iterator<Item = &Notice> {
        self.notices.iter().chain(&self.torn)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rocstar_record::run::Ending;

    use super::*;

    #[test]
    fn what_happens_after_a_hundred_events_is_news() {
        let run = tempfile::tempdir().unwrap();
        std::fs::write(run.path().join("config.toml"), "").unwrap();
        let reader = Reader::open(run.path()).unwrap();
        let mut events = Events::default();
        events.read_on(&reader).unwrap();
        assert_eq!(events.state(), State::Empty);
        let mut file = std::fs::File::create(run.path().join("events.jsonl")).unwrap();
        let mut before = 0;
        for number in 0..250 {
            let name = if number == 249 { "finished" } else { "started" };
            writeln!(file, "{{\"event\":\"{name}\",\"number\":{number}}}").unwrap();
            if number % 50 == 49 {
                events.read_on(&reader).unwrap();
                assert!(events.read_bytes() > before);
                before = events.read_bytes();
            }
        }
        let numbers: Vec<_> =
            events.last().map(|event| event["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (150..250).collect::<Vec<_>>());
        assert_eq!(events.state(), State::Ended(Ending::Finished));
        file.write_all(b"no JSON\n{\"event").unwrap();
        for _ in 0..2 {
            events.read_on(&reader).unwrap();
            assert_eq!(events.notices().map(|it| it.line).collect::<Vec<_>>(), [251, 252]);
        }
        let large = format!("{{\"event\":\"{}\"}}", "x".repeat(1 << 19));
        std::fs::write(run.path().join("events.jsonl"), [large.as_str(); 4].join("\n")).unwrap();
        events.read_on(&reader).unwrap();
        assert_eq!(events.last().count(), 1, "large ones push each other out");
    }
}
