//! Which waiting call starts next: admission, fairness and accounting as plain values.
//!
//! No clock, no thread, no IO: time comes in as `now_us`, decisions go out as values, so that the
//! properties below are tested over random histories (`scheduler/properties.rs`).
//!
//! **Turns and slots.** A running call first holds a *turn*: it runs at full priority. Few calls
//! hold one at once (about one a core), so a short call is done before the next begins and the
//! processors are not shared out among hundreds. A call that has used its turn up is demoted to the
//! lowest priority and gives the turn back, but keeps its *slot*, one of the places of its lane,
//! until it ends. Ending such calls instead would break honest long programs; leaving them at full
//! priority would let infinite loops starve everyone.
//!
//! **Nobody takes everything.** A client may take one more turn, or one more slot of a lane, only
//! while more of them are free than it holds: dynamic thresholds with alpha = 1 (Choudhury and
//! Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). One client
//! alone gets at most half, two clients a third each, and a client that holds nothing gets the last
//! free place. So infinite loops of one client never fill the slots, and another client's call
//! finds a free turn at once; only where many clients hold all turns does it wait, and then for at
//! most one turn's length, since every turn ends by then. The same holds for places in the queue:
//! a client that has no call waiting may submit whatever fits, one that has may go on while more is
//! free than it has waiting. A fixed share per client would need to know the number of clients;
//! strict reservation would waste what is reserved.
//!
//! **Shares are of time, not of calls.** Of the clients that may start one, the client that has
//! used the least time in turns goes first (start-time fair queueing: a client that was away starts
//! at the present, it saves nothing up). A call is charged its client's usual cost when it starts
//! and its true cost when its turn ends. With equal costs this is round-robin between clients; with
//! unequal ones, a client of heavy calls can't take more than its share of the turns. Within a
//! client and a lane, calls start in the order in which they came.
//!
//! Invariants: `accepted = answered + cancelled + queued + running` after every operation; queued
//! calls and bytes, turns and slots stay within [`Bounds`]; a call never starts after its deadline.

use std::collections::{BTreeSet, HashMap};

use crate::ClientId;

mod client;
mod plan;
#[cfg(test)]
mod properties;
mod rate;

use client::{Client, Head, Turn, Waiting};
pub(crate) use plan::{LANES, Lane, Plan};
use rate::Rate;

/// What may be waiting and running at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) queue_calls: usize,
    pub(crate) queue_bytes: u64,
    pub(crate) turns: usize,
    /// By [`Lane`].
    pub(crate) slots: [usize; LANES],
}

/// Names a submission's waiting calls. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket {
    client: u64,
    sequence: u64,
}

/// Names one running call. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// The queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) queued: usize,
    pub(crate) retry_after_s: u64,
}

/// How a call leaves the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Cancelled,
}

/// A decision of [`Scheduler::next`].
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// Run this call now.
    Start(Started<T>),
    /// The deadline of these calls has passed; they are out of the queue and count as answered.
    Expired(Removed<T>),
}

/// A call that now holds a slot and a turn.
#[derive(Debug)]
pub(crate) struct Started<T> {
    pub(crate) run: RunId,
    pub(crate) ticket: Ticket,
    pub(crate) payload: T,
    /// Which call of the submission.
    pub(crate) index: usize,
    pub(crate) waited_us: u64,
}

/// Calls of one submission that left the queue without a start.
#[derive(Debug)]
pub(crate) struct Removed<T> {
    pub(crate) payload: T,
    pub(crate) indices: Vec<usize>,
    pub(crate) arrived_us: u64,
}

/// The books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ledger {
    pub(crate) accepted: u64,
    pub(crate) answered: u64,
    pub(crate) cancelled: u64,
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) queued_bytes: u64,
    pub(crate) turns: usize,
}

impl Ledger {
    fn leave(&mut self, calls: usize, end: End) {
        match end {
            End::Answered => self.answered += calls as u64,
            End::Cancelled => self.cancelled += calls as u64,
        }
    }
}

#[derive(Debug)]
struct Running<T> {
    payload: T,
    client: u64,
    lane: Lane,
    turn: Option<Turn>,
}

/// A client's place in a lane's order: time served, latest start, number.
type Place = (u64, u64, u64);

#[derive(Debug, Default)]
struct LaneState {
    slots_taken: usize,
    /// The clients with a ready call in this lane.
    order: BTreeSet<Place>,
}

