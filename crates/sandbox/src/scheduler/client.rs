//! One client's waiting calls, the places that it holds, and the time that it was given.
//!
//! Invariant: within a lane, ready calls leave in the order of arrival; the time served is what the
//! client's ended turns took plus the usual cost of each turn that it holds now.

use std::collections::BTreeMap;
use std::vec;

use super::plan::{LANES, Lane, Member};
use crate::ClientId;

/// A client's first call is charged this until its costs are known.
const FIRST_COST_US: u64 = 1_000;

/// The waiting calls of one submission in one lane. Never empty.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) payload: T,
    pub(super) members: vec::IntoIter<Member>,
    pub(super) arrived_us: u64,
    pub(super) deadline_us: Option<u64>,
}

impl<T> Waiting<T> {
    pub(super) fn bytes(&self) -> u64 {
        self.members.as_slice().iter().map(|member| u64::from(member.bytes)).sum()
    }
}

#[derive(Debug)]
pub(super) struct ClientLane<T> {
    /// By arrival.
    pub(super) ready: BTreeMap<u64, Waiting<T>>,
    /// Not to be started until resumed.
    pub(super) paused: BTreeMap<u64, Waiting<T>>,
    pub(super) slots: usize,
}

impl<T> Default for ClientLane<T> {
    fn default() -> Self {
        Self { ready: BTreeMap::new(), paused: BTreeMap::new(), slots: 0 }
    }
}

/// A turn that is held: when it began, and what it was charged in advance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    since_us: u64,
    charged_us: u64,
}

/// What the first ready submission of a lane gives.
pub(super) enum Head<T> {
    Call { payload: T, member: Member, arrival: u64, arrived_us: u64, turn: Turn },
    Expired(Waiting<T>),
}

#[derive(Debug)]
pub(super) struct Client<T> {
    pub(super) name: ClientId,
    /// Virtual time: what this client's turns have taken.
    pub(super) served_us: u64,
    /// What one of its turns usually takes.
    usual_cost_us: u64,
    /// Sequence of its latest start: among equals, the one that waited longest goes first.
    pub(super) latest_start: u64,
    pub(super) turns: usize,
    /// Waiting calls and their bytes, over all lanes.
    pub(super) queued_calls: usize,
    pub(super) queued_bytes: u64,
    pub(super) lanes: [ClientLane<T>; LANES],
}

