//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/request.rs"]
mod request;
#[path = "../../../fuzz/checks/zygote_protocol.rs"]
mod zygote_protocol;

#[test]
fn request() {
    replay::replay("request", request::check);
}

#[test]
fn zygote_protocol() {
    replay::replay("zygote_protocol", zygote_protocol::check);
}
