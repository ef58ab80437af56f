//! The transformer that trains and generates on a CPU, by hand: explicit forward and backward, one
//! readable file a kind of layer, matrix products behind one function.
//!
//! Autograd over general tensors was rejected: of the Rust libraries none has an attention backward
//! that does not materialise the scores, a fused cross-entropy, or recomputation, and training is a
//! quarter as fast. What is lost is generality; the families of [`config::Architecture`] are all
//! that there is.
//!
//! Synchronous: threads come from rayon, and there is no runtime here.

mod attention;
mod decoder;
mod feed_forward;
mod head;
mod kernels;
mod linear;
mod norm;
mod rope;

pub mod config;
pub mod decode;
pub mod files;
pub mod gauge;
pub mod gemm;
pub mod lora;
pub mod optimizer;
pub mod parameters;
pub mod schedule;
pub mod step;
