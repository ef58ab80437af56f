//! Who may run now: places in the key and value cache, given out before they are needed.
//!
//! An episode gets a seat when its prompt and what it is expected to write still fit beside those
//! that run, so that the engine never has to throw a sequence out and compute it again. At first
//! every response is expected to be as long as it may be; the lengths of those that ended teach
//! better. Prompts of one task share their room. Seats come back at once, and a seat whose episode
//! waits for a tool leaves its place in the batch to another.
//!
//! Invariants: as long as no episode outgrows its expectation, the seats never hold more than the
//! budget, unless a single one does; and whatever happens, something runs. What an episode holds
//! never depends on anything decided here.
//!
//! Plain values: no clock, no waiting.

use std::collections::BTreeMap;

use crate::generator::Capacity;

#[cfg(test)]
mod properties;

/// Responses that must have ended before their lengths count.
const FEWEST_LESSONS: usize = 8;

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat(u64);

/// What is asked a seat for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applicant {
    /// Applicants with the same one have the same prompt.
    pub(crate) task: usize,
    pub(crate) prompt_tokens: usize,
}

/// Seats taken, and what is known of lengths.
#[derive(Debug)]
pub(crate) struct Scheduler {
    budget_tokens: usize,
    block_tokens: usize,
    shares_prefixes: bool,
    longest_tokens: usize,
    /// Most tokens of a response.
    response_tokens: usize,
    /// Most seats.
    most_seats: usize,
    /// Most seats whose episodes generate.
    most_generating: usize,
    seats: BTreeMap<Seat, Taken>,
    /// Seats of each task, and the room of the prompt that they share.
    prompts: BTreeMap<usize, (usize, usize)>,
    /// Lengths of responses that ended, sorted.
    lessons: Vec<usize>,
    next: u64,
    reserved_tokens: usize,
    most_reserved_tokens: usize,
    most_taken: usize,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    applicant: Applicant,
    response_tokens: usize,
    /// What is held for it, its shared part apart.
    held_tokens: usize,
    generates: bool,
}

impl Scheduler {
    /// All seats free. `most_seats`: 0 for as many as there is room for.
    pub(crate) fn new(capacity: &Capacity, response_tokens: usize, most_seats: usize) -> Self {
        Self {
            budget_tokens: capacity.free_tokens,
            block_tokens: capacity.block_tokens.max(1),
            shares_prefixes: capacity.shares_prefixes,
            longest_tokens: capacity.longest_tokens,
            response_tokens,
            most_seats: if most_seats == 0 { usize::MAX } else { most_seats },
            most_generating: capacity.most_running.max(1),
            seats: BTreeMap::new(),
            prompts: BTreeMap::new(),
            lessons: Vec::new(),
            next: 0,
            reserved_tokens: 0,
            most_reserved_tokens: 0,
            most_taken: 0,
        }
    }

    /// A seat, if there is one now.
    pub(crate) fn admit(&mut self, applicant: Applicant) -> Option<Seat> {
        // Short responses end first, so those that run know more of what is to come.
        let longest_running = self.seats.values().map(|taken| taken.response_tokens).max();
        let expected = self.expected_tokens(0).max(longest_running.unwrap_or(0));
        let held_tokens = self.own_tokens(&applicant, expected);
        let shared = self.shared_tokens(&applicant);
        let is_new = !self.prompts.contains_key(&applicant.task);
        let more = held_tokens + if is_new { shared } else { 0 };
        let fits = self.reserved_tokens + more <= self.budget_tokens
            && self.seats.len() < self.most_seats
            && self.generating() < self.most_generating;
        if !fits && !self.seats.is_empty() {
            return None;
        }
        let seat = Seat(self.next);
        self.next += 1;
        self.prompts.entry(applicant.task).or_insert((0, shared)).0 += 1;
        let taken = Taken { applicant, response_tokens: 0, held_tokens, generates: true };
        self.seats.insert(seat, taken);
        self.most_taken = self.most_taken.max(self.seats.len());
        self.settle(self.reserved_tokens + more);
        Some(seat)
    }

