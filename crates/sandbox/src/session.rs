//! Sessions: live interpreters that keep their state between cells.
//!
//! A cell is a call of its own lane in the scheduler, so that the queue's bound, fairness, turns
//! and accounting hold for it as for any other call. The order of one session's cells is kept
//! before that: a cell enters the queue when the one before it has ended. Opening, forking and
//! closing block for milliseconds and go through [`tokio::task::spawn_blocking`], at most
//! [`CONTROL_OPERATIONS`] at once.
//!
//! Invariants: a session that is not in the registry has no processes left once its ending has been
//! reported; one whose opening nobody waited for is ended at once. Limits of time are kept by one
//! thread that sleeps until the next is reached.

use std::io::Read as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use rocstar_jail::{InvalidRequest, Report, Request, Session};
use tokio::sync::Semaphore;

use crate::intake::{Intake, size_bytes};
use crate::runner::Runner;
use crate::scheduler::{Lane, Plan};
use crate::stats::SessionStats;
use crate::submission::{Job, Source};
use crate::{ClientId, Error, Result, Schedule, SessionId, SessionOptions};

mod live;
mod registry;

use live::Live;
use registry::{Ending, Entry, Lease, Origin, Registry, Terms};

/// Sessions that are being opened, forked or closed at once.
const CONTROL_OPERATIONS: usize = 4;

/// See the module's text. Dropping it ends every session.
#[derive(Debug)]
pub(crate) struct Sessions {
    book: Arc<Book>,
    control: Arc<Semaphore>,
    /// What a session gets that asks for no limits of time, and the most that it may ask for.
    lease: Lease,
    clock: Option<JoinHandle<()>>,
}

