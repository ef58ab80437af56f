//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/endpoint_answers.rs"]
mod endpoint_answers;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn endpoint_answers() {
    replay::replay("endpoint_answers", endpoint_answers::check);
}
