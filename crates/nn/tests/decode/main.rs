//! Decoding through its public interface.
#![cfg(test)]

mod greedy;
mod invariance;
mod parity;
mod reference;
mod refusals;
mod support;
