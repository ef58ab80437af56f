//! What one verification may spend.
//!
//! Arithmetic pays here before it works, in steps of about a tenth of a microsecond. When nothing
//! is left every computation gives up, and the verdict is "undecided". Steps are counted, not time,
//! so that a verdict is the same on every machine; the count belongs to the thread, since a
//! verification never leaves its own.

use std::cell::Cell;

/// Steps of one verification.
pub(crate) const MAX_STEPS: u64 = 500_000;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(MAX_STEPS) };
}

/// Gives a new verification its steps.
pub(crate) fn begin() {
    LEFT.set(MAX_STEPS);
}

/// Takes `steps`; false, and nothing left, where there are not so many.
pub(crate) fn pay(steps: u64) -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(steps));
    left >= steps
}

/// Steps taken since [`begin`].
pub(crate) fn spent() -> u64 {
    MAX_STEPS - LEFT.get()
}
