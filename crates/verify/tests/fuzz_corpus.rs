//! Replays the fuzz corpus of this crate, so that what fuzzing once found stays found with a stable
//! compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/verify.rs"]
mod verify;

#[test]
fn verify_texts() {
    replay::replay("verify", verify::check);
}
