//! The crate through its public interface: data, rollouts against a scripted policy, the engine and
//! the sandbox as they are.
#![cfg(test)]

mod conversation;
mod data;
mod engine;
mod failures;
mod practice;
mod recorded;
mod rollouts;
mod sandbox;
mod scheduling;
mod support;
#[path = "../../src/test_support.rs"]
mod test_support;
