//! A live interpreter: one child that runs cell after cell in the same state.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::branch::{Scope, branch};
use crate::jail::{Control, Shared};
use crate::request::{Request, ResolvedLimits};
use crate::run::Run;
use crate::slot::{Parked, Slot};
use crate::{Error, Kind, Report};

/// A live interpreter. Dropping it ends its processes.
#[derive(Debug)]
pub struct Session {
    slot: Slot,
    parked: Parked,
    limits: ResolvedLimits,
    /// A branch that holds the state as it was after the last cell, and off which the branches for
    /// callers are made. Only the session itself then has to shut itself off, once a state, from
    /// all of them; and there is a limit to how often it can.
    stem: Option<(Slot, Parked)>,
    /// Why it is over.
    ended: Option<String>,
    place: Place,
}

/// One of the places for live sessions; gives itself back.
#[derive(Debug)]
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Result<Self, Error> {
        let limit = shared.config.sessions;
        let taken = shared.sessions.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
            (taken < limit).then_some(taken + 1)
        });
        match taken {
            Ok(_) => Ok(Self(Arc::clone(shared))),
            Err(_) => Err(Error::SessionsFull { limit }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Session {
    pub(crate) fn open(shared: &Arc<Shared>, kind: Kind, request: &Request) -> Result<Self, Error> {
        request.validate()?;
        let config = &shared.config;
        let limits = request.limits.resolve(&config.default_limits, &config.maximum_limits)?;
        request.validate_against(&limits)?;
        let place = Place::take(shared)?;
        let system = |source| Error::System { what: "start a session", source };
        let mut slot = shared.pool(kind).make(1, limits.tmp_bytes).map_err(system)?;
        let parked = slot.take(limits.tmp_bytes).map_err(system)?;
        let mut session = Self { slot, parked, stem: None, limits, ended: None, place };
        let first = Request { program: String::new(), ..request.clone() };
        let report = session.execute(&first, &Control::default())?;
        match session.ended {
            None => Ok(session),
            Some(cause) => Err(system(io::Error::other(format!("{cause} ({:?})", report.outcome)))),
        }
    }

    /// Runs one cell in the session's state. The limits of wall and CPU time and of output are the
    /// cell's own; a time-out interrupts the cell (`KeyboardInterrupt` inside) and keeps the state
    /// if the interpreter comes back within a second.
    ///
    /// # Errors
    /// The request is invalid, or the session has ended before.
    pub fn execute(&mut self, request: &Request, control: &Control<'_>) -> Result<Report, Error> {
        if let Some(cause) = &self.ended {
            return Err(Error::SessionEnded { cause: cause.clone() });
        }
        request.validate()?;
        self.stem = None;
        let shared = Arc::clone(&self.place.0);
        let asked = request.limits.resolve(&self.limits, &shared.config.maximum_limits)?;
        // These hold for the whole session.
        let limits = ResolvedLimits {
            memory_bytes: self.limits.memory_bytes,
            processes: self.limits.processes,
            file_bytes: self.limits.file_bytes,
            tmp_bytes: self.limits.tmp_bytes,
            ..asked
        };
        let turn = Duration::from_millis(shared.config.turn_ms);
        let run = Run::cell(&mut self.slot, &self.parked, request, limits, control, turn);
        match run.finish() {
            Ok(finished) => {
                if finished.child_is_gone {
                    let outcome = finished.report.outcome.name();
                    self.ended = Some(format!("its interpreter ended with `{outcome}`"));
                }
                Ok(shared.label(finished.report))
            }
            Err(error) => {
                self.ended = Some(error.to_string());
                Err(Error::SessionEnded { cause: error.to_string() })
            }
        }
    }

    /// A copy-on-write branch of the live state: another session that starts where this one is,
    /// and from then on shares nothing with it. The first branch of a state takes some
    /// milliseconds and a copy of `/tmp` more than the others.
    ///
    /// # Errors
    /// No place is free, the session has ended, or the branch could not be made: the kernel is
    /// older than 6.12 or has no Landlock, `/tmp` can't be copied, or this session and those that
    /// it branched from have branched in 16 states already (the kernel nests no more domains).
    pub fn fork(&mut self) -> Result<Self, Error> {
        if let Some(cause) = &self.ended {
            return Err(Error::SessionEnded { cause: cause.clone() });
        }
        let place = Place::take(&self.place.0)?;
        let shared = Arc::clone(&self.place.0);
        let group = || shared.bare.branch_group().map_err(failed_to_branch);
        let stem = match self.stem.take() {
            Some(stem) => stem,
            None => {
                let group = group()?;
                branch(&self.slot, &self.parked, group, Scope::Origin, &self.limits).map_err(
                    |failed| {
                        if failed.origin_is_lost {
                            self.ended = Some(format!("it could not branch: {}", failed.cause));
                        }
                        failed_to_branch(failed.cause)
                    },
                )?
            }
        };
        let made = branch(&stem.0, &stem.1, group()?, Scope::Branch, &self.limits);
        let (slot, parked) = made.map_err(|failed| failed_to_branch(failed.cause))?;
        self.stem = Some(stem);
        Ok(Self { slot, parked, stem: None, limits: self.limits, ended: None, place })
    }

    /// Whether the interpreter still lives.
    pub const fn is_alive(&self) -> bool {
        self.ended.is_none()
    }
}

fn failed_to_branch(source: io::Error) -> Error {
    Error::System { what: "branch the session", source }
}
