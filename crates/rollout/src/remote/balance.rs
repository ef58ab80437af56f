//! Which server gets the next request, and what becomes of one that fails.
//!
//! Pure: time comes in as a value. Rules: a server that is full, set aside or out of its rate gets
//! nothing; among the others the one with the most free room in its cache gets it, where all of them
//! tell, else the one with the fewest tokens outstanding; one that has just failed comes last. A server that failed some rounds in a row is
//! set aside, longer each time, and then gets one request at a time until one succeeds. A round is a
//! failure of a request that began after the round before: a thousand requests that one crash takes
//! are one round.

use std::time::{Duration, Instant};

use super::load::Load;

/// After so many rounds of failures a server is set aside.
const ROUNDS_UNTIL_ASIDE: usize = 3;
/// For so long after a failure others are preferred.
const SHUNNED: Duration = Duration::from_secs(5);

/// What is fixed about a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_concurrent: usize,
    /// Time from one beginning to the next.
    pub(super) interval: Duration,
    /// After so many rounds of failures it counts as gone.
    pub(super) rounds_until_gone: usize,
}

/// Who gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one.
    Take(usize),
    /// Nobody now; a place may come free, or this time pass.
    Wait(Option<Instant>),
    /// Nobody, and nobody will: what happened last at each.
    Gone(Vec<String>),
}

/// How a request ended, as far as the server's standing goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was answered, perhaps with a refusal.
    Answered,
    /// Nobody waits for it any more.
    Dropped,
    /// The server is full: it gets nothing for so long.
    Busy { pause: Duration },
    /// It failed; where that sets the server aside, for so long.
    Broken { cause: String, pause: Duration },
}

/// One server's standing.
#[derive(Debug)]
struct Standing {
    limits: Limits,
    running: usize,
    outstanding_tokens: usize,
    /// Rounds of failures since the last success.
    rounds: usize,
    last_round: Option<Instant>,
    aside_until: Option<Instant>,
    next_start: Option<Instant>,
    load: Option<Load>,
    /// Tokens of requests that began since `load` was told.
    begun_since_load: usize,
    cause: String,
}

/// All servers' standings.
#[derive(Debug)]
pub(super) struct Balance {
    standings: Vec<Standing>,
}

impl Balance {
    pub(super) fn new(limits: impl IntoIterator<Item = Limits>) -> Self {
        let standings = limits.into_iter().map(|limits| Standing {
            limits,
            running: 0,
            outstanding_tokens: 0,
            rounds: 0,
            last_round: None,
            aside_until: None,
            next_start: None,
            load: None,
            begun_since_load: 0,
            cause: String::new(),
        });
        Self { standings: standings.collect() }
    }

    /// Chooses for a request of about so many tokens, not `avoid` where there is another, and takes
    /// the place.
    pub(super) fn choose(&mut self, tokens: usize, avoid: Option<usize>, now: Instant) -> Choice {
        if self.is_gone(now) {
            return Choice::Gone(self.standings.iter().map(|it| it.cause.clone()).collect());
        }
        let free = |index: &usize| self.standings[*index].is_free(now);
        let mut candidates: Vec<usize> = (0..self.standings.len()).filter(free).collect();
        if candidates.iter().any(|index| Some(*index) != avoid) {
            candidates.retain(|index| Some(*index) != avoid);
        }
        let all_tell = candidates.iter().all(|index| self.standings[*index].load.is_some());
        let rank = |index: &usize| {
            let it = &self.standings[*index];
            let free = if all_tell { it.free_tokens(tokens) } else { 0 };
            let free = std::cmp::Reverse(free);
            (it.has_failed(now), free, it.outstanding_tokens, it.running, *index)
        };
        let Some(best) = candidates.into_iter().min_by_key(rank) else {
            let times = self.standings.iter().filter_map(|it| it.opens_at(now));
            return Choice::Wait(times.min());
        };
        let it = &mut self.standings[best];
        it.running += 1;
        it.outstanding_tokens += tokens;
        it.begun_since_load = it.begun_since_load.saturating_add(tokens);
        if !it.limits.interval.is_zero() {
            it.next_start = Some(it.next_start.map_or(now, |at| at.max(now)) + it.limits.interval);
        }
        Choice::Take(best)
    }

