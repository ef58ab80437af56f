//! The code environment in this process.
//!
//! Joins the parts: what may be asked ([`crate::intake`]), who runs next ([`crate::scheduler`]),
//! the threads that run it ([`crate::runner`]), sessions ([`crate::session`]) and judging
//! ([`crate::judge`]). Invariant: whatever comes in is checked, then accepted or refused as a
//! whole, and what was accepted is answered or cancelled, shutdown included.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::StreamExt as _;
use rocstar_jail::{Config, Effective, InvalidRequest, Jail, Report, Request};
use serde::{Deserialize, Serialize};

use crate::intake::{CALL_BYTES, INLINE_BYTES, Intake, size_bytes};
use crate::runner::Runner;
use crate::scheduler::Bounds;
use crate::session::Sessions;
use crate::stats::{Now, Stats};
use crate::{
    Batch, ClientId, Error, JudgeRequest, Judgement, Reports, Result, Sandbox, Schedule, SessionId,
    SessionOptions, judge,
};

/// The longest idle limit or lifetime of sessions: a year.
const LONGEST_LEASE_MS: u64 = 365 * 24 * 3_600 * 1_000;

/// Set-up of the service. Read from a file or built by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// The jail that runs the programs.
    pub jail: Config,
    /// Most calls that wait at once. One client that submits them one by one gets at most half.
    pub queue_calls: usize,
    /// Most bytes of programs and input that wait at once, shared in the same way.
    pub queue_bytes: usize,
    /// Programs at full priority at once that one client alone can have; several clients have up
    /// to twice as many together. 0: one more than there are cores.
    pub active_calls: usize,
    /// A session ends after this long without a cell, in milliseconds, unless it was opened with a
    /// shorter limit.
    pub session_idle_ms: u64,
    /// A session ends after this long, whatever happens, in milliseconds, unless it was opened
    /// with a shorter limit.
    pub session_lifetime_ms: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            jail: Config::default(),
            queue_calls: 131_072,
            queue_bytes: 512 << 20,
            active_calls: 0,
            session_idle_ms: 10 * 60 * 1_000,
            session_lifetime_ms: 2 * 3_600 * 1_000,
        }
    }
}

impl ServiceConfig {
    /// Checks the service's own fields.
    ///
    /// # Errors
    /// All fields that can't be accepted, in one.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        let lease = 1..=LONGEST_LEASE_MS;
        let checks = [
            ("queue_calls", self.queue_calls >= 1, "must be at least 1"),
            ("queue_bytes", self.queue_bytes >= 1, "must be at least 1"),
            ("jail.slots", self.jail.slots >= 1, "must be at least 1"),
            ("session_idle_ms", lease.contains(&self.session_idle_ms), "1 ms to a year"),
            ("session_lifetime_ms", lease.contains(&self.session_lifetime_ms), "1 ms to a year"),
        ];
        let bad: Vec<_> = checks.iter().filter(|(_, holds, _)| !holds).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let join = |texts: Vec<&str>| texts.join(", ");
        Err(InvalidRequest {
            field: join(bad.iter().map(|(field, ..)| *field).collect()),
            problem: join(bad.iter().map(|(.., problem)| *problem).collect()),
        })
    }

    fn bounds(&self, scientific: bool) -> Bounds {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let active = if self.active_calls == 0 { cores + 1 } else { self.active_calls };
        Bounds {
            queue_calls: self.queue_calls,
            queue_bytes: self.queue_bytes as u64,
            // One client alone gets at most half: see the scheduler.
            turns: 2 * active,
            slots: [
                self.jail.slots,
                if scientific { self.jail.slots } else { 0 },
                self.jail.sessions,
            ],
        }
    }
}

/// The code environment in this process. Its futures need a tokio runtime with time.
///
/// Dropping it cancels every call, ends every session and blocks for the milliseconds that takes;
/// [`LocalSandbox::shutdown`] does so gracefully.
#[derive(Debug)]
pub struct LocalSandbox {
    // The order is that of dropping: sessions end before the jail does.
    sessions: Sessions,
    runner: Arc<Runner>,
    intake: Arc<Intake>,
    config: ServiceConfig,
    /// Of all kinds together.
    slots: u64,
    turns: u64,
}

impl LocalSandbox {
    /// Starts the jail and the threads. Blocks while the interpreters warm up, for 1 to 3 seconds.
    ///
    /// # Errors
    /// The configuration can't be accepted, or the jail or a thread does not start.
    pub fn start(config: ServiceConfig) -> Result<Self> {
        config.validate()?;
        let jail = Jail::start(config.jail.clone())?;
        let scientific = config.jail.scientific && !jail.effective().packages.is_empty();
        let bounds = config.bounds(scientific);
        let intake =
            Intake::new(config.jail.clone(), scientific, bounds.queue_calls, bounds.queue_bytes);
        let sessions = Sessions::start(
            Duration::from_millis(config.session_idle_ms),
            Duration::from_millis(config.session_lifetime_ms),
        )?;
        let (slots, turns) = (bounds.slots.iter().sum::<usize>() as u64, bounds.turns as u64);
        let runner = Arc::new(Runner::start(jail, bounds)?);
        Ok(Self { sessions, runner, intake: Arc::new(intake), config, slots, turns })
    }

    /// The configuration in force.
    pub fn config(&self) -> &ServiceConfig {
        &self.config
    }

    /// Everything that is counted.
    pub fn stats(&self) -> Stats {
        Stats { sessions: self.sessions.stats(), ..self.runner.stats() }
    }

