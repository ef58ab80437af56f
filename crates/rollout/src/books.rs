//! What all samples of a rollout write to while they run: seats, and where the time goes.
//!
//! Invariant: a sample that was admitted leaves its seat exactly once, also where its future is
//! dropped. The lock is held for a few instructions, never across a wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::meter::{Meter, Phase};
use crate::scheduler::{Applicant, Scheduler, Seat};

/// Seats and times.
#[derive(Debug)]
pub(crate) struct Books {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    scheduler: Scheduler,
    meter: Meter,
    /// Something may have made room since the last admission was refused.
    changed: bool,
}

impl Books {
    pub(crate) const fn new(scheduler: Scheduler, now: Instant) -> Self {
        let inner = Inner { scheduler, meter: Meter::new(now), changed: true };
        Self { inner: Mutex::new(inner) }
    }

    /// A place for an applicant, if there is one now.
    pub(crate) fn admit(&self, applicant: Applicant) -> Option<Place<'_>> {
        let mut inner = self.lock();
        if !inner.changed {
            return None;
        }
        match inner.scheduler.admit(applicant) {
            Some(seat) => Some(Place { books: self, seat: Some(seat), phase: None }),
            None => {
                inner.changed = false;
                None
            }
        }
    }

    /// Reads both.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Scheduler, &Meter) -> T) -> T {
        let inner = self.lock();
        read(&inner.scheduler, &inner.meter)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that panics half-way through a change runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sample's place in the books.
#[derive(Debug)]
pub(crate) struct Place<'books> {
    books: &'books Books,
    seat: Option<Seat>,
    phase: Option<Phase>,
}

impl Place<'_> {
    /// What the sample does from now on.
    pub(crate) fn phase(&mut self, phase: Phase) {
        self.shift(Some(phase));
        if let Some(seat) = self.seat {
            let mut inner = self.books.lock();
            let generates = phase == Phase::Generates;
            inner.scheduler.set_generates(seat, generates);
            inner.changed |= !generates;
        }
    }

    /// Tokens of the response so far.
    pub(crate) fn grow(&self, response_tokens: usize) {
        if let Some(seat) = self.seat {
            self.books.lock().scheduler.grow(seat, response_tokens);
        }
    }

    /// The episode has come to its end, but for the verdict: its room is free.
    pub(crate) fn leave(&mut self) {
        self.free(true);
        self.shift(Some(Phase::WaitsForVerifier));
    }

    /// Nothing is left to do.
    pub(crate) fn end(&mut self) {
        self.shift(None);
    }

    fn free(&mut self, came_to_its_end: bool) {
        if let Some(seat) = self.seat.take() {
            let mut inner = self.books.lock();
            inner.scheduler.release(seat, came_to_its_end);
            inner.changed = true;
        }
    }

    fn shift(&mut self, phase: Option<Phase>) {
        if self.phase != phase {
            self.books.lock().meter.shift(self.phase, phase, Instant::now());
            self.phase = phase;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.free(false);
        self.shift(None);
    }
}
