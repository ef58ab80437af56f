//! Where metrics go while a run works, beside `metrics.jsonl`, which is the run's own
//! ([`crate::run::RunDirectory::metric`]) and the only one that a resumed run reads back.
//!
//! Invariant: a sink is told the same values as the run writes down, and can change nothing of it.
//! A new one is a file here.

mod prometheus;
mod tensorboard;

use std::io;

pub use prometheus::Prometheus;
pub use tensorboard::TensorBoard;

/// Takes the values of each step.
pub trait Sink: Send + std::fmt::Debug {
    /// The values of `step`, by their names in the registry, at a time in seconds since 1970. A name
    /// that the registry doesn't have is taken as well, under the topic `other`.
    ///
    /// # Errors
    /// They can't be written.
    fn step(&mut self, step: u64, unix_s: f64, values: &[(&str, f64)]) -> io::Result<()>;
}