/// The registry, and the signal that the next end may have come nearer.
#[derive(Debug, Default)]
struct Book {
    registry: Mutex<Registry<Live>>,
    changed: Condvar,
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Registry<Live>> {
        // Nothing that panics half-way through a change runs under this lock.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends overdue sessions until the registry is closed.
    fn keep_time(&self) {
        let mut registry = self.lock();
        while !registry.closed {
            let now = Instant::now();
            let overdue = registry.remove_overdue(now);
            if !overdue.is_empty() {
                drop(registry);
                overdue.iter().for_each(|(live, cause)| live.end(cause));
                registry = self.lock();
                continue;
            }
            registry = match registry.next_end() {
                None => self.changed.wait(registry).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let until_then = at.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(registry, until_then);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn close_doors(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Ends all. Blocks.
    fn end_all(&self) {
        self.close_doors();
        let all = self.lock().remove_all();
        all.iter().for_each(|(live, cause)| live.end(cause));
    }

    /// Takes a session that has ended by itself out.
    fn notice_death(&self, id: &SessionId, live: &Live) {
        if let Some(cause) = live.cause() {
            let died = Ending::Died { cause: cause.to_owned() };
            self.lock().remove(id, &died);
        }
    }
}

/// One cell or fork on its way: the session is not idle.
struct Use {
    book: Arc<Book>,
    id: SessionId,
    live: Arc<Live>,
    terms: Terms,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for Use {
    fn drop(&mut self) {
        self.book.lock().leave(&self.id, Instant::now());
        self.book.changed.notify_all();
    }
}

impl Sessions {
    /// Starts the thread that keeps the limits of time.
    pub(crate) fn start(idle: Duration, lifetime: Duration) -> Result<Self> {
        let book = Arc::new(Book::default());
        let builder = std::thread::Builder::new().name("rocstar-sessions".to_owned());
        let clock = {
            let book = Arc::clone(&book);
            builder.spawn(move || book.keep_time()).map_err(|source| {
                rocstar_jail::Error::System { what: "starting the sessions' thread", source }
            })?
        };
        let control = Arc::new(Semaphore::new(CONTROL_OPERATIONS));
        Ok(Self { book, control, lease: Lease { idle, lifetime }, clock: Some(clock) })
    }

    pub(crate) async fn open(
        &self,
        runner: &Arc<Runner>,
        intake: &Intake,
        client: ClientId,
        options: SessionOptions,
    ) -> Result<SessionId> {
        let lease = self.lease_of(&options)?;
        let request = Request { limits: options.limits, ..Request::default() };
        intake.check(&request)?;
        let kind = options.kind.unwrap_or_else(|| intake.session_kind());
        let runner = Arc::clone(runner);
        let session = self
            .blocking(move || {
                runner.jail().open_session(kind, &request).map_err(|error| match error {
                    rocstar_jail::Error::SessionsFull { limit } => Error::SessionsFull { limit },
                    error => Error::Jail(error),
                })
            })
            .await?;
        self.register(session, Terms { client, lease }, Origin::Opened)
    }

    pub(crate) async fn execute(
        &self,
        runner: &Runner,
        intake: &Intake,
        client: &ClientId,
        id: &SessionId,
        request: Request,
    ) -> Result<Report> {
        let using = self.enter(client, id)?;
        intake.check(&request)?;
        let plan = Plan::single(Lane::Session, size_bytes(&request));
        intake.check_fits("files", &plan)?;
        let _turn = using.turn.lock().await;
        let mut job = Some(self.cell(&using, request));
        let source: Source = Box::new(move |_| job.take());
        let mut answers = runner.submit(client, plan, source, &Schedule::default())?;
        answers.next().await.map_or(Err(Error::ShuttingDown), |(_, answer)| answer.into())
    }

    pub(crate) async fn fork(&self, client: &ClientId, id: &SessionId) -> Result<SessionId> {
        let using = self.enter(client, id)?;
        let _turn = using.turn.lock().await;
        let (live, book, parent) = (Arc::clone(&using.live), Arc::clone(&self.book), id.clone());
        let session = self
            .blocking(move || {
                let forked = live.fork();
                book.notice_death(&parent, &live);
                forked
            })
            .await?;
        self.register(session, using.terms.clone(), Origin::Forked)
    }

    pub(crate) async fn close(&self, client: &ClientId, id: &SessionId) -> Result<()> {
        let removed = {
            let mut registry = self.book.lock();
            registry.find(client, id)?;
            registry.remove(id, &Ending::Closed)
        };
        if let Some((live, cause)) = removed {
            // At once, in case that nobody waits for the rest.
            live.condemn(&cause);
            self.blocking(move || {
                live.end(&cause);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Opens nothing any more.
    pub(crate) fn close_doors(&self) {
        self.book.close_doors();
    }

    /// Ends all sessions.
    pub(crate) async fn end_all(&self) {
        let book = Arc::clone(&self.book);
        let ended = self.blocking(move || {
            book.end_all();
            Ok(())
        });
        // It fails only where the runtime is going down and starts no thread any more; dropping
        // `self` ends them then.
        let _ = ended.await;
    }

    pub(crate) fn stats(&self) -> SessionStats {
        self.book.lock().stats()
    }

    fn enter(&self, client: &ClientId, id: &SessionId) -> Result<Use> {
        let mut registry = self.book.lock();
        let entry = registry.enter(client, id)?;
        Ok(Use {
            book: Arc::clone(&self.book),
            id: id.clone(),
            live: Arc::clone(&entry.live),
            terms: entry.terms.clone(),
            turn: Arc::clone(&entry.turn),
        })
    }

    fn register(&self, session: Session, terms: Terms, origin: Origin) -> Result<SessionId> {
        let id = random_id()?;
        let live = Arc::new(Live::new(id.clone(), session));
        let entry = Entry::new(live, terms, Instant::now());
        self.book.lock().insert(id.clone(), entry, origin)?;
        self.book.changed.notify_all();
        Ok(id)
    }

    fn cell(&self, using: &Use, request: Request) -> Job {
        let (book, id, live) = (Arc::clone(&self.book), using.id.clone(), Arc::clone(&using.live));
        Box::new(move |_, control| {
            let answer = live.execute(&request, control);
            book.notice_death(&id, &live);
            answer
        })
    }

    fn lease_of(&self, options: &SessionOptions) -> Result<Lease, InvalidRequest> {
        let pick = |field: &str, asked: Option<u64>, most: Duration| {
            let Some(asked_ms) = asked else { return Ok(most) };
            let asked = Duration::from_millis(asked_ms);
            if !asked.is_zero() && asked <= most {
                return Ok(asked);
            }
            let most_ms = most.as_millis();
            Err(InvalidRequest {
                field: field.to_owned(),
                problem: format!("must be between 1 and {most_ms}, is {asked_ms}"),
            })
        };
        Ok(Lease {
            idle: pick("idle_ms", options.idle_ms, self.lease.idle)?,
            lifetime: pick("lifetime_ms", options.lifetime_ms, self.lease.lifetime)?,
        })
    }

    /// Runs what blocks on a thread that may.
    async fn blocking<R: Send + 'static>(
        &self,
        action: impl FnOnce() -> Result<R> + Send + 'static,
    ) -> Result<R> {
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = Arc::clone(&self.control).acquire_owned().await.ok();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            action()
        });
        task.await.unwrap_or_else(|error| {
            let source = std::io::Error::other(error);
            Err(rocstar_jail::Error::System { what: "a session operation", source }.into())
        })
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.book.end_all();
        if let Some(clock) = self.clock.take() {
            // It holds no state that a panic could have spoilt.
            let _ = clock.join();
        }
    }
}

/// 128 bits from the operating system.
fn random_id() -> Result<SessionId> {
    let mut bytes = [0_u8; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| rocstar_jail::Error::System { what: "reading /dev/urandom", source })?;
    Ok(SessionId(format!("{:032x}", u128::from_ne_bytes(bytes))))
}