    /// What it does at this moment.
    pub fn state(&self) -> Now {
        let Effective { layers, degraded, .. } = self.runner.jail().effective().clone();
        Now { stats: self.stats(), slots: self.slots, turns: self.turns, layers, degraded }
    }

    /// Process ids of the jail's helpers: see [`Jail::helper_pids`].
    pub fn helper_pids(&self) -> Vec<u32> {
        self.runner.jail().helper_pids()
    }

    /// Accepts nothing any more, lets what was accepted end within `grace`, cancels the rest, and
    /// ends all sessions. Every call has been answered or cancelled when it returns: the counts
    /// that it gives are final.
    pub async fn shutdown(&self, grace: Duration) -> Stats {
        self.sessions.close_doors();
        self.runner.shut_down(grace).await;
        self.sessions.end_all().await;
        self.stats()
    }

    async fn run(&self, client: ClientId, request: Request, schedule: Schedule) -> Result<Report> {
        let (plan, source) = self
            .checked(size_bytes(&request), move |intake| {
                intake.check(&request)?;
                let (plan, source) = intake.single(request);
                intake.check_fits("files", &plan)?;
                Ok((plan, source))
            })
            .await?;
        let mut answers = self.runner.submit(&client, plan, source, &schedule)?;
        answers.next().await.map_or(Err(Error::ShuttingDown), |(_, answer)| answer.into())
    }

    async fn run_batch(
        &self,
        client: ClientId,
        batch: Batch,
        schedule: Schedule,
    ) -> Result<Reports> {
        let bytes = batch.calls.iter().map(|call| CALL_BYTES + size_bytes(call)).sum();
        let prepared = self.checked(bytes, move |intake| intake.batch(batch)).await?;
        let answers = self.runner.submit(&client, prepared.plan, prepared.source, &schedule)?;
        let mut copies = prepared.copies;
        if copies.is_empty() {
            return Ok(answers.map(|(index, answer)| (index, answer.into())).boxed());
        }
        self.runner.count_shared(copies.values().map(Vec::len).sum::<usize>() as u64);
        let each = answers.flat_map(move |(index, answer)| {
            let takers = std::iter::once(index).chain(copies.remove(&index).unwrap_or_default());
            futures::stream::iter(takers.map(move |taker| (taker, answer.clone().into())))
        });
        Ok(each.boxed())
    }

    async fn run_judge(&self, client: ClientId, request: JudgeRequest) -> Result<Judgement> {
        let prepared =
            self.checked(usize::MAX, move |intake| judge::prepare(request, intake)).await?;
        let schedule = Schedule::default();
        let answers = self.runner.submit(&client, prepared.plan, prepared.source, &schedule)?;
        judge::judge(&prepared.request, answers).await
    }

    /// Checks something of `bytes` bytes, off the runtime's threads if it is large, and counts a
    /// refusal.
    async fn checked<R: Send + 'static>(
        &self,
        bytes: usize,
        check: impl FnOnce(&Intake) -> Result<R, InvalidRequest> + Send + 'static,
    ) -> Result<R> {
        let checked = if bytes <= INLINE_BYTES {
            check(&self.intake)
        } else {
            let intake = Arc::clone(&self.intake);
            let task = tokio::task::spawn_blocking(move || check(&intake));
            task.await.map_err(|error| rocstar_jail::Error::System {
                what: "checking a request",
                source: std::io::Error::other(error),
            })?
        };
        self.counting_refusals(checked.map_err(Error::Invalid))
    }

    fn counting_refusals<R>(&self, result: Result<R>) -> Result<R> {
        if let Err(Error::Invalid(_)) = result {
            self.runner.count_refusal(|refused| refused.invalid += 1);
        }
        result
    }
}

impl Sandbox for LocalSandbox {
    fn execute(
        &self,
        client: &ClientId,
        request: Request,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Report>> {
        self.run(client.clone(), request, schedule).boxed()
    }

    fn execute_batch(
        &self,
        client: &ClientId,
        batch: Batch,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Reports>> {
        self.run_batch(client.clone(), batch, schedule).boxed()
    }

    fn open_session(
        &self,
        client: &ClientId,
        options: SessionOptions,
    ) -> BoxFuture<'_, Result<SessionId>> {
        let client = client.clone();
        async move {
            let (runner, intake) = (&self.runner, &self.intake);
            self.counting_refusals(self.sessions.open(runner, intake, client, options).await)
        }
        .boxed()
    }

    fn execute_in_session(
        &self,
        client: &ClientId,
        session: &SessionId,
        request: Request,
    ) -> BoxFuture<'_, Result<Report>> {
        let (client, session) = (client.clone(), session.clone());
        async move {
            let (runner, intake) = (&self.runner, &self.intake);
            let result = self.sessions.execute(runner, intake, &client, &session, request).await;
            self.counting_refusals(result)
        }
        .boxed()
    }

    fn fork_session(
        &self,
        client: &ClientId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<SessionId>> {
        let (client, session) = (client.clone(), session.clone());
        async move { self.sessions.fork(&client, &session).await }.boxed()
    }

    fn close_session(&self, client: &ClientId, session: &SessionId) -> BoxFuture<'_, Result<()>> {
        let (client, session) = (client.clone(), session.clone());
        async move { self.sessions.close(&client, &session).await }.boxed()
    }

    fn judge(&self, client: &ClientId, request: JudgeRequest) -> BoxFuture<'_, Result<Judgement>> {
        self.run_judge(client.clone(), request).boxed()
    }

    fn effective(&self) -> BoxFuture<'_, Result<Effective>> {
        std::future::ready(Ok(self.runner.jail().effective().clone())).boxed()
    }

    fn now(&self) -> Option<Now> {
        Some(self.state())
    }
}