    /// The episode's response has this many tokens now.
    pub(crate) fn grow(&mut self, seat: Seat, response_tokens: usize) {
        let Some(taken) = self.seats.get_mut(&seat) else { return };
        taken.response_tokens = response_tokens;
        let applicant = taken.applicant;
        if self.own_tokens(&applicant, response_tokens) > taken_tokens(&self.seats, seat) {
            self.hold(seat);
        }
    }

    /// Whether the episode generates, or waits for a tool.
    pub(crate) fn set_generates(&mut self, seat: Seat, generates: bool) {
        if let Some(taken) = self.seats.get_mut(&seat) {
            taken.generates = generates;
        }
    }

    /// The seat is free. An episode that came to its end teaches how long responses are.
    pub(crate) fn release(&mut self, seat: Seat, came_to_its_end: bool) {
        let Some(taken) = self.seats.remove(&seat) else { return };
        let mut freed = taken.held_tokens;
        if let Some((seats, shared)) = self.prompts.get_mut(&taken.applicant.task) {
            *seats -= 1;
            if *seats == 0 {
                freed += *shared;
                self.prompts.remove(&taken.applicant.task);
            }
        }
        self.settle(self.reserved_tokens - freed);
        if came_to_its_end {
            let at = self.lessons.partition_point(|lesson| *lesson <= taken.response_tokens);
            self.lessons.insert(at, taken.response_tokens);
            let seats: Vec<Seat> = self.seats.keys().copied().collect();
            seats.into_iter().for_each(|seat| self.hold(seat));
        }
    }

    /// Most seats that were taken at once.
    pub(crate) const fn most_taken(&self) -> usize {
        self.most_taken
    }

    /// Most tokens of the budget that were held at once.
    pub(crate) const fn most_reserved_tokens(&self) -> usize {
        self.most_reserved_tokens
    }

    fn generating(&self) -> usize {
        self.seats.values().filter(|taken| taken.generates).count()
    }

    fn settle(&mut self, reserved_tokens: usize) {
        self.reserved_tokens = reserved_tokens;
        // Episodes that outgrow what was expected of them may hold more than there is: the engine then
        // throws some out, which it counts itself. Of the budget no more than all can be held.
        let held = reserved_tokens.min(self.budget_tokens);
        self.most_reserved_tokens = self.most_reserved_tokens.max(held);
    }

    /// Holds for a seat what its episode is expected to need by now.
    fn hold(&mut self, seat: Seat) {
        let Some(taken) = self.seats.get(&seat).copied() else { return };
        let expected = self.expected_tokens(taken.response_tokens);
        let held_tokens = self.own_tokens(&taken.applicant, expected);
        if let Some(taken) = self.seats.get_mut(&seat) {
            taken.held_tokens = held_tokens;
        }
        self.settle(self.reserved_tokens - taken.held_tokens + held_tokens);
    }

    /// Room for a response of this length, the shared part of the prompt apart.
    fn own_tokens(&self, applicant: &Applicant, response_tokens: usize) -> usize {
        let all = applicant.prompt_tokens.saturating_add(response_tokens).min(self.longest_tokens);
        let own = all.saturating_sub(self.shared_tokens(applicant));
        own.div_ceil(self.block_tokens).saturating_mul(self.block_tokens)
    }

    /// Whole blocks of the prompt, which all samples of the task share. The last token of a prompt
    /// is computed by each, so that it can go on from there.
    fn shared_tokens(&self, applicant: &Applicant) -> usize {
        if !self.shares_prefixes {
            return 0;
        }
        applicant.prompt_tokens.saturating_sub(1) / self.block_tokens * self.block_tokens
    }

    /// How long a response will be that has `so_far` tokens and goes on: a length that nineteen of
    /// twenty such stayed under, and a quarter more.
    fn expected_tokens(&self, so_far: usize) -> usize {
        let outlived = self.lessons.partition_point(|lesson| *lesson <= so_far);
        let longer = &self.lessons[outlived..];
        if longer.len() < FEWEST_LESSONS {
            return self.response_tokens;
        }
        let usual = longer[(longer.len() * 19 / 20).min(longer.len() - 1)];
        (usual + usual / 4 + 1).min(self.response_tokens)
    }
}

fn taken_tokens(seats: &BTreeMap<Seat, Taken>, seat: Seat) -> usize {
    seats.get(&seat).map_or(0, |taken| taken.held_tokens)
}
