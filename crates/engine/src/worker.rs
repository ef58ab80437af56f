//! The compute thread's loop.

use std::sync::Arc;

use crate::engine::{Shared, Work};

/// The loop and all that it owns.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs until the engine is to stop; why it ended.
    pub(crate) fn run(self) -> String {
        match self.shared.work(true, 0) {
            Work::Jobs(jobs) => drop(jobs),
            Work::Stop => return "it was stopped".to_owned(),
        }
        "generation isn't built yet".to_owned()
    }
}