    /// Gives the place back; whether more than this place may have changed for those that wait.
    pub(super) fn end(
        &mut self,
        index: usize,
        (tokens, begun): (usize, Instant),
        ending: Ending,
        now: Instant,
    ) -> bool {
        let Some(it) = self.standings.get_mut(index) else { return true };
        let was_good = it.rounds == 0 && it.aside_until.is_none();
        it.running -= 1;
        it.outstanding_tokens -= tokens;
        match ending {
            Ending::Dropped => {}
            Ending::Answered => {
                it.rounds = 0;
                it.aside_until = None;
            }
            Ending::Busy { pause } => it.set_aside(now + pause),
            Ending::Broken { cause, pause } => {
                it.cause = cause;
                if it.last_round.is_none_or(|last| begun >= last) {
                    it.rounds += 1;
                    it.last_round = Some(now);
                    if it.rounds >= ROUNDS_UNTIL_ASIDE {
                        it.set_aside(now + pause);
                    }
                }
            }
        }
        !was_good || it.rounds > 0 || it.aside_until.is_some()
    }

    /// Rounds of failures beyond those that are borne.
    pub(super) fn rounds_aside(&self, index: usize) -> usize {
        let rounds = self.standings.get(index).map_or(0, |it| it.rounds);
        (rounds + 1).saturating_sub(ROUNDS_UNTIL_ASIDE)
    }

    /// Whether no server works any more. Who asks after the last pause is over may try again.
    fn is_gone(&self, now: Instant) -> bool {
        let is_gone = |it: &Standing| {
            it.rounds >= it.limits.rounds_until_gone && it.aside_until.is_some_and(|at| at > now)
        };
        self.standings.iter().all(is_gone)
    }

    /// Takes what a server says of its room.
    pub(super) fn tell(&mut self, index: usize, load: Option<Load>) {
        if let Some(it) = self.standings.get_mut(index) {
            it.load = load;
            it.begun_since_load = 0;
        }
    }

    /// What each server said last of its room, with the tokens outstanding there.
    pub(super) fn loads(&self) -> impl Iterator<Item = (Option<Load>, usize)> {
        self.standings.iter().map(|it| (it.load, it.outstanding_tokens))
    }
}

impl Standing {
    fn places(&self) -> usize {
        if self.rounds >= ROUNDS_UNTIL_ASIDE { 1 } else { self.limits.max_concurrent }
    }

    fn is_free(&self, now: Instant) -> bool {
        self.running < self.places() && self.opens_at(now).is_none()
    }

