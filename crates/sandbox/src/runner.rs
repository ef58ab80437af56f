//! Threads that take calls from the scheduler and run them in the jail.
//!
//! The jail blocks, so each running call needs a thread. There is one per slot, started once; a
//! call costs no thread, no task and no channel: the thread that ends a call books it and takes the
//! next one under the same lock. A waiting thread is handed its call, the thread that waited least
//! first, so that few threads with warm caches do the work when there is little of it.
//!
//! Invariants: the scheduler's books change only under the one lock, which is held for microseconds
//! and never while a job runs; every call that was started is finished, whatever its job does (a
//! panic becomes [`Outcome::Infrastructure`]).
//!
//! Lock order: state, then a submission.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::Stream;
use rocstar_jail::{Control, Jail, Outcome, Report};
use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::scheduler::{Bounds, End, Full, Next, Plan, Removed, RunId, Scheduler, Started, Ticket};
use crate::stats::{Refused, Stats, Tally};
use crate::submission::{Answer, Source, Submission};
use crate::{ClientId, Error, Result, Schedule};

/// Stack of a worker thread. The jail's calls are shallow.
const WORKER_STACK_BYTES: usize = 512 << 10;

/// See the module's text. Dropping it cancels every call and ends the threads.
#[derive(Debug)]
pub(crate) struct Runner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    jail: Jail,
    epoch: Instant,
    state: Mutex<State>,
    /// Signalled when the books get empty after the doors have closed.
    quiet: Notify,
}

#[derive(Debug)]
struct State {
    scheduler: Scheduler<Arc<Submission>>,
    /// Of the waiting threads, the latest last.
    idle: Vec<Arc<Seat>>,
    doors: Doors,
    tally: Tally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doors {
    Open,
    /// Nothing new comes in.
    Closed,
    /// Threads end when they have nothing to run.
    Stopped,
}

/// Where a waiting thread gets its next call.
#[derive(Debug, Default)]
struct Seat {
    assignment: Mutex<Option<Assignment>>,
    changed: Condvar,
}

#[derive(Debug)]
enum Assignment {
    Run(Started<Arc<Submission>>),
    Stop,
}

impl Seat {
    fn assign(&self, assignment: Assignment) {
        *self.assignment.lock().unwrap_or_else(PoisonError::into_inner) = Some(assignment);
        self.changed.notify_one();
    }

