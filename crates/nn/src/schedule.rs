//! How the learning rate changes over a run.
//!
//! Invariant: the factor depends on the step alone, is within 0 and 1, and rises linearly to 1 over
//! the warm-up.

/// What follows the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decay {
    /// The full rate.
    Constant,
    /// Half a cosine, down to `floor` of the rate at `total_steps`, and `floor` after it.
    Cosine {
        /// Steps of the whole run, with the warm-up.
        total_steps: u64,
        /// Share of the rate that is left at the end.
        floor: f64,
    },
}

/// Warm-up, then decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Steps of the linear rise; 0 for none.
    pub warmup_steps: u64,
    /// What follows.
    pub decay: Decay,
}

impl Schedule {
    /// Factor of the learning rate at the step with this index, from 0. The first step of a warm-up
    /// of `n` steps has `1 / n`, so that no step is without effect.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return (step + 1) as f64 / self.warmup_steps as f64;
        }
        match self.decay {
            Decay::Constant => 1.0,
            Decay::Cosine { total_steps, floor } => {
                let length = total_steps.saturating_sub(self.warmup_steps);
                let done = step - self.warmup_steps;
                if done >= length {
                    return floor;
                }
                let progress = done as f64 / length as f64;
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_linearly_then_stays() {
        let schedule = Schedule { warmup_steps: 4, decay: Decay::Constant };
        let factors: Vec<f64> = (0..6).map(|step| schedule.factor(step)).collect();
        assert_eq!(factors, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn falls_as_half_a_cosine_to_its_floor() {
        let decay = Decay::Cosine { total_steps: 12, floor: 0.1 };
        let schedule = Schedule { warmup_steps: 2, decay };
        assert_eq!(schedule.factor(2), 1.0);
        assert!((schedule.factor(7) - 0.55).abs() < 1e-12);
        assert!((schedule.factor(12) - 0.1).abs() < 1e-12);
        assert!((schedule.factor(1000) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_run_shorter_than_its_warm_up_never_divides_by_zero() {
        let decay = Decay::Cosine { total_steps: 3, floor: 0.0 };
        let schedule = Schedule { warmup_steps: 5, decay };
        assert!((0..10).all(|step| schedule.factor(step).is_finite()));
        let none =
            Schedule { warmup_steps: 0, decay: Decay::Cosine { total_steps: 0, floor: 0.0 } };
        assert_eq!(none.factor(0), 0.0);
    }
}
