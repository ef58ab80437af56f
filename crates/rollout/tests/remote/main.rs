//! Models behind HTTP, through the public interface: a server that fails on demand, and our own.
#![cfg(test)]

mod chat;
mod faults;
mod several;
mod support;
#[path = "../../src/test_support.rs"]
mod test_support;
mod tokens;
