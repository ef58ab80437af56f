//! Any bytes as a body of the routes of code-judge and SandboxFusion.

#![no_main]

#[path = "../checks/peer_bodies.rs"]
mod peer_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| peer_bodies::check(data));
