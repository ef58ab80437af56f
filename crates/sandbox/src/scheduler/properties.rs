//! Properties of the scheduler over random histories, checked against a model that is a plain list
//! of calls.

use proptest::prelude::*;

use super::{Bounds, End, LANES, Lane, Ledger, Next, Plan, RunId, Scheduler, Ticket};
use crate::ClientId;

const BOUNDS: Bounds = Bounds { queue_calls: 12, queue_bytes: 100, turns: 4, slots: [5, 3, 2] };

#[derive(Debug, Clone)]
enum Step {
    Admit { client: usize, calls: Vec<(usize, usize)>, start_within_us: Option<u64> },
    Next,
    TurnOver(usize),
    Finish(usize, bool),
    Withdraw(usize, bool),
    Pause(usize),
    Resume(usize),
    WithdrawAll,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let calls = prop::collection::vec((0..LANES, 0..30_usize), 1..6);
    prop_oneof![
        6 => (0..4_usize, calls, prop::option::of(0..50_u64)).prop_map(
            |(client, calls, start_within_us)| Step::Admit { client, calls, start_within_us }
        ),
        10 => Just(Step::Next),
        4 => any::<usize>().prop_map(Step::TurnOver),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(nth, answered)| Step::Finish(nth, answered)),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(nth, answered)| Step::Withdraw(nth, answered)),
        2 => any::<usize>().prop_map(Step::Pause),
        2 => any::<usize>().prop_map(Step::Resume),
        1 => Just(Step::WithdrawAll),
        4 => (0..40_u64).prop_map(Step::Wait),
    ]
}

#[derive(Debug, Clone)]
struct WaitingCall {
    submission: usize,
    client: usize,
    lane: usize,
    index: usize,
    bytes: u64,
    deadline_us: Option<u64>,
    paused: bool,
}

#[derive(Debug)]
struct RunningCall {
    run: RunId,
    client: usize,
    lane: usize,
    has_turn: bool,
}

/// The plain list, in order of arrival.
#[derive(Debug, Default)]
struct Model {
    waiting: Vec<WaitingCall>,
    running: Vec<RunningCall>,
    tickets: Vec<Ticket>,
    accepted: u64,
    answered: u64,
    cancelled: u64,
    now_us: u64,
}

fn lane_of(number: usize) -> Lane {
    Lane::ALL[number]
}

fn name(client: usize) -> ClientId {
    ClientId::new(&format!("client {client}"))
}

fn end_of(answered: bool) -> End {
    if answered { End::Answered } else { End::Cancelled }
}

