//! What the service has done so far, as numbers that add up.
//!
//! Invariant of every [`Stats`]: `accepted = answered + cancelled + queued + running`. A snapshot is
//! taken at one moment, so the sum holds in each.

use std::collections::BTreeMap;

use rocstar_jail::{LayerState, Outcome};
use serde::{Deserialize, Serialize};

/// Upper bounds of the histograms' buckets, in microseconds; the last bucket has no bound.
pub const HISTOGRAM_BOUNDS_US: [u64; 17] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
];

/// A distribution of durations, in fixed buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Observations in each bucket of [`HISTOGRAM_BOUNDS_US`] (not cumulative), then those above
    /// the last bound.
    pub counts: [u64; HISTOGRAM_BOUNDS_US.len() + 1],
    /// Sum of all observations, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    pub(crate) fn observe(&mut self, duration_us: u64) {
        let bucket = HISTOGRAM_BOUNDS_US.partition_point(|&bound_us| bound_us < duration_us);
        self.counts[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(duration_us);
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Requests that were turned away before they were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The queue was full.
    pub full: u64,
    /// The request could not be accepted as it stood.
    pub invalid: u64,
    /// The service was shutting down.
    pub shutting_down: u64,
}

/// Sessions, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStats {
    /// Alive now.
    pub open: u64,
    /// Opened so far, forks included.
    pub opened: u64,
    /// Of these: branched from another session.
    pub forked: u64,
    /// Ended by their client.
    pub closed: u64,
    /// Ended after their idle limit.
    pub idle: u64,
    /// Ended after their absolute limit.
    pub lifetime: u64,
    /// Ended since their process died.
    pub died: u64,
    /// Ended by the service's shutdown.
    pub shut_down: u64,
}

/// Everything that is counted, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// Calls taken into the queue so far (session cells and judge cases are calls).
    pub accepted: u64,
    /// Calls whose caller got an answer.
    pub answered: u64,
    /// Calls given up: the caller went away, a judgement stopped early, or the service stopped.
    pub cancelled: u64,
    /// Calls waiting now.
    pub queued: u64,
    /// Calls running now.
    pub running: u64,
    /// Bytes of the waiting calls' programs and input.
    pub queued_bytes: u64,
    /// Running calls that still hold a turn at full priority.
    pub turns: u64,
    /// Clients with a waiting or running call.
    pub clients: u64,
    /// Requests that were not accepted.
    pub refused: Refused,
    /// Calls that ran, by the name of their outcome ([`Outcome::NAMES`]), cancelled ones included.
    pub outcomes: BTreeMap<String, u64>,
    /// Calls answered with `DeadlinePassed`. Part of `answered`.
    pub deadline_passed: u64,
    /// Calls of a batch that took the report of an identical call. Not part of `accepted`.
    pub shared: u64,
    /// Time from acceptance to start.
    pub queue_wait: Histogram,
    /// Time that calls ran, seen from here.
    pub run_time: Histogram,
    /// Sessions.
    pub sessions: SessionStats,
}

/// A code environment at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Now {
    /// Everything that is counted.
    pub stats: Stats,
    /// Programs that can be alive at once, sessions included.
    pub slots: u64,
    /// Programs that can run at full priority at once.
    pub turns: u64,
    /// Layers of isolation, and which hold.
    pub layers: Vec<LayerState>,
    /// A layer that is required is missing.
    pub degraded: bool,
}

/// The counters that the scheduler doesn't keep itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) refused: Refused,
    pub(crate) deadline_passed: u64,
    pub(crate) shared: u64,
    pub(crate) queue_wait: Histogram,
    pub(crate) run_time: Histogram,
    outcomes: [u64; Outcome::NAMES.len()],
}

impl Tally {
    pub(crate) fn count_outcome(&mut self, outcome: &Outcome) {
        let position = Outcome::NAMES.iter().position(|&name| name == outcome.name());
        if let Some(position) = position {
            self.outcomes[position] += 1;
        }
    }

    /// Every outcome with its count, those that never happened included.
    pub(crate) fn outcomes(&self) -> BTreeMap<String, u64> {
        let counted = Outcome::NAMES.iter().zip(self.outcomes);
        counted.map(|(&name, count)| (name.to_owned(), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{HISTOGRAM_BOUNDS_US, Histogram};

    #[test]
    fn an_observation_lands_in_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        for duration_us in [0, 250, 251, 600_000_000, 600_000_001] {
            histogram.observe(duration_us);
        }
        let mut expected = Histogram { sum_us: 1_200_000_502, ..Histogram::default() };
        expected.counts[0] = 2;
        expected.counts[1] = 1;
        expected.counts[HISTOGRAM_BOUNDS_US.len() - 1] = 1;
        expected.counts[HISTOGRAM_BOUNDS_US.len()] = 1;
        assert_eq!(histogram, expected);
        assert_eq!(histogram.count(), 5);
    }
}
