//! The public face: a pool of slots for each kind of zygote, and live sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Config, Effective, InvalidRequest, Kind, Report, Request};

/// Why the jail itself could not do its work. What a program does is never here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request can't be run as it stands.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The interpreter could not be started or warmed.
    #[error("python `{python}` did not start: {cause}")]
    Python {
        /// The configured interpreter.
        python: String,
        /// What it said.
        cause: String,
    },
    /// A required layer is missing on this host.
    #[error("this host does not give the isolation that is required: {lacks}")]
    Isolation {
        /// Each missing layer with the reason.
        lacks: String,
    },
    /// An operating system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// All session places are taken.
    #[error("all {limit} session places are taken")]
    SessionsFull {
        /// The configured number.
        limit: usize,
    },
    /// The session's process is gone; its state is lost.
    #[error("the session has ended: {cause}")]
    SessionEnded {
        /// Why.
        cause: String,
    },
}

/// Tells a running call to stop, from any thread. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the call to stop. It ends with `Outcome::Cancelled` within milliseconds.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked to.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How a caller and a running call talk.
#[derive(Default)]
pub struct Control<'a> {
    /// Stops the call.
    pub cancel: Cancel,
    /// Called once, from the running thread, when the program has used up its turn at full
    /// priority: the caller may start another program beside it.
    pub turn_over: Option<&'a (dyn Fn() + Sync)>,
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Control").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

/// A running jail. Dropping it ends every zygote, call and session.
#[derive(Debug)]
pub struct Jail {}

impl Jail {
    /// Checks what the host gives, starts the zygotes and warms them (about 0.2 s for the bare
    /// kind, 1 to 3 s for the scientific one).
    ///
    /// # Errors
    /// The interpreter does not start, or a required layer is missing.
    pub fn start(config: Config) -> Result<Self, Error> {
        let _ = config;
        unimplemented!()
    }

    /// What this host gives.
    pub fn effective(&self) -> &Effective {
        unimplemented!()
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        unimplemented!()
    }

    /// Runs one program to its end and reports it. Blocks while all slots of its kind are taken.
    /// Infrastructure failures (a zygote that was killed) are retried on another slot; a call that
    /// fails three times ends with [`crate::Outcome::Infrastructure`].
    ///
    /// # Errors
    /// The request is invalid. Everything else is an outcome.
    pub fn run(&self, request: &Request, control: &Control<'_>) -> Result<Report, Error> {
        let _ = (request, control);
        unimplemented!()
    }

    /// Starts a live interpreter whose state stays between programs. `request.program` (it may be
    /// empty) is not run; `files` and `limits` (memory, processes, file and tmp size) hold for the
    /// whole session.
    ///
    /// # Errors
    /// The request is invalid, no place is free, or no process could be had.
    pub fn open_session(&self, kind: Kind, request: &Request) -> Result<Session, Error> {
        let _ = (kind, request);
        unimplemented!()
    }

    /// Process ids of the zygotes and of each slot's keeper, for tests and for `doctor`.
    pub fn helper_pids(&self) -> Vec<u32> {
        unimplemented!()
    }
}

/// A live interpreter. Dropping it ends its processes.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Runs one cell in the session's state. The limits of wall and CPU time and of output are the
    /// cell's own; a time-out interrupts the cell (`KeyboardInterrupt` inside) and keeps the state
    /// if the interpreter comes back within a second.
    ///
    /// # Errors
    /// The request is invalid, or the session has ended before.
    pub fn execute(&mut self, request: &Request, control: &Control<'_>) -> Result<Report, Error> {
        let _ = (request, control);
        unimplemented!()
    }

    /// A copy-on-write branch of the live state: another session that starts where this one is.
    ///
    /// # Errors
    /// No place is free, or the session has ended.
    pub fn fork(&mut self) -> Result<Self, Error> {
        unimplemented!()
    }

    /// Whether the interpreter still lives.
    pub fn is_alive(&self) -> bool {
        unimplemented!()
    }
}
