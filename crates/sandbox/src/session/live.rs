//! One live interpreter, used by the thread that runs a cell and ended by any other.
//!
//! Invariant: once [`Live::end`] has returned, its processes are gone and no further cell runs in
//! it; a cell that ran then was cancelled.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rocstar_jail::{Cancel, Control, Outcome, Request, Session};

use crate::submission::Answer;
use crate::{Error, Result, SessionId};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Live {
    id: SessionId,
    /// Held while a cell runs.
    session: Mutex<Option<Session>>,
    /// Stops the cell that runs now.
    current: Mutex<Option<Cancel>>,
    /// Why it has ended.
    cause: OnceLock<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded values are whole at every moment; a panic can't leave half of one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(super) fn new(id: SessionId, session: Session) -> Self {
        let session = Mutex::new(Some(session));
        Self { id, session, current: Mutex::new(None), cause: OnceLock::new() }
    }

    /// Runs one cell. Blocks.
    pub(super) fn execute(&self, request: &Request, control: &Control<'_>) -> Answer {
        let mut held = lock(&self.session);
        *lock(&self.current) = Some(control.cancel.clone());
        // `condemn` sets the cause, then looks for a cell to cancel: here it is the other way round, so
        // that one of the two sees the other.
        let answer = match (self.cause.get(), held.as_mut()) {
            (None, Some(session)) => match session.execute(request, control) {
                Ok(report) => Answer::Report(report),
                Err(rocstar_jail::Error::SessionEnded { cause }) => self.ended(cause),
                Err(error) => Answer::failed(&error),
            },
            (cause, _) => self.ended(cause.cloned().unwrap_or_default()),
        };
        *lock(&self.current) = None;
        if held.as_ref().is_some_and(|session| !session.is_alive()) {
            let cause = format!("its process died in a cell that ended with {}", ending(&answer));
            // A cause that was there before is the true one.
            let _ = self.cause.set(cause);
        }
        if self.cause.get().is_some() {
            *held = None;
        }
        match (&answer, self.cause.get()) {
            (Answer::Report(report), Some(cause)) if report.outcome == Outcome::Cancelled => {
                self.ended(cause.clone())
            }
            _ => answer,
        }
    }

    fn ended(&self, cause: String) -> Answer {
        let _ = self.cause.set(cause.clone());
        Answer::SessionEnded { id: self.id.0.clone(), cause }
    }

    /// Branches the state. Blocks.
    pub(super) fn fork(&self) -> Result<Session> {
        let mut held = lock(&self.session);
        let no_session = |cause: String| Error::NoSession { id: self.id.0.clone(), cause };
        match (self.cause.get(), held.as_mut()) {
            (None, Some(session)) => session.fork().map_err(|error| match error {
                rocstar_jail::Error::SessionEnded { cause } => {
                    let _ = self.cause.set(cause.clone());
                    no_session(cause)
                }
                rocstar_jail::Error::SessionsFull { limit } => Error::SessionsFull { limit },
                error => Error::Jail(error),
            }),
            (cause, _) => Err(no_session(cause.cloned().unwrap_or_default())),
        }
    }

    /// Why it has ended, if it has.
    pub(super) fn cause(&self) -> Option<&str> {
        self.cause.get().map(String::as_str)
    }

    /// Lets no further cell run, and cancels the one that runs. Does not block; whoever lets go of
    /// the session last ends its processes.
    pub(super) fn condemn(&self, cause: &str) {
        let _ = self.cause.set(cause.to_owned());
        if let Some(cancel) = lock(&self.current).as_ref() {
            cancel.cancel();
        }
    }

    /// Condemns it and ends the processes. Blocks for the milliseconds that a cell takes to stop.
    pub(super) fn end(&self, cause: &str) {
        self.condemn(cause);
        *lock(&self.session) = None;
    }
}

fn ending(answer: &Answer) -> String {
    match answer {
        Answer::Report(report) => format!("`{}`", report.outcome.name()),
        Answer::DeadlinePassed { .. } | Answer::SessionEnded { .. } | Answer::ShuttingDown => {
            "no report".to_owned()
        }
    }
}
