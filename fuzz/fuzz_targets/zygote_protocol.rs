//! Any bytes as a message between the jail and its processes.

#![no_main]

#[path = "../checks/zygote_protocol.rs"]
mod zygote_protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| zygote_protocol::check(data));
