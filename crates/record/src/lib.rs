//! What rocstar writes down and several crates read: messages with their tool calls, and the key of
//! every random draw.
//!
//! This crate is a contract. It holds data and no behaviour that could differ between the writer and
//! the reader: no runtime, no tensors, no files of other crates.

pub mod draw;
pub mod message;
