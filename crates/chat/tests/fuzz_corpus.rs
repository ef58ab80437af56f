//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/tool_calls.rs"]
mod tool_calls;

#[test]
fn tool_calls() {
    replay::replay("tool_calls", tool_calls::check);
}