impl Model {
    fn leave(&mut self, calls: usize, end: End) {
        match end {
            End::Answered => self.answered += calls as u64,
            End::Cancelled => self.cancelled += calls as u64,
        }
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            accepted: self.accepted,
            answered: self.answered,
            cancelled: self.cancelled,
            queued: self.waiting.len(),
            running: self.running.len(),
            queued_bytes: self.waiting.iter().map(|call| call.bytes).sum(),
            turns: self.running.iter().filter(|call| call.has_turn).count(),
        }
    }

    /// Whether the rules let a client start a call of a lane now.
    fn may_start(&self, client: usize, lane: usize) -> bool {
        let count = |test: &dyn Fn(&&RunningCall) -> bool| self.running.iter().filter(test).count();
        let free_slots = BOUNDS.slots[lane] - count(&|call| call.lane == lane);
        let held_slots = count(&|call| call.lane == lane && call.client == client);
        let free_turns = BOUNDS.turns - count(&|call| call.has_turn);
        let held_turns = count(&|call| call.has_turn && call.client == client);
        free_slots > held_slots && free_turns > held_turns
    }

    fn admit(&mut self, client: usize, calls: &[(usize, usize)], start_within_us: Option<u64>) {
        let submission = self.tickets.len();
        let deadline_us = start_within_us.map(|within_us| self.now_us + within_us);
        for (index, &(lane, bytes)) in calls.iter().enumerate() {
            let bytes = bytes as u64;
            let paused = false;
            self.waiting.push(WaitingCall {
                submission,
                client,
                lane,
                index,
                bytes,
                deadline_us,
                paused,
            });
        }
        self.accepted += calls.len() as u64;
    }

    /// Takes the calls of a submission out (of one lane only, if given); their indices.
    fn remove(&mut self, submission: usize, lane: Option<usize>, end: End) -> Vec<usize> {
        let matches = |call: &WaitingCall| {
            call.submission == submission && lane.is_none_or(|lane| lane == call.lane)
        };
        let mut removed: Vec<usize> =
            self.waiting.iter().filter(|call| matches(call)).map(|call| call.index).collect();
        removed.sort_unstable();
        self.waiting.retain(|call| !matches(call));
        self.leave(removed.len(), end);
        removed
    }

    fn check_next(&mut self, next: Option<Next<usize>>) -> Result<(), TestCaseError> {
        let startable = |model: &Self| {
            let mut ready = model.waiting.iter().filter(|call| !call.paused);
            ready.any(|call| model.may_start(call.client, call.lane))
        };
        match next {
            None => prop_assert!(!startable(self), "idle while a call could start"),
            Some(Next::Expired(removed)) => {
                let head = self.waiting.iter().find(|call| {
                    call.submission == removed.payload && removed.indices.contains(&call.index)
                });
                let (deadline_us, lane) = head.map(|call| (call.deadline_us, call.lane)).unwrap();
                prop_assert!(deadline_us.unwrap() <= self.now_us);
                let mut indices = removed.indices;
                indices.sort_unstable();
                let expected = self.remove(removed.payload, Some(lane), End::Answered);
                prop_assert_eq!(indices, expected);
            }
            Some(Next::Start(started)) => {
                let position = self.waiting.iter().position(|call| {
                    call.submission == started.payload && call.index == started.index
                });
                let call = self.waiting[position.unwrap()].clone();
                prop_assert!(!call.paused);
                prop_assert!(call.deadline_us.is_none_or(|deadline_us| self.now_us < deadline_us));
                prop_assert!(self.may_start(call.client, call.lane), "threshold passed");
                let first = self.waiting.iter().position(|other| {
                    other.client == call.client && other.lane == call.lane && !other.paused
                });
                prop_assert_eq!(first, position, "not first in, first out");
                self.waiting.remove(position.unwrap());
                self.running.push(RunningCall {
                    run: started.run,
                    client: call.client,
                    lane: call.lane,
                    has_turn: true,
                });
            }
        }
        Ok(())
    }
}

fn apply(
    step: Step,
    scheduler: &mut Scheduler<usize>,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    let nth_ticket = |nth: usize, model: &Model| {
        let submission = nth.checked_rem(model.tickets.len())?;
        Some((submission, model.tickets[submission]))
    };
    match step {
        Step::Admit { client, calls, start_within_us } => {
            let mut plan = Plan::default();
            for (index, &(lane, bytes)) in calls.iter().enumerate() {
                plan.add(index as u32, lane_of(lane), bytes);
            }
            let bytes = plan.bytes();
            let deadline_us = start_within_us.map(|within_us| model.now_us + within_us);
            let submission = model.tickets.len();
            let admitted =
                scheduler.admit(&name(client), plan, &submission, deadline_us, model.now_us);
            let before = model.ledger();
            let free_calls = BOUNDS.queue_calls - before.queued;
            let free_bytes = BOUNDS.queue_bytes - before.queued_bytes;
            let own = || model.waiting.iter().filter(|call| call.client == client);
            let own_bytes: u64 = own().map(|call| call.bytes).sum();
            let has_room = calls.len() <= free_calls
                && bytes <= free_bytes
                && own().count() < free_calls
                && own_bytes <= free_bytes;
            prop_assert_eq!(admitted.is_ok(), has_room);
            if let Ok(ticket) = admitted {
                model.admit(client, &calls, start_within_us);
                model.tickets.push(ticket);
            }
        }
        Step::Next => model.check_next(scheduler.next(model.now_us))?,
        Step::TurnOver(nth) => {
            if let Some(nth) = nth.checked_rem(model.running.len()) {
                model.running[nth].has_turn = false;
                scheduler.turn_over(model.running[nth].run, model.now_us);
            }
        }
        Step::Finish(nth, answered) => {
            if let Some(nth) = nth.checked_rem(model.running.len()) {
                let call = model.running.remove(nth);
                model.leave(1, end_of(answered));
                scheduler.finish(call.run, end_of(answered), model.now_us);
            }
        }
        Step::Withdraw(nth, answered) => {
            if let Some((submission, ticket)) = nth_ticket(nth, model) {
                let removed = scheduler.withdraw(ticket, end_of(answered));
                let mut indices: Vec<usize> =
                    removed.into_iter().flat_map(|removed| removed.indices).collect();
                indices.sort_unstable();
                prop_assert_eq!(indices, model.remove(submission, None, end_of(answered)));
            }
        }
        Step::Pause(nth) | Step::Resume(nth) => {
            if let Some((submission, ticket)) = nth_ticket(nth, model) {
                let pause = matches!(step, Step::Pause(_));
                if pause {
                    scheduler.pause(ticket)
                } else {
                    scheduler.resume(ticket)
                }
                let calls = model.waiting.iter_mut();
                calls
                    .filter(|call| call.submission == submission)
                    .for_each(|call| call.paused = pause);
            }
        }
        Step::WithdrawAll => {
            let removed: usize =
                scheduler.withdraw_all().iter().map(|removed| removed.indices.len()).sum();
            prop_assert_eq!(removed, model.waiting.len());
            model.waiting.clear();
            model.leave(removed, End::Cancelled);
        }
        Step::Wait(us) => model.now_us += us,
    }
    Ok(())
}

