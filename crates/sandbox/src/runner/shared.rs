//! What the worker threads, the callers and the service share: the scheduler's books and what
//! happens to them under the one lock.
//!
//! Lock order: state, then a submission. Whatever wakes another thread is done after the lock is
//! free again ([`Afterwards`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rocstar_jail::{Control, Jail, Outcome, Report};
use tokio::sync::Notify;

use super::seat::{Afterwards, Assignment, Seat};
use crate::scheduler::{Bounds, End, Next, Removed, RunId, Scheduler, Started, Ticket};
use crate::stats::Tally;
use crate::submission::{Answer, Submission};

#[derive(Debug)]
pub(super) struct Shared {
    jail: Jail,
    epoch: Instant,
    state: Mutex<State>,
    /// Signalled when the books get empty after the doors have closed.
    quiet: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) scheduler: Scheduler<Arc<Submission>>,
    /// Of the waiting threads, the latest last.
    pub(super) idle: Vec<Arc<Seat>>,
    pub(super) doors: Doors,
    pub(super) tally: Tally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doors {
    Open,
    /// Nothing new comes in.
    Closed,
    /// Threads end when they have nothing to run.
    Stopped,
}

/// Whole microseconds; absurdly long durations saturate.
pub(super) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Shared {
    pub(super) fn new(jail: Jail, bounds: Bounds) -> Self {
        let state = State {
            scheduler: Scheduler::new(bounds),
            idle: Vec::new(),
            doors: Doors::Open,
            tally: Tally::default(),
        };
        Self { jail, epoch: Instant::now(), state: Mutex::new(state), quiet: Notify::new() }
    }

    pub(super) fn jail(&self) -> &Jail {
        &self.jail
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside of the lock, so a panic inside it would be our own bug; the books are
        // still the best that there is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_us(&self) -> u64 {
        us(self.epoch.elapsed())
    }

    /// A worker thread's life.
    pub(super) fn work(&self, seat: &Arc<Seat>) {
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
        let began_us = self.now_us();
        let (answer, end) = self.perform(&started);
        let Started { run, ticket, payload: submission, index, .. } = started;
        let mut afterwards = Afterwards::default();
        let next = {
            let now_us = self.now_us();
            let mut state = self.lock();
            if let Answer::Report(report) = &answer {
                state.tally.count_outcome(&report.outcome);
                state.tally.run_time.observe(now_us.saturating_sub(began_us));
            }
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

    /// Runs the job of one call, unless nobody wants it any more.
    fn perform(&self, started: &Started<Arc<Submission>>) -> (Answer, End) {
        let Some((job, cancel)) = started.payload.begin(started.index) else {
            return (Answer::ShuttingDown, End::Cancelled);
        };
        let turn_over = || self.turn_over(started.run);
        let control = Control { cancel: cancel.clone(), turn_over: Some(&turn_over) };
        let answer = catch_unwind(AssertUnwindSafe(|| job(&self.jail, &control)));
        let answer = answer.unwrap_or_else(|_| {
            let cause = "a worker panicked; its message is on standard error".to_owned();
            Answer::Report(Report::without_run(Outcome::Infrastructure { cause }))
        });
        (answer, if cancel.is_cancelled() { End::Cancelled } else { End::Answered })
    }
}

/// What happens under the lock, and the ways in from other threads.
impl Shared {
    /// Starts what may start, on idle threads. There is a thread per slot, so one is idle for each
    /// call that the scheduler lets start; the condition only makes that plain.
    pub(super) fn dispatch(&self, state: &mut State, afterwards: &mut Afterwards) {
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

    pub(super) async fn until_quiet(&self) {
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
    pub(super) fn expire(&self, ticket: Ticket) {
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
    pub(super) fn resume(&self, ticket: Ticket, submission: &Submission) {
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
    pub(super) fn give_up_from(
        &self,
        ticket: Ticket,
        submission: &Submission,
        index: usize,
    ) -> usize {
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
    pub(super) fn cancel_all(&self) {
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
    pub(super) fn stop(&self) {
        let idle = {
            let mut state = self.lock();
            state.doors = Doors::Stopped;
            std::mem::take(&mut state.idle)
        };
        idle.into_iter().for_each(|seat| seat.assign(Assignment::Stop));
        self.cancel_all();
    }
}
