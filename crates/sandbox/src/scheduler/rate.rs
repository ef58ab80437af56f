//! How many calls end per second, lately; for the advice when to come back.
//!
//! A count that fades: each event weighs 1 when it happens and e times less every `FADE_S`
//! seconds, so the sum over `FADE_S` seconds of a steady rate is that rate times `FADE_S`.

const FADE_S: f64 = 5.0;
/// The longest advice: by then the estimate is worth nothing anyway.
const LONGEST_RETRY_S: u64 = 60;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    weight: f64,
    at_us: u64,
}

impl Rate {
    pub(super) fn observe(&mut self, now_us: u64) {
        self.weight = self.faded(now_us) + 1.0;
        self.at_us = now_us;
    }

    fn faded(&self, now_us: u64) -> f64 {
        let elapsed_s = now_us.saturating_sub(self.at_us) as f64 / 1e6;
        self.weight * (-elapsed_s / FADE_S).exp()
    }

    /// In how many whole seconds `calls` calls will have ended, 1 to 60.
    pub(super) fn seconds_for(&self, calls: usize, now_us: u64) -> u64 {
        let per_second = self.faded(now_us) / FADE_S;
        // The conversion of a float saturates; no rate at all gives infinity, hence the longest.
        let seconds = (calls as f64 / per_second).ceil() as u64;
        seconds.clamp(1, LONGEST_RETRY_S)
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_RETRY_S, Rate};

    #[test]
    fn a_steady_rate_is_recognised() {
        let mut rate = Rate::default();
        for call in 0..10_000 {
            rate.observe(call * 10_000); // 100 per second
        }
        let now_us = 10_000 * 10_000;
        assert_eq!(rate.seconds_for(995, now_us), 10);
        assert_eq!(rate.seconds_for(1, now_us), 1);
    }

    #[test]
    fn without_a_rate_the_advice_is_the_longest() {
        assert_eq!(Rate::default().seconds_for(1, 0), LONGEST_RETRY_S);
        assert_eq!(Rate::default().seconds_for(0, 0), 1);
    }
}
