//! Any bytes as a request of the native API.

#![no_main]

#[path = "../checks/request.rs"]
mod request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| request::check(data));