    /// When time alone keeps it from getting a request: until when.
    fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.aside_until.max(self.next_start).filter(|at| *at > now)
    }

    /// Just now, and not answered since: who fails fast has room always, and would get all the work.
    fn has_failed(&self, now: Instant) -> bool {
        self.rounds > 0 && self.last_round.is_some_and(|at| now < at + SHUNNED)
    }

    fn set_aside(&mut self, until: Instant) {
        self.aside_until = self.aside_until.max(Some(until));
    }

    /// Room for another request of `tokens`, those that wait there and those on their way taken off.
    fn free_tokens(&self, tokens: usize) -> i64 {
        let Some(load) = self.load else { return 0 };
        let waiting = load.waiting.saturating_mul(tokens);
        let number = |tokens: usize| i64::try_from(tokens).unwrap_or(i64::MAX);
        number(load.free_tokens()) - number(self.begun_since_load.saturating_add(waiting))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const LIMITS: Limits =
        Limits { max_concurrent: 2, interval: Duration::ZERO, rounds_until_gone: 5 };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn broken() -> Ending {
        Ending::Broken { cause: "down".to_owned(), pause: seconds(10) }
    }

    #[test]
    fn the_fewest_outstanding_tokens_win_and_places_are_bounded() {
        let now = Instant::now();
        let mut balance = Balance::new([LIMITS; 2]);
        let mut taken = |tokens| balance.choose(tokens, None, now);
        let order = [taken(100), taken(10), taken(50), taken(1), taken(1)];
        let expected = [
            Choice::Take(0),
            Choice::Take(1),
            Choice::Take(1),
            Choice::Take(0),
            Choice::Wait(None),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn free_room_wins_where_all_tell_of_it() {
        let now = Instant::now();
        let mut balance = Balance::new([LIMITS; 2]);
        let load = |free_share, waiting| Load { free_share, total_tokens: Some(1000), waiting };
        balance.tell(0, Some(load(0.5, 0)));
        balance.tell(1, Some(load(0.9, 0)));
        // 500 and 900, then 500 and 300.
        assert_eq!(balance.choose(600, None, now), Choice::Take(1));
        assert_eq!(balance.choose(600, None, now), Choice::Take(0));
        balance.tell(0, Some(load(0.5, 3)));
        balance.tell(1, Some(load(0.4, 0)));
        assert_eq!(balance.choose(100, None, now), Choice::Take(1));
    }

    #[test]
    fn wild_loads_are_compared_all_the_same() {
        let now = Instant::now();
        let mut balance = Balance::new([LIMITS; 2]);
        let most = 1 << 48;
        balance.tell(0, Some(Load { free_share: 1.0, total_tokens: Some(most), waiting: most }));
        balance.tell(1, Some(Load { free_share: 0.5, total_tokens: Some(1000), waiting: 0 }));
        assert_eq!(balance.choose(1 << 32, None, now), Choice::Take(1));
        balance.tell(0, Some(Load { free_share: 1.0, total_tokens: Some(most), waiting: 0 }));
        assert_eq!(balance.choose(1 << 32, None, now), Choice::Take(0));
    }

    #[test]
    fn a_rate_is_kept() {
        let now = Instant::now();
        let mut balance = Balance::new([Limits { interval: seconds(2), ..LIMITS }]);
        assert_eq!(balance.choose(1, None, now), Choice::Take(0));
        assert_eq!(balance.choose(1, None, now), Choice::Wait(Some(now + seconds(2))));
        assert_eq!(balance.choose(1, None, now + seconds(2)), Choice::Take(0));
    }

    #[test]
    fn who_fails_in_rounds_is_set_aside_then_tried_by_one_and_at_last_gone() {
        let start = Instant::now();
        let mut balance = Balance::new([LIMITS]);
        let mut now = start;
        for round in 1..=2 {
            assert_eq!(balance.choose(1, None, now), Choice::Take(0));
            assert_eq!(balance.choose(1, None, now), Choice::Take(0));
            let begun = now;
            now += seconds(1);
            // Both began before the first failed: one round.
            assert!(balance.end(0, (1, begun), broken(), now));
            assert!(balance.end(0, (1, begun), broken(), now));
            assert_eq!(balance.rounds_aside(0), 0, "round {round}");
        }
        assert_eq!(balance.choose(1, None, now), Choice::Take(0));
        balance.end(0, (1, now), broken(), now);
        assert_eq!(balance.choose(1, None, now), Choice::Wait(Some(now + seconds(10))));
        now += seconds(10);
        assert_eq!(balance.choose(1, None, now), Choice::Take(0));
        assert_eq!(balance.choose(1, None, now), Choice::Wait(None), "one at a time");
        balance.end(0, (1, now), broken(), now);
        now += seconds(10);
        assert_eq!(balance.choose(1, None, now), Choice::Take(0));
        balance.end(0, (1, now), broken(), now);
        assert_eq!(balance.choose(1, None, now), Choice::Gone(vec!["down".to_owned()]));
        assert_eq!(balance.choose(1, None, now + seconds(10)), Choice::Take(0), "asked later");
    }

    #[test]
    fn another_server_is_preferred_after_a_failure_and_a_success_forgives_all() {
        let now = Instant::now();
        let mut balance = Balance::new([LIMITS; 2]);
        assert_eq!(balance.choose(1, Some(0), now), Choice::Take(1));
        assert_eq!(balance.choose(1, Some(1), now), Choice::Take(0));
        for round in 0..3 {
            let now = now + seconds(round);
            balance.end(0, (0, now), Ending::Dropped, now);
            let _ = balance.choose(0, Some(1), now);
            balance.end(0, (0, now), broken(), now);
            balance.standings[0].running += 1;
        }
        assert!(balance.standings[0].aside_until.is_some());
        balance.end(0, (1, now), Ending::Answered, now);
        assert_eq!((balance.standings[0].rounds, balance.standings[0].aside_until), (0, None));
    }
}
