//! How a waiting thread is handed its next call.
//!
//! Invariant: a seat among the idle ones has no assignment, and gets one before its thread runs
//! again; so a thread that wakes for no reason waits on.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;

use crate::scheduler::Started;
use crate::submission::Submission;

/// Where a waiting thread gets its next call.
#[derive(Debug, Default)]
pub(super) struct Seat {
    assignment: Mutex<Option<Assignment>>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) enum Assignment {
    Run(Started<Arc<Submission>>),
    Stop,
}

impl Seat {
    pub(super) fn assign(&self, assignment: Assignment) {
        *self.assignment.lock().unwrap_or_else(PoisonError::into_inner) = Some(assignment);
        self.changed.notify_one();
    }

    pub(super) fn wait(&self) -> Assignment {
        let mut assignment = self.assignment.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(assignment) = assignment.take() {
                return assignment;
            }
            assignment = self.changed.wait(assignment).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What is done once the lock is free again.
#[derive(Debug, Default)]
pub(super) struct Afterwards {
    pub(super) readers: Vec<Waker>,
    pub(super) assignments: Vec<(Arc<Seat>, Assignment)>,
}

impl Afterwards {
    pub(super) fn act(self) {
        self.assignments.into_iter().for_each(|(seat, assignment)| seat.assign(assignment));
        self.readers.into_iter().for_each(Waker::wake);
    }
}