    fn wait(&self) -> Assignment {
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
struct Afterwards {
    readers: Vec<Waker>,
    assignments: Vec<(Arc<Seat>, Assignment)>,
}

impl Afterwards {
    fn act(self) {
        self.assignments.into_iter().for_each(|(seat, assignment)| seat.assign(assignment));
        self.readers.into_iter().for_each(Waker::wake);
    }
}

impl Runner {
    /// Starts one thread per slot.
    pub(crate) fn start(jail: Jail, bounds: Bounds) -> Result<Self> {
        let state = State {
            scheduler: Scheduler::new(bounds),
            idle: Vec::new(),
            doors: Doors::Open,
            tally: Tally::default(),
        };
        let shared = Arc::new(Shared {
            jail,
            epoch: Instant::now(),
            state: Mutex::new(state),
            quiet: Notify::new(),
        });
        let mut runner = Self { shared, threads: Vec::new() };
        for _ in 0..bounds.slots.iter().sum() {
            let (seat, shared) = (Arc::new(Seat::default()), Arc::clone(&runner.shared));
            runner.shared.lock().idle.push(Arc::clone(&seat));
            let builder = std::thread::Builder::new()
                .name("rocstar-worker".to_owned())
                .stack_size(WORKER_STACK_BYTES);
            let thread = builder.spawn(move || shared.work(&seat)).map_err(|source| {
                rocstar_jail::Error::System { what: "starting a worker thread", source }
            })?;
            runner.threads.push(thread);
        }
        Ok(runner)
    }

    pub(crate) fn jail(&self) -> &Jail {
        &self.shared.jail
    }

    /// Accepts all calls of `plan`, or none. `source` gives their jobs.
    pub(crate) fn submit(
        &self,
        client: &ClientId,
        plan: Plan,
        source: Source,
        schedule: &Schedule,
    ) -> Result<Answers> {
        let shared = &self.shared;
        let submission = Arc::new(Submission::new(source));
        let calls = plan.calls();
        let mut afterwards = Afterwards::default();
        let ticket = {
            let now_us = shared.now_us();
            let deadline_us = schedule.start_within.map(|within| now_us.saturating_add(us(within)));
            let mut state = shared.lock();
            if state.doors != Doors::Open {
                state.tally.refused.shutting_down += 1;
                return Err(Error::ShuttingDown);
            }
            let admitted = state.scheduler.admit(client, plan, &submission, deadline_us, now_us);
            let ticket = admitted.map_err(|full| {
                state.tally.refused.full += 1;
                full_error(full, state.scheduler.bounds())
            })?;
            shared.dispatch(&mut state, &mut afterwards);
            ticket
        };
        afterwards.act();
        let deadline = schedule.start_within.map(|within| Box::pin(tokio::time::sleep(within)));
        Ok(Answers { shared: Arc::clone(shared), submission, ticket, expected: calls, deadline })
    }

    /// Counts a request that was refused before it came here.
    pub(crate) fn count_refusal(&self, count: impl FnOnce(&mut Refused)) {
        count(&mut self.shared.lock().tally.refused);
    }

    /// Counts calls that take another call's answer.
    pub(crate) fn count_shared(&self, calls: u64) {
        self.shared.lock().tally.shared += calls;
    }

    /// Everything but the sessions.
    pub(crate) fn stats(&self) -> Stats {
        let state = self.shared.lock();
        let ledger = state.scheduler.ledger();
        Stats {
            accepted: ledger.accepted,
            answered: ledger.answered,
            cancelled: ledger.cancelled,
            queued: ledger.queued as u64,
            running: ledger.running as u64,
            queued_bytes: ledger.queued_bytes,
            turns: ledger.turns as u64,
            clients: state.scheduler.clients() as u64,
            refused: state.tally.refused,
            outcomes: state.tally.outcomes(),
            deadline_passed: state.tally.deadline_passed,
            shared: state.tally.shared,
            queue_wait: state.tally.queue_wait.clone(),
            run_time: state.tally.run_time.clone(),
            sessions: Default::default(),
        }
    }

    /// Takes nothing new in, lets what is there end within `grace`, and cancels the rest. All calls
    /// are answered or cancelled when it returns.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        {
            let mut state = self.shared.lock();
            if state.doors == Doors::Open {
                state.doors = Doors::Closed;
            }
        }
        if tokio::time::timeout(grace, self.shared.until_quiet()).await.is_err() {
            self.shared.cancel_all();
            self.shared.until_quiet().await;
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A worker's panic is caught around the job; should one die even so, the others end.
            let _ = thread.join();
        }
    }
}

fn full_error(full: Full, bounds: &Bounds) -> Error {
    let Full { queued, retry_after_s } = full;
    Error::Full { queued, capacity: bounds.queue_calls, retry_after_s }
}

/// Whole microseconds; absurdly long durations saturate.
fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside of the lock, so a panic inside it would be our own bug; the books are
        // still the best that there is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        us(self.epoch.elapsed())
    }

    /// A worker thread's life.
    fn work(&self, seat: &Arc<Seat>) {
        while let Assignment::Run(started) = seat.wait() {
            let mut next = Some(started);
            while let Some(started) = next {
                next = self.run(started, seat);
            }
        }
    }

    /// Runs one call and books it. Gives the next one, or leaves the seat among the idle ones.
    fn run(
        &self,
        started: Started<Arc<Submission>>,
        seat: &Arc<Seat>,
    ) -> Option<Started<Arc<Submission>>> {
        let Started { run, ticket, payload: submission, index, .. } = started;
        let began_us = self.now_us();
        let (answer, end) = match submission.begin(index) {
            None => (Answer::ShuttingDown, End::Cancelled),
            Some((job, cancel)) => {
                let turn_over = || self.turn_over(run);
                let control = Control { cancel: cancel.clone(), turn_over: Some(&turn_over) };
                let answer = catch_unwind(AssertUnwindSafe(|| job(&self.jail, &control)));
                let answer = answer.unwrap_or_else(|_| {
                    let cause = "a worker panicked; its message is on standard error".to_owned();
                    Answer::Report(Report::without_run(Outcome::Infrastructure { cause }))
                });
                (answer, if cancel.is_cancelled() { End::Cancelled } else { End::Answered })
            }
        };
        let mut afterwards = Afterwards::default();
        let next = {
            let now_us = self.now_us();
            let mut state = self.lock();
            if let Answer::Report(report) = &answer {
                state.tally.count_outcome(&report.outcome);
            }
            state.tally.run_time.observe(now_us.saturating_sub(began_us));
            state.scheduler.finish(run, end, now_us);
            let delivered = submission.deliver(index, answer);
            afterwards.readers.extend(delivered.reader);
            if delivered.pause {
                state.scheduler.pause(ticket);
            }
            let next = self.start_next(&mut state, &mut afterwards);
            match &next {
                Some(_) => self.dispatch(&mut state, &mut afterwards),
                None if state.doors == Doors::Stopped => {
                    afterwards.assignments.push((Arc::clone(seat), Assignment::Stop));
                }
                None => state.idle.push(Arc::clone(seat)),
            }
            self.notice_quiet(&state);
            next
        };
        afterwards.act();
        next
    }
}

