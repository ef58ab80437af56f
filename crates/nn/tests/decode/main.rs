//! Decoding through its public interface.
#![cfg(test)]

mod invariance;
mod parity;
mod reference;
mod refusals;
mod support;
