//! How a code environment goes, as a run's directory tells it.
//!
//! Hides which of the sandbox's counts are told. Told the time, it reads no clock.

use std::collections::VecDeque;

use rocstar_record::run::{Durations, MOST_MOMENTS, Moment, SandboxState};
use rocstar_sandbox::{HISTOGRAM_BOUNDS_US, Histogram, Now};

/// What is known of a code environment from one look to the next.
#[derive(Debug, Default)]
pub struct Pulse {
    recent: VecDeque<Moment>,
}

impl Pulse {
    /// Takes a look at `unix_ms`, in milliseconds since 1970, into account.
    pub fn beat(&mut self, now: &Now, unix_ms: u64) -> SandboxState {
        let Now { stats, slots, turns, layers, degraded } = now;
        let moment = Moment {
            unix_ms,
            answered: stats.answered,
            running: stats.running,
            waiting: stats.queued,
        };
        self.recent.push_back(moment);
        while self.recent.len() > MOST_MOMENTS {
            self.recent.pop_front();
        }
        let refused = stats.refused;
        let outcomes = stats.outcomes.iter().filter(|(_, count)| **count > 0);
        SandboxState {
            unix_ms,
            slots: *slots,
            running: stats.running,
            waiting: stats.queued,
            turns: *turns,
            turns_taken: stats.turns,
            sessions: stats.sessions.open,
            accepted: stats.accepted,
            answered: stats.answered,
            cancelled: stats.cancelled,
            refused: refused.full + refused.invalid + refused.shutting_down,
            outcomes: outcomes.map(|(name, count)| (name.clone(), *count)).collect(),
            bounds_us: HISTOGRAM_BOUNDS_US.to_vec(),
            run_time: durations(&stats.run_time),
            queue_wait: durations(&stats.queue_wait),
            layers: layers.iter().map(|it| (it.layer.name().to_owned(), it.holds)).collect(),
            degraded: *degraded,
            recent: self.recent.iter().copied().collect(),
            ..SandboxState::default()
        }
    }
}

fn durations(histogram: &Histogram) -> Durations {
    Durations { counts: histogram.counts.to_vec(), sum_us: histogram.sum_us }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_sandbox::Stats;

    use super::*;

    #[test]
    fn the_last_moments_are_kept_and_the_newest_counts_are_told() {
        let mut pulse = Pulse::default();
        let at = |answered| Now {
            stats: Stats { answered, running: 2, ..Stats::default() },
            slots: 8,
            ..Now::default()
        };
        let last = MOST_MOMENTS as u64 + 5;
        for answered in 0..last {
            pulse.beat(&at(answered), answered * 1_000);
        }
        let state = pulse.beat(&at(last), last * 1_000);
        assert_eq!((state.answered, state.running, state.slots), (last, 2, 8));
        assert_eq!(state.recent.len(), MOST_MOMENTS);
        let newest = Moment { unix_ms: last * 1_000, answered: last, running: 2, waiting: 0 };
        assert_eq!(state.recent.last(), Some(&newest));
        assert_eq!(state.run_time.counts.len(), state.bounds_us.len() + 1);
    }
}
