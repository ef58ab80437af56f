//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

#[path = "../../../fuzz/checks/gguf_header.rs"]
mod gguf_header;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/safetensors_header.rs"]
mod safetensors_header;

#[test]
fn gguf_header() {
    replay::replay("gguf_header", gguf_header::check);
}

#[test]
fn safetensors_header() {
    replay::replay("safetensors_header", safetensors_header::check);
}