/// See the module's text. `T` is what the caller wants back when a call starts.
#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    bounds: Bounds,
    ledger: Ledger,
    lanes: [LaneState; LANES],
    numbers: HashMap<ClientId, u64>,
    clients: HashMap<u64, Client<T>>,
    running: HashMap<RunId, Running<T>>,
    /// Time served of the client that started last: where a client begins that was away.
    present_us: u64,
    sequence: u64,
    finishes: Rate,
}

impl<T: Clone> Scheduler<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            ledger: Ledger::default(),
            lanes: Default::default(),
            numbers: HashMap::new(),
            clients: HashMap::new(),
            running: HashMap::new(),
            present_us: 0,
            sequence: 0,
            finishes: Rate::default(),
        }
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Clients that have a waiting or running call.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// What [`Self::next`] gave out and [`Self::finish`] has not seen.
    pub(crate) fn running(&self) -> impl Iterator<Item = &T> {
        self.running.values().map(|running| &running.payload)
    }

    /// Accepts all calls of `plan`, or none.
    pub(crate) fn admit(
        &mut self,
        client: &ClientId,
        plan: Plan,
        payload: &T,
        deadline_us: Option<u64>,
        now_us: u64,
    ) -> Result<Ticket, Full> {
        if !self.has_room(client, &plan) {
            let queued = self.ledger.queued;
            let retry_after_s = self.finishes.seconds_for(queued, now_us);
            return Err(Full { queued, retry_after_s });
        }
        self.ledger.accepted += plan.calls() as u64;
        self.ledger.queued += plan.calls();
        self.ledger.queued_bytes += plan.bytes();
        let sequence = self.next_sequence();
        let number = self.number_of(client, sequence);
        self.change(number, |client| {
            for (lane, members) in Lane::ALL.into_iter().zip(plan.into_lanes()) {
                if !members.is_empty() {
                    let (payload, members) = (payload.clone(), members.into_iter());
                    let waiting = Waiting { payload, members, arrived_us: now_us, deadline_us };
                    client.put(lane, sequence, waiting);
                }
            }
        });
        Ok(Ticket { client: number, sequence })
    }

    /// Whether a submission fits, and its client does not fill the queue alone: the same threshold
    /// as for turns and slots, over calls and over bytes.
    fn has_room(&self, client: &ClientId, plan: &Plan) -> bool {
        let free_calls = self.bounds.queue_calls - self.ledger.queued;
        let free_bytes = self.bounds.queue_bytes - self.ledger.queued_bytes;
        let client = self.numbers.get(client).and_then(|number| self.clients.get(number));
        let (calls, bytes) =
            client.map_or((0, 0), |client| (client.queued_calls, client.queued_bytes));
        let fits = plan.calls() <= free_calls && plan.bytes() <= free_bytes;
        fits && calls < free_calls && bytes <= free_bytes
    }

    /// The next call to start, if one may start now. Ask again until there is none.
    pub(crate) fn next(&mut self, now_us: u64) -> Option<Next<T>> {
        let (place, lane) = self.choose()?;
        let (served_us, _, number) = place;
        let sequence = self.next_sequence();
        match self.change(number, |client| client.take_head(lane, sequence, now_us))?? {
            Head::Expired(waiting) => Some(Next::Expired(self.remove(waiting, End::Answered))),
            Head::Call { payload, member, arrival, arrived_us, turn } => {
                self.present_us = self.present_us.max(served_us);
                self.ledger.queued -= 1;
                self.ledger.queued_bytes -= u64::from(member.bytes);
                self.ledger.running += 1;
                self.ledger.turns += 1;
                self.lanes[lane as usize].slots_taken += 1;
                let run = RunId(sequence);
                let running =
                    Running { payload: payload.clone(), client: number, lane, turn: Some(turn) };
                self.running.insert(run, running);
                let waited_us = now_us.saturating_sub(arrived_us);
                let ticket = Ticket { client: number, sequence: arrival };
                let index = member.index as usize;
                Some(Next::Start(Started { run, ticket, payload, index, waited_us }))
            }
        }
    }

    /// The first client in the order of a lane that may take a slot and a turn.
    ///
    /// Clients that may not are passed over. Each of them holds at least as many turns or slots as
    /// are free, at least one, so the search is bounded by the number of turns and slots.
    fn choose(&self) -> Option<(Place, Lane)> {
        let free_turns = self.bounds.turns - self.ledger.turns;
        let candidate = |lane: Lane| {
            let state = &self.lanes[lane as usize];
            let free_slots = self.bounds.slots[lane as usize] - state.slots_taken;
            if free_turns == 0 || free_slots == 0 {
                return None;
            }
            state.order.iter().find_map(|place| {
                let client = self.clients.get(&place.2)?;
                let held = &client.lanes[lane as usize];
                let allowed = free_slots > held.slots && free_turns > client.turns;
                let first = *held.ready.first_key_value()?.0;
                allowed.then_some((*place, first, lane))
            })
        };
        let best = Lane::ALL.into_iter().filter_map(candidate).min()?;
        Some((best.0, best.2))
    }

    /// A running call has used its turn up; it keeps its slot.
    pub(crate) fn turn_over(&mut self, run: RunId, now_us: u64) {
        let Some(running) = self.running.get_mut(&run) else { return };
        let (number, turn) = (running.client, running.turn.take());
        if let Some(turn) = turn {
            self.ledger.turns -= 1;
            self.change(number, |client| client.end_turn(turn, now_us));
        }
    }

    /// A running call has ended.
    pub(crate) fn finish(&mut self, run: RunId, end: End, now_us: u64) {
        self.turn_over(run, now_us);
        let Some(Running { client, lane, .. }) = self.running.remove(&run) else { return };
        self.lanes[lane as usize].slots_taken -= 1;
        self.ledger.running -= 1;
        self.ledger.leave(1, end);
        self.finishes.observe(now_us);
        self.change(client, |client| client.lanes[lane as usize].slots -= 1);
    }

    /// Holds back what is left of a submission, without losing its place.
    pub(crate) fn pause(&mut self, ticket: Ticket) {
        self.change(ticket.client, |client| client.pause(ticket.sequence));
    }

    /// Undoes [`Self::pause`].
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        self.change(ticket.client, |client| client.resume(ticket.sequence));
    }

    /// Takes what is left of a submission out of the queue. Its running calls stay.
    pub(crate) fn withdraw(&mut self, ticket: Ticket, end: End) -> Vec<Removed<T>> {
        let taken = self.change(ticket.client, |client| client.take_submission(ticket.sequence));
        taken.unwrap_or_default().into_iter().map(|waiting| self.remove(waiting, end)).collect()
    }

    /// Empties the queue.
    pub(crate) fn withdraw_all(&mut self) -> Vec<Removed<T>> {
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        let mut removed = Vec::new();
        for number in numbers {
            let taken = self.change(number, Client::take_all).unwrap_or_default();
            removed.extend(taken.into_iter().map(|waiting| self.remove(waiting, End::Cancelled)));
        }
        removed
    }

    /// Books calls that have been taken out of a client's queue.
    fn remove(&mut self, waiting: Waiting<T>, end: End) -> Removed<T> {
        let members = waiting.members.as_slice();
        self.ledger.queued -= members.len();
        self.ledger.queued_bytes -= waiting.bytes();
        self.ledger.leave(members.len(), end);
        let indices = members.iter().map(|member| member.index as usize).collect();
        Removed { payload: waiting.payload, indices, arrived_us: waiting.arrived_us }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn number_of(&mut self, name: &ClientId, sequence: u64) -> u64 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.clone(), sequence);
        self.clients.insert(sequence, Client::new(name.clone(), self.present_us, sequence));
        sequence
    }

    /// Changes a client and keeps the order of the lanes in step with it. A client that neither
    /// waits nor runs is forgotten.
    fn change<R>(&mut self, number: u64, action: impl FnOnce(&mut Client<T>) -> R) -> Option<R> {
        let client = self.clients.get_mut(&number)?;
        for (state, _) in self.lanes.iter_mut().zip(&client.lanes).filter(has_ready) {
            state.order.remove(&(client.served_us, client.latest_start, number));
        }
        let result = action(client);
        for (state, _) in self.lanes.iter_mut().zip(&client.lanes).filter(has_ready) {
            state.order.insert((client.served_us, client.latest_start, number));
        }
        if client.is_idle() {
            self.numbers.remove(&client.name);
            self.clients.remove(&number);
        }
        Some(result)
    }
}

fn has_ready<T>(pair: &(&mut LaneState, &client::ClientLane<T>)) -> bool {
    !pair.1.ready.is_empty()
}
