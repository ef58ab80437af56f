//! Any bytes of a model server, read as each kind of answer.

#![no_main]

#[path = "../checks/endpoint_answers.rs"]
mod endpoint_answers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| endpoint_answers::check(data));
