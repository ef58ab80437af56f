//! Any bytes as a body of the native API.

#![no_main]

#[path = "../checks/native_bodies.rs"]
mod native_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| native_bodies::check(data));
