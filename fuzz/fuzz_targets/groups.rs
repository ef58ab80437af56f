//! Any bytes as a group of episodes.

#![no_main]

#[path = "../checks/groups.rs"]
mod groups;

libfuzzer_sys::fuzz_target!(|data: &[u8]| groups::check(data));
