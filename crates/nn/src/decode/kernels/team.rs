//! Threads that go through a list of steps together.
//!
//! Hides how work is shared. A forward is a few hundred steps of some microseconds each, so
//! threads join once for the whole list and spin between steps, where waking them for each step
//! would cost as much as the step. Whoever is free takes the next unit of the step: a thread that
//! the system holds back delays only the unit it is in, and one that never comes is not missed.
//!
//! Invariant: no unit of a step begins before all units of the step before it are done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Looks at the counter before a thread gives way to others.
const SPINS: u32 = 4096;

struct Team<'a> {
    /// Units of each step.
    units: &'a [usize],
    execute: &'a (dyn Fn(usize, usize) + Sync),
    /// Step in the high half, next unit of it in the low half.
    next: AtomicU64,
    /// Units of the step that are done.
    done: AtomicUsize,
}

/// Counts a unit even where it panics, so that nobody waits for it forever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Calls `execute(step, unit)` for all units of all steps, step after step, on up to `threads`
/// threads, the caller one of them.
pub(super) fn run(units: &[usize], threads: usize, execute: &(dyn Fn(usize, usize) + Sync)) {
    if threads <= 1 {
        for (step, units) in units.iter().enumerate() {
            (0..*units).for_each(|unit| execute(step, unit));
        }
        return;
    }
    let team = Team { units, execute, next: AtomicU64::new(0), done: AtomicUsize::new(0) };
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| team.help());
        }
        team.lead();
    });
}

impl Team<'_> {
    fn lead(&self) {
        let _end = End(self);
        for (step, units) in self.units.iter().enumerate() {
            while let Some(unit) = self.take(step) {
                self.execute(step, unit);
            }
            wait(|| self.done.load(Ordering::Acquire) == *units);
            self.done.store(0, Ordering::Relaxed);
            self.next.store(word(step + 1), Ordering::Release);
        }
    }

    fn help(&self) {
        loop {
            let mut step = 0;
            wait(|| {
                let (at, unit) = parts(self.next.load(Ordering::Acquire));
                step = at;
                self.units.get(at).is_none_or(|units| unit < *units)
            });
            if step >= self.units.len() {
                return;
            }
            while let Some(unit) = self.take(step) {
                self.execute(step, unit);
            }
        }
    }

    fn execute(&self, step: usize, unit: usize) {
        let _done = Done(&self.done);
        (self.execute)(step, unit);
    }

    /// The next unit of `step`; `None` where all are taken, or the step is over.
    fn take(&self, step: usize) -> Option<usize> {
        let mut seen = self.next.load(Ordering::Acquire);
        loop {
            let (at, unit) = parts(seen);
            if at != step || unit >= self.units[step] {
                return None;
            }
            let taken = self.next.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return Some(unit),
                Err(now) => seen = now,
            }
        }
    }
}

/// Lets helpers go even where the leader panics.
struct End<'a, 'b>(&'a Team<'b>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.next.store(word(self.0.units.len()), Ordering::Release);
    }
}

const fn word(step: usize) -> u64 {
    (step as u64) << 32
}

const fn parts(word: u64) -> (usize, usize) {
    ((word >> 32) as usize, (word & 0xffff_ffff) as usize)
}

fn wait(mut ready: impl FnMut() -> bool) {
    let mut spins = 0;
    while !ready() {
        spins += 1;
        if spins < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_runs_once_and_after_the_step_before() {
        let units = [3, 0, 1, 17, 64, 2, 0];
        for threads in [1, 2, 5] {
            let counts: Vec<AtomicUsize> = units.iter().map(|_| AtomicUsize::new(0)).collect();
            run(&units, threads, &|step, _| {
                for before in 0..step {
                    assert_eq!(counts[before].load(Ordering::SeqCst), units[before]);
                }
                counts[step].fetch_add(1, Ordering::SeqCst);
            });
            let counts: Vec<usize> =
                counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            assert_eq!(counts, units);
        }
    }
}
