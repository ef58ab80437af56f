//! Where the compute thread leaves a request's events for its caller.
//!
//! Invariant: the compute thread never waits here, and exactly one end is left: by the writer, or by
//! the drop of a writer that left none. What lies here is bounded by the request's
//! `max_new_tokens`. A caller that wants only the whole is woken once, not for each token: on a
//! machine with few cores a wake-up takes a core from the arithmetic.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::generation::{Event, FinishReason, Finished, Usage};

/// When a caller that waits wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeAt {
    EveryEvent,
    End,
}

/// The shared place.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    letters: Mutex<Letters>,
    arrived: Condvar,
    cancelled: AtomicBool,
}

#[derive(Debug, Default)]
struct Letters {
    events: VecDeque<Event>,
    ended: bool,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    at: WakeAt,
    /// `None` for a thread at the condition variable.
    waker: Option<Waker>,
}

impl Letters {
    /// What a reader gets now: `Ready(None)` after the end.
    fn take(&mut self, at: WakeAt) -> Poll<Option<Event>> {
        if at == WakeAt::End && !self.ended {
            return Poll::Pending;
        }
        match self.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if self.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Mailbox {
    fn letters(&self) -> MutexGuard<'_, Letters> {
        // Nothing that can panic runs under the lock.
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the writer to end.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Next event; blocks the thread.
    pub(crate) fn wait(&self, at: WakeAt) -> Option<Event> {
        let mut letters = self.letters();
        loop {
            if let Poll::Ready(event) = letters.take(at) {
                return event;
            }
            letters.waiting = Some(Waiting { at, waker: None });
            letters = self.arrived.wait(letters).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Next event, or the task is woken when there is one.
    pub(crate) fn poll(&self, context: &mut Context<'_>, at: WakeAt) -> Poll<Option<Event>> {
        let mut letters = self.letters();
        let taken = letters.take(at);
        if taken.is_pending() {
            letters.waiting = Some(Waiting { at, waker: Some(context.waker().clone()) });
        }
        taken
    }
}

/// The compute thread's end. Dropped without an end, it leaves one that says so.
#[derive(Debug)]
pub(crate) struct Writer {
    mailbox: Arc<Mailbox>,
    ended: bool,
}

impl Writer {
    pub(crate) const fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox, ended: false }
    }

    /// The caller wants no more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.mailbox.cancelled.load(Ordering::Relaxed)
    }

    /// Leaves events; wakes the caller at most once for all of them.
    pub(crate) fn push(&mut self, events: impl IntoIterator<Item = Event>) {
        let mut letters = self.mailbox.letters();
        for event in events {
            letters.ended |= matches!(event, Event::Finished(_));
            letters.events.push_back(event);
        }
        self.ended = letters.ended;
        let due = match &letters.waiting {
            Some(waiting) => waiting.at == WakeAt::EveryEvent || letters.ended,
            None => false,
        };
        let waiting = if due { letters.waiting.take() } else { None };
        drop(letters);
        match waiting {
            Some(Waiting { waker: Some(waker), .. }) => waker.wake(),
            Some(Waiting { waker: None, .. }) => self.mailbox.arrived.notify_all(),
            None => {}
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.ended {
            let cause = "the compute thread ended before this generation".to_owned();
            let reason = FinishReason::EngineFailed { cause };
            self.push([Event::Finished(Finished { reason, usage: Usage::default() })]);
        }
    }
}
