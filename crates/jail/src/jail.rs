//! The public face: a pool of slots for each kind of zygote, and live sessions.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::host::{Host, Namespaces};
use crate::pool::Pool;
use crate::run::Run;
use crate::{Config, Effective, InvalidRequest, Kind, Outcome, Report, Request, probe};

pub use crate::session::Session;

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
        source: io::Error,
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

/// For `map_err`: names what was being done.
pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Tells a running call to stop, from any thread. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    asked: AtomicBool,
    /// Wakes the thread that watches the run, while there is one.
    wake: Mutex<Option<Arc<OwnedFd>>>,
}

impl Cancel {
    /// Asks the call to stop. It ends with [`Outcome::Cancelled`] within milliseconds.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::Release);
        if let Some(wake) = &*self.0.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            // Fails only when the counter is full, and then the thread is awake anyway.
            let _ = rustix::io::write(&**wake, &1_u64.to_ne_bytes());
        }
    }

    /// Whether it was asked to.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
    }

    pub(crate) fn attach(&self, wake: &Arc<OwnedFd>) {
        let mut place = self.0.wake.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::clone(wake));
    }

    pub(crate) fn detach(&self) {
        *self.0.wake.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
pub struct Jail {
    shared: Arc<Shared>,
}

/// What calls and sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) effective: Effective,
    pub(crate) bare: Pool,
    pub(crate) scientific: Option<Pool>,
    pub(crate) sessions: AtomicUsize,
}

/// Attempts at a call before it is given up as [`Outcome::Infrastructure`].
const ATTEMPTS: usize = 5;

impl Jail {
    /// Checks what the host gives, starts the zygotes and warms them (about 0.2 s for the bare
    /// kind, 1 to 3 s for the scientific one).
    ///
    /// # Errors
    /// The interpreter does not start, or a required layer is missing.
    pub fn start(config: Config) -> Result<Self, Error> {
        let second = config.allow_degraded.then(|| config.clone());
        let shared = match (Shared::start(config, Namespaces::Own), second) {
            (Err(Error::Isolation { .. }), Some(config)) => {
                Shared::start(config, Namespaces::None)?
            }
            (result, _) => result?,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What this host gives.
    pub fn effective(&self) -> &Effective {
        &self.shared.effective
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Runs one program to its end and reports it. Blocks while all slots of its kind are taken.
    /// Infrastructure failures (a zygote that was killed) are retried on another slot; a call that
    /// fails five times ends with [`crate::Outcome::Infrastructure`].
    ///
    /// # Errors
    /// The request is invalid. Everything else is an outcome.
    pub fn run(&self, request: &Request, control: &Control<'_>) -> Result<Report, Error> {
        request.validate()?;
        let config = &self.shared.config;
        let limits = request.limits.resolve(&config.default_limits, &config.maximum_limits)?;
        request.validate_against(&limits)?;
        let kind = request.kind.unwrap_or_else(|| Kind::of_program(&request.program));
        let pool = self.shared.pool(kind);
        let turn = Duration::from_millis(config.turn_ms);
        let mut causes = Vec::new();
        for _ in 0..ATTEMPTS {
            if control.cancel.is_cancelled() {
                return Ok(self.shared.label(Report::without_run(Outcome::Cancelled)));
            }
            let attempt = pool.with_slot(limits.tmp_bytes, |slot, parked| {
                Run::new(slot, parked, request, limits, control, turn).finish()
            });
            match attempt {
                Ok(finished) => return Ok(self.shared.label(finished.report)),
                Err(error) => causes.push(error.to_string()),
            }
        }
        let cause = causes.join("; ");
        Ok(self.shared.label(Report::without_run(Outcome::Infrastructure { cause })))
    }

    /// Starts a live interpreter whose state stays between programs. `request.program` (it may be
    /// empty) is not run; `files` and `limits` (memory, processes, file and tmp size) hold for the
    /// whole session.
    ///
    /// # Errors
    /// The request is invalid, no place is free, or no process could be had.
    pub fn open_session(&self, kind: Kind, request: &Request) -> Result<Session, Error> {
        Session::open(&self.shared, kind, request)
    }

    /// Process ids of the zygotes and of each idle slot's keeper, for tests and for diagnosis.
    pub fn helper_pids(&self) -> Vec<u32> {
        let pools = std::iter::once(&self.shared.bare).chain(&self.shared.scientific);
        pools.flat_map(Pool::helper_pids).collect()
    }
}

impl Shared {
    fn start(config: Config, namespaces: Namespaces) -> Result<Self, Error> {
        let host = Arc::new(Host::find(&config, namespaces)?);
        let count = match config.zygotes {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let wants_science = config.scientific && host.has_science();
        let start = |kind| Pool::start(Arc::clone(&host), kind, count, config.slots);
        let (bare, scientific) = std::thread::scope(|scope| {
            let scientific = wants_science.then(|| scope.spawn(|| start(Kind::Scientific)));
            let bare = start(Kind::Bare);
            let scientific = scientific.map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(system("warm the scientific zygote")(io::Error::other("thread failed")))
                })
            });
            (bare, scientific.transpose())
        });
        let (bare, scientific) = (bare?, scientific?);
        let effective = probe::effective(&config, &host, &bare)?;
        let sessions = AtomicUsize::new(0);
        Ok(Self { config, effective, bare, scientific, sessions })
    }

    /// The pool that runs `kind`; the bare one where no scientific packages are installed.
    pub(crate) fn pool(&self, kind: Kind) -> &Pool {
        match (kind, &self.scientific) {
            (Kind::Scientific, Some(pool)) => pool,
            _ => &self.bare,
        }
    }

    /// Adds what stood around the run.
    pub(crate) fn label(&self, mut report: Report) -> Report {
        report.isolation = self.effective.held();
        report.degraded = self.effective.degraded;
        report
    }
}
