//! Any bytes as a safetensors file.

#![no_main]

#[path = "../checks/safetensors_header.rs"]
mod safetensors_header;

libfuzzer_sys::fuzz_target!(|data: &[u8]| safetensors_header::check(data));
