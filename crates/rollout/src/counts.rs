//! What is counted over all samples of a rollout, by whoever does it.
//!
//! Invariant: counts only grow, and count what was done whatever became of it afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What is counted over all samples, whatever becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) policy_tokens: AtomicUsize,
    pub(crate) tool_calls: AtomicUsize,
    pub(crate) tool_busy_us: AtomicUsize,
    pub(crate) verifier_busy_us: AtomicUsize,
    pub(crate) tried_again: AtomicUsize,
}

impl Counts {
    pub(crate) fn get(count: &AtomicUsize) -> usize {
        count.load(Ordering::Relaxed)
    }

    pub(crate) fn add(count: &AtomicUsize, more: usize) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}
