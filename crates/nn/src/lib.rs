//! The transformer that trains and generates on a CPU, by hand: explicit forward and backward, one
//! readable file a kind of layer, matrix products behind one function.
//!
//! Autograd over general tensors was rejected: of the Rust libraries none has an attention backward
//! that does not materialise the scores, a fused cross-entropy, or recomputation, and training is a
//! quarter as fast. What is lost is generality; the families of [`config::Architecture`] are all
//! that there is.
//!
//! Synchronous: threads come from rayon, and there is no runtime here.

pub mod config;
pub mod decode;
pub mod files;
pub mod parameters;
