//! Any text of a model, read for tool calls.

#![no_main]

#[path = "../checks/tool_calls.rs"]
mod tool_calls;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_calls::check(data));
