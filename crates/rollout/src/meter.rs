//! Where a rollout's time goes: what all its episodes together wait for, and who is busy.
//!
//! Invariant: each moment is counted once: as generating while anyone generates, else as waiting for
//! tools, else for the verifier. Told the time, it reads no clock.

use std::time::{Duration, Instant};

/// What an episode does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Generates,
    WaitsForTool,
    WaitsForVerifier,
}

/// Times, added up.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    last: Instant,
    /// Episodes in each phase.
    counts: [usize; 3],
    /// Time of each phase.
    times: [Duration; 3],
}

impl Meter {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { began: now, last: now, counts: [0; 3], times: [Duration::ZERO; 3] }
    }

    /// An episode goes from one phase to another; `None` before its start and after its end.
    pub(crate) fn shift(&mut self, from: Option<Phase>, to: Option<Phase>, now: Instant) {
        let past = now.saturating_duration_since(self.last);
        if let Some(busiest) = self.counts.iter().position(|count| *count > 0) {
            self.times[busiest] += past;
        }
        self.last = now;
        if let Some(from) = from {
            self.counts[from as usize] -= 1;
        }
        if let Some(to) = to {
            self.counts[to as usize] += 1;
        }
    }

    /// Time since the start, of which the phases' times are a part.
    pub(crate) fn total(&self) -> Duration {
        self.last.saturating_duration_since(self.began)
    }

    pub(crate) const fn time(&self, phase: Phase) -> Duration {
        self.times[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_is_counted_once() {
        use Phase::{Generates, WaitsForTool, WaitsForVerifier};
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut meter = Meter::new(began);
        meter.shift(None, Some(Generates), at(1));
        meter.shift(None, Some(Generates), at(2));
        meter.shift(Some(Generates), Some(WaitsForTool), at(4));
        meter.shift(Some(Generates), Some(WaitsForVerifier), at(8));
        meter.shift(Some(WaitsForTool), None, at(16));
        meter.shift(Some(WaitsForVerifier), None, at(32));
        let ms = |phase| meter.time(phase).as_millis();
        assert_eq!((ms(Generates), ms(WaitsForTool), ms(WaitsForVerifier)), (7, 8, 16));
        assert_eq!(meter.total().as_millis(), 32);
    }
}
