//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/native_bodies.rs"]
mod native_bodies;
#[path = "../../../fuzz/checks/peer_bodies.rs"]
mod peer_bodies;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn native_bodies() {
    replay::replay("native_bodies", native_bodies::check);
}

#[test]
fn peer_bodies() {
    replay::replay("peer_bodies", peer_bodies::check);
}