/// What happens under the lock, and the ways in from other threads.
impl Shared {
    /// Starts what may start, on idle threads. There is a thread per slot, so one is idle for each
    /// call that the scheduler lets start; the condition only makes that plain.
    fn dispatch(&self, state: &mut State, afterwards: &mut Afterwards) {
        while !state.idle.is_empty()
            && let Some(started) = self.start_next(state, afterwards)
        {
            if let Some(seat) = state.idle.pop() {
                afterwards.assignments.push((seat, Assignment::Run(started)));
            }
        }
    }

    /// The next call to run; answers those whose deadline has passed on the way.
    fn start_next(
        &self,
        state: &mut State,
        afterwards: &mut Afterwards,
    ) -> Option<Started<Arc<Submission>>> {
        loop {
            let now_us = self.now_us();
            match state.scheduler.next(now_us)? {
                Next::Start(started) => {
                    state.tally.queue_wait.observe(started.waited_us);
                    return Some(started);
                }
                Next::Expired(removed) => {
                    self.answer_expired(state, removed, now_us, afterwards);
                }
            }
        }
    }

    fn answer_expired(
        &self,
        state: &mut State,
        removed: Removed<Arc<Submission>>,
        now_us: u64,
        afterwards: &mut Afterwards,
    ) {
        state.tally.deadline_passed += removed.indices.len() as u64;
        let waited_ms = now_us.saturating_sub(removed.arrived_us) / 1_000;
        for index in removed.indices {
            let delivered = removed.payload.deliver(index, Answer::DeadlinePassed { waited_ms });
            afterwards.readers.extend(delivered.reader);
        }
    }

    fn notice_quiet(&self, state: &State) {
        let ledger = state.scheduler.ledger();
        if state.doors != Doors::Open && ledger.queued == 0 && ledger.running == 0 {
            self.quiet.notify_waiters();
        }
    }

    async fn until_quiet(&self) {
        loop {
            // Made before the look at the books, so that no notice is missed between the two.
            let noticed = self.quiet.notified();
            let ledger = self.lock().scheduler.ledger();
            if ledger.queued == 0 && ledger.running == 0 {
                return;
            }
            noticed.await;
        }
    }

