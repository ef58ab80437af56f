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

use crate::metric::Place;

/// Where values of a run belong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At {
    /// Steps of the run that are done.
    pub step: u64,
    /// The kind of line that they are of. Those of evaluations are kept apart: a step may have both.
    pub place: Place,
    /// When they were known, in seconds since 1970.
    pub unix_s: f64,
}

/// Takes the values of each step and evaluation.
pub trait Sink: Send + std::fmt::Debug {
    /// Takes values, by their names in the registry. A name that it doesn't have is taken as well.
    ///
    /// # Errors
    /// They can't be written.
    fn take(&mut self, at: At, values: &[(&str, f64)]) -> io::Result<()>;
}
