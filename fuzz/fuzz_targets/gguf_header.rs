//! Any bytes as a GGUF file.

#![no_main]

#[path = "../checks/gguf_header.rs"]
mod gguf_header;

libfuzzer_sys::fuzz_target!(|data: &[u8]| gguf_header::check(data));