impl<T: Clone> Client<T> {
    /// A client that starts at `served_us`, after all that have started before `sequence`.
    pub(super) fn new(name: ClientId, served_us: u64, sequence: u64) -> Self {
        Self {
            name,
            served_us,
            usual_cost_us: FIRST_COST_US,
            latest_start: sequence,
            turns: 0,
            queued_calls: 0,
            queued_bytes: 0,
            lanes: Default::default(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let lane_is_idle = |lane: &ClientLane<T>| {
            lane.slots == 0 && lane.ready.is_empty() && lane.paused.is_empty()
        };
        self.lanes.iter().all(lane_is_idle)
    }

    /// Takes the next call of a lane, with a slot and a turn, unless its deadline has passed.
    pub(super) fn take_head(&mut self, lane: Lane, sequence: u64, now_us: u64) -> Option<Head<T>> {
        let queue = &mut self.lanes[lane as usize];
        let mut first = queue.ready.first_entry()?;
        if first.get().deadline_us.is_some_and(|deadline_us| deadline_us <= now_us) {
            let waiting = first.remove();
            self.uncount(&waiting);
            return Some(Head::Expired(waiting));
        }
        let arrival = *first.key();
        let member = first.get_mut().members.next()?;
        let (payload, arrived_us) = if first.get().members.len() == 0 {
            let waiting = first.remove();
            (waiting.payload, waiting.arrived_us)
        } else {
            (first.get().payload.clone(), first.get().arrived_us)
        };
        queue.slots += 1;
        self.turns += 1;
        self.queued_calls -= 1;
        self.queued_bytes -= u64::from(member.bytes);
        self.served_us += self.usual_cost_us;
        self.latest_start = sequence;
        let turn = Turn { since_us: now_us, charged_us: self.usual_cost_us };
        Some(Head::Call { payload, member, arrival, arrived_us, turn })
    }

    /// Gives a turn back, and corrects what it was charged.
    pub(super) fn end_turn(&mut self, turn: Turn, now_us: u64) {
        let took_us = now_us.saturating_sub(turn.since_us);
        self.turns -= 1;
        self.served_us = (self.served_us + took_us).saturating_sub(turn.charged_us);
        self.usual_cost_us = (self.usual_cost_us * 7 + took_us) / 8;
    }

    /// Holds a submission's waiting calls back.
    pub(super) fn pause(&mut self, sequence: u64) {
        for lane in &mut self.lanes {
            if let Some(waiting) = lane.ready.remove(&sequence) {
                lane.paused.insert(sequence, waiting);
            }
        }
    }

    /// Undoes [`Self::pause`].
    pub(super) fn resume(&mut self, sequence: u64) {
        for lane in &mut self.lanes {
            if let Some(waiting) = lane.paused.remove(&sequence) {
                lane.ready.insert(sequence, waiting);
            }
        }
    }

    /// Puts a submission's calls of one lane in.
    pub(super) fn put(&mut self, lane: Lane, sequence: u64, waiting: Waiting<T>) {
        self.queued_calls += waiting.members.len();
        self.queued_bytes += waiting.bytes();
        self.lanes[lane as usize].ready.insert(sequence, waiting);
    }

    /// Takes all waiting calls of a submission out.
    pub(super) fn take_submission(&mut self, sequence: u64) -> Vec<Waiting<T>> {
        let lanes = self.lanes.iter_mut();
        let taken: Vec<Waiting<T>> = lanes
            .filter_map(|lane| {
                lane.ready.remove(&sequence).or_else(|| lane.paused.remove(&sequence))
            })
            .collect();
        taken.iter().for_each(|waiting| self.uncount(waiting));
        taken
    }

    /// Takes everything that waits.
    pub(super) fn take_all(&mut self) -> Vec<Waiting<T>> {
        let lanes = self.lanes.iter_mut();
        let taken: Vec<Waiting<T>> = lanes
            .flat_map(|lane| {
                let ready = std::mem::take(&mut lane.ready);
                let paused = std::mem::take(&mut lane.paused);
                ready.into_values().chain(paused.into_values())
            })
            .collect();
        taken.iter().for_each(|waiting| self.uncount(waiting));
        taken
    }

    fn uncount(&mut self, waiting: &Waiting<T>) {
        self.queued_calls -= waiting.members.len();
        self.queued_bytes -= waiting.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Head, Lane, Member, Waiting};
    use crate::ClientId;

    #[test]
    fn a_turn_is_charged_in_advance_and_then_for_what_it_took() {
        let mut client = Client::new(ClientId::new("a"), 0, 0);
        let members = vec![Member { index: 0, bytes: 0 }; 2].into_iter();
        let waiting = Waiting { payload: (), members, arrived_us: 0, deadline_us: None };
        client.put(Lane::Bare, 1, waiting);
        let take = |client: &mut Client<()>| match client.take_head(Lane::Bare, 2, 100) {
            Some(Head::Call { turn, .. }) => turn,
            Some(Head::Expired(_)) | None => panic!("no call"),
        };
        let (first, second) = (take(&mut client), take(&mut client));
        assert_eq!((client.served_us, client.turns), (2_000, 2));
        client.end_turn(first, 9_100);
        assert_eq!((client.served_us, client.usual_cost_us), (10_000, 2_000));
        client.end_turn(second, 100);
        assert_eq!((client.served_us, client.turns), (9_000, 0));
    }
}