proptest! {
    /// The scheduler and the plain list agree after every step: the books, the bounds, the
    /// thresholds, the order within a client, the deadlines, and that nothing idles needlessly.
    #[test]
    fn agrees_with_a_plain_list(steps in prop::collection::vec(step(), 1..200)) {
        let mut scheduler = Scheduler::new(BOUNDS);
        let mut model = Model::default();
        for step in steps {
            apply(step, &mut scheduler, &mut model)?;
            let ledger = scheduler.ledger();
            prop_assert_eq!(ledger, model.ledger());
            let (queued, running) = (ledger.queued as u64, ledger.running as u64);
            prop_assert_eq!(
                ledger.accepted,
                ledger.answered + ledger.cancelled + queued + running
            );
            prop_assert!(ledger.turns <= BOUNDS.turns && queued <= BOUNDS.queue_calls as u64);
            if queued + running == 0 {
                prop_assert_eq!(scheduler.clients(), 0, "a client was not forgotten");
            }
        }
    }

    /// Clients that always have work get the same time in turns, whatever their calls cost.
    #[test]
    fn shares_time_and_not_calls(costs_us in prop::collection::vec(100..40_000_u64, 2..5)) {
        const CALLS: usize = 400;
        let bounds =
            Bounds { queue_calls: 10_000, queue_bytes: u64::MAX, turns: 4, slots: [8, 8, 8] };
        let mut scheduler = Scheduler::new(bounds);
        for client in 0..costs_us.len() {
            let mut plan = Plan::default();
            (0..CALLS).for_each(|index| plan.add(index as u32, Lane::Bare, 0));
            scheduler.admit(&name(client), plan, &client, None, 0).unwrap();
        }
        let mut running: Vec<(u64, RunId, usize)> = Vec::new();
        let mut served_us = vec![0; costs_us.len()];
        let mut started = vec![0; costs_us.len()];
        let mut now_us = 0;
        while started.iter().all(|&count| count < CALLS) {
            while let Some(Next::Start(call)) = scheduler.next(now_us) {
                running.push((now_us + costs_us[call.payload], call.run, call.payload));
                started[call.payload] += 1;
            }
            let first = (0..running.len()).min_by_key(|&nth| running[nth].0).unwrap();
            let (end_us, run, client) = running.swap_remove(first);
            now_us = end_us;
            served_us[client] += costs_us[client];
            scheduler.finish(run, End::Answered, now_us);
        }
        // Off by what one client can have in flight, and by the cost of calls before it was known.
        let slack_us = 16 * costs_us.iter().max().unwrap();
        let spread_us = served_us.iter().max().unwrap() - served_us.iter().min().unwrap();
        prop_assert!(spread_us <= slack_us, "{served_us:?} with costs {costs_us:?}");
    }
}

fn admit_calls(scheduler: &mut Scheduler<&'static str>, client: &'static str, calls: u32) {
    let mut plan = Plan::default();
    (0..calls).for_each(|index| plan.add(index, Lane::Bare, 1));
    scheduler.admit(&ClientId::new(client), plan, &client, None, 0).unwrap();
}

