//! What rocstar writes down and several crates read: messages with their tool calls, episodes and
//! groups, the logs and the directory of a run that hold them, and the key of every random draw.
//!
//! This crate is a contract. It holds data and no behaviour that could differ between the writer and
//! the reader: no runtime, no tensors.

pub mod attempt;
pub mod draw;
pub mod episode;
pub mod log;
pub mod message;
pub mod metric;
pub mod run;
pub mod sink;