    /// A running call has used its turn up.
    fn turn_over(&self, run: RunId) {
        let mut afterwards = Afterwards::default();
        {
            let mut state = self.lock();
            state.scheduler.turn_over(run, self.now_us());
            self.dispatch(&mut state, &mut afterwards);
        }
        afterwards.act();
    }

    /// The deadline of a submission has passed: answers its calls that have not started.
    fn expire(&self, ticket: Ticket) {
        let mut afterwards = Afterwards::default();
        {
            let mut state = self.lock();
            let now_us = self.now_us();
            for removed in state.scheduler.withdraw(ticket, End::Answered) {
                self.answer_expired(&mut state, removed, now_us, &mut afterwards);
            }
            self.notice_quiet(&state);
        }
        afterwards.act();
    }

    /// Enough of a submission's answers have been read to go on with it.
    fn resume(&self, ticket: Ticket, submission: &Submission) {
        let mut afterwards = Afterwards::default();
        {
            let mut state = self.lock();
            if submission.resume() {
                state.scheduler.resume(ticket);
                self.dispatch(&mut state, &mut afterwards);
            }
        }
        afterwards.act();
    }

    /// Gives up a submission's calls from `index` on. The number that had not started.
    fn give_up_from(&self, ticket: Ticket, submission: &Submission, index: usize) -> usize {
        let removed = {
            let mut state = self.lock();
            let removed = state.scheduler.withdraw(ticket, End::Cancelled);
            self.notice_quiet(&state);
            removed
        };
        submission.unwant_from(index);
        removed.iter().map(|removed| removed.indices.len()).sum()
    }

    /// Gives up every call.
    fn cancel_all(&self) {
        let mut afterwards = Afterwards::default();
        {
            let mut state = self.lock();
            for removed in state.scheduler.withdraw_all() {
                for index in removed.indices {
                    let delivered = removed.payload.deliver(index, Answer::ShuttingDown);
                    afterwards.readers.extend(delivered.reader);
                }
            }
            state.scheduler.running().for_each(|submission| submission.unwant_from(0));
            self.notice_quiet(&state);
        }
        afterwards.act();
    }

    /// Gives up every call and ends the threads.
    fn stop(&self) {
        let idle = {
            let mut state = self.lock();
            state.doors = Doors::Stopped;
            std::mem::take(&mut state.idle)
        };
        idle.into_iter().for_each(|seat| seat.assign(Assignment::Stop));
        self.cancel_all();
    }
}

/// The answers of one submission, as its calls end. Dropping it gives up what is left: waiting
/// calls leave the queue, running ones are cancelled.
#[derive(Debug)]
pub(crate) struct Answers {
    shared: Arc<Shared>,
    submission: Arc<Submission>,
    ticket: Ticket,
    /// Answers still to come.
    expected: usize,
    /// Wakes this stream when calls that have not started must be answered. The scheduler checks
    /// deadlines itself before it starts a call; this makes the answer prompt.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Answers {
    /// Gives up the calls from `index` on. Calls below it must have started: those of one lane
    /// start in order.
    pub(crate) fn give_up_from(&mut self, index: usize) {
        self.expected -= self.shared.give_up_from(self.ticket, &self.submission, index);
    }
}

impl Stream for Answers {
    type Item = (usize, Answer);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.expected == 0 {
            return Poll::Ready(None);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            self.deadline = None;
            self.shared.expire(self.ticket);
        }
        let read = ready!(self.submission.poll_read(context));
        self.expected -= 1;
        if read.resume {
            self.shared.resume(self.ticket, &self.submission);
        }
        Poll::Ready(Some((read.index, read.answer)))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if self.expected > 0 {
            self.shared.give_up_from(self.ticket, &self.submission, 0);
            drop(self.submission.abandon());
        }
    }
}