fn start(scheduler: &mut Scheduler<&'static str>) -> Option<(&'static str, RunId)> {
    match scheduler.next(0)? {
        Next::Start(started) => Some((started.payload, started.run)),
        Next::Expired(removed) => panic!("{removed:?} expired"),
    }
}

const ROOMY: Bounds =
    Bounds { queue_calls: 1_000, queue_bytes: 1_000, turns: 4, slots: [8; LANES] };

#[test]
fn equal_calls_alternate_between_clients() {
    let mut scheduler = Scheduler::new(ROOMY);
    admit_calls(&mut scheduler, "a", 3);
    admit_calls(&mut scheduler, "b", 3);
    let order = std::iter::from_fn(|| {
        let (client, run) = start(&mut scheduler)?;
        scheduler.finish(run, End::Answered, 0);
        Some(client)
    });
    assert_eq!(order.collect::<Vec<_>>(), ["a", "b", "a", "b", "a", "b"]);
}

#[test]
fn infinite_loops_of_one_client_leave_half_of_the_slots_and_a_free_turn() {
    let mut scheduler = Scheduler::new(ROOMY);
    admit_calls(&mut scheduler, "loops", 100);
    let mut loops = Vec::new();
    while let Some((_, run)) = start(&mut scheduler) {
        loops.push(run);
        if loops.len() == 2 {
            // Both of its turns are held, and yet another client starts at once.
            assert!(start(&mut scheduler).is_none());
            admit_calls(&mut scheduler, "other", 1);
            let (client, run) = start(&mut scheduler).unwrap();
            assert_eq!(client, "other");
            scheduler.finish(run, End::Answered, 0);
        }
        if loops.len() >= 2 {
            loops.iter().for_each(|&run| scheduler.turn_over(run, 0));
        }
    }
    assert_eq!(loops.len(), ROOMY.slots[0] / 2);
    admit_calls(&mut scheduler, "other", 20);
    for _ in 0..20 {
        let (client, run) = start(&mut scheduler).unwrap();
        assert_eq!(client, "other");
        scheduler.finish(run, End::Answered, 0);
    }
}

#[test]
fn a_client_that_floods_the_queue_leaves_half_of_it() {
    let mut scheduler = Scheduler::new(Bounds { queue_calls: 10, ..ROOMY });
    let mut submit = |client: &'static str, calls: u32| {
        let mut plan = Plan::default();
        (0..calls).for_each(|index| plan.add(index, Lane::Bare, 1));
        scheduler.admit(&ClientId::new(client), plan, &client, None, 0).is_ok()
    };
    assert_eq!((0..100).filter(|_| submit("flood", 1)).count(), 5);
    assert!(submit("other", 5), "what fits is taken from a client that has nothing waiting");
}

#[test]
fn a_client_that_was_away_has_saved_nothing_up() {
    let mut scheduler = Scheduler::new(ROOMY);
    admit_calls(&mut scheduler, "busy", 10);
    let mut now_us = 0;
    let mut run_one = |scheduler: &mut Scheduler<&'static str>| {
        let (client, run) = start(scheduler).unwrap();
        now_us += 1_000;
        scheduler.turn_over(run, 1_000);
        scheduler.finish(run, End::Answered, now_us);
        client
    };
    (0..5).for_each(|_| assert_eq!(run_one(&mut scheduler), "busy"));
    admit_calls(&mut scheduler, "new", 10);
    let first: Vec<_> = (0..6).map(|_| run_one(&mut scheduler)).collect();
    assert_eq!(first.iter().filter(|&&client| client == "new").count(), 3, "{first:?}");
}

#[test]
fn the_client_that_was_served_least_goes_first_whatever_its_lane() {
    let mut scheduler = Scheduler::new(ROOMY);
    admit_calls(&mut scheduler, "busy", 10);
    for _ in 0..3 {
        let (_, run) = start(&mut scheduler).unwrap();
        scheduler.finish(run, End::Answered, 1_000);
    }
    let plan = Plan::single(Lane::Session, 1);
    scheduler.admit(&ClientId::new("cell"), plan, &"cell", None, 0).unwrap();
    // It has just come, so it starts level with the other one, which then has to wait.
    let order: Vec<_> = (0..2).map(|_| start(&mut scheduler).unwrap().0).collect();
    assert_eq!(order, ["cell", "busy"]);
}
