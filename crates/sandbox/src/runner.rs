//! Threads that take calls from the scheduler and run them in the jail.
//!
//! The jail blocks, so each running call needs a thread. There is one per slot, started once; a
//! call costs no thread, no task and no channel: the thread that ends a call books it and takes the
//! next one under the same lock. A waiting thread is handed its call, the thread that waited least
//! first, so that few threads with warm caches do the work when there is little of it.
//!
//! Invariants: the scheduler's books change only under the one lock, which is held for microseconds
//! and never while a job runs; every call that was started is finished, whatever its job does (a
//! panic becomes infrastructure outcome).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rocstar_jail::Jail;

use crate::scheduler::{Bounds, Full, Plan};
use crate::stats::{Refused, Stats};
use crate::submission::{Source, Submission};
use crate::{ClientId, Error, Result, Schedule};

mod answers;
mod seat;
mod shared;

pub(crate) use answers::Answers;
use seat::{Afterwards, Seat};
use shared::{Doors, Shared, us};

/// Stack of a worker thread. The jail's calls are shallow.
const WORKER_STACK_BYTES: usize = 512 << 10;

/// See the module's text. Dropping it cancels every call and ends the threads.
#[derive(Debug)]
pub(crate) struct Runner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Runner {
    /// Starts one thread per slot.
    pub(crate) fn start(jail: Jail, bounds: Bounds) -> Result<Self> {
        let mut runner = Self { shared: Arc::new(Shared::new(jail, bounds)), threads: Vec::new() };
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
        self.shared.jail()
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
        Ok(Answers::new(Arc::clone(shared), submission, ticket, calls, deadline))
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
