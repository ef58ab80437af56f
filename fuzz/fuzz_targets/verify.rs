//! Any gold text and any answer, compared.

#![no_main]

#[path = "../checks/verify.rs"]
mod verify;

libfuzzer_sys::fuzz_target!(|data: &[u8]| verify::check(data));
