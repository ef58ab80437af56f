//! The selection of the code that was published with the paper (microsoft/rStar, commit ecbfb943),
//! on typed facts instead of text.
//!
//! It differs from the paper: nothing is drawn, and up to [`RocConfig::released_minimum`] rollouts of
//! the smaller class always stay. Only its choice is reproduced; penalties are computed from facts
//! as everywhere here, so a tool's text can't change them.

use super::{RocConfig, SelectionError};
use crate::Facts;
use crate::penalty;

pub(super) fn kept(rollouts: &[&Facts], config: &RocConfig) -> Result<Vec<u32>, SelectionError> {
    let (mut right, wrong): (Vec<&Facts>, Vec<&Facts>) = rollouts.iter().partition(|it| it.right);
    let (all, keep) = (rollouts.len(), config.keep);
    let everyone = || rollouts.iter().map(|facts| facts.sample).collect();
    if all == keep {
        return Ok(everyone());
    }
    let minimum = config.released_minimum;
    let mut zero = rounded_share(wrong.len(), keep, all);
    let mut nonzero = rounded_share(right.len(), keep, all);
    if zero < minimum && nonzero < minimum {
        return Ok(everyone());
    }
    if zero <= minimum.min(wrong.len()) {
        zero = minimum.min(wrong.len());
        nonzero = keep.saturating_sub(zero);
    }
    if nonzero <= minimum.min(right.len()) {
        nonzero = minimum.min(right.len());
        zero = keep.saturating_sub(nonzero);
    }
    let (taken_zero, taken_nonzero) = (zero.min(wrong.len()), nonzero.min(right.len()));
    if taken_zero + taken_nonzero != keep {
        return Err(SelectionError::ReleasedCounts { zero, nonzero, keep });
    }
    // Stable: equal penalties stay in the order of the samples.
    right.sort_by(|a, b| penalty::of(a).total().total_cmp(&penalty::of(b).total()));
    let right = right.into_iter().take(nonzero);
    Ok(right.chain(wrong.into_iter().take(zero)).map(|facts| facts.sample).collect())
}

/// count · keep / all, rounded half to even as Python's `round` does, in whole numbers.
const fn rounded_share(count: usize, keep: usize, all: usize) -> usize {
    let (whole, rest) = (count * keep / all, count * keep % all);
    if rest * 2 > all || (rest * 2 == all && whole % 2 == 1) { whole + 1 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(wrong: usize, all: usize) -> Vec<Facts> {
        let facts = |index: usize| Facts {
            sample: index as u32,
            right: index >= wrong,
            tool_calls: 1,
            failed_tool_calls: u32::from(index.is_multiple_of(3)),
            answer_tags: 1,
            turns: 2,
        };
        (0..all).map(facts).collect()
    }

    fn kept_wrong(wrong: usize, all: usize, keep: usize) -> Result<usize, SelectionError> {
        let group = group(wrong, all);
        let rollouts: Vec<&Facts> = group.iter().collect();
        let config = RocConfig { keep, ..RocConfig::default() };
        let kept = kept(&rollouts, &config)?;
        assert_eq!(kept.len(), keep);
        Ok(kept.into_iter().filter(|sample| (*sample as usize) < wrong).count())
    }

    /// Counts that the published function gave when it was run for N = 32, G = 16, minimums 2.
    #[test]
    fn counts_are_those_of_the_published_code() {
        let observed = [
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 2),
            (5, 2),
            (6, 3),
            (7, 4),
            (16, 8),
            (27, 14),
            (28, 14),
            (29, 14),
            (30, 14),
            (31, 15),
        ];
        for (wrong, expected) in observed {
            assert_eq!(kept_wrong(wrong, 32, 16), Ok(expected), "{wrong} wrong of 32");
        }
    }

    /// Where its own assertion fails, so that its run ends: 9 splits of G = 15, and G = 7 at 7 / 7.
    #[test]
    fn splits_that_end_its_run_are_errors() {
        let failing = (1..30).filter(|wrong| kept_wrong(*wrong, 30, 15).is_err()).count();
        assert_eq!(failing, 9);
        assert!(kept_wrong(7, 14, 7).is_err());
        for keep in [4, 8, 16, 32] {
            for wrong in 1..2 * keep {
                assert!(kept_wrong(wrong, 2 * keep, keep).is_ok(), "{wrong} of {}", 2 * keep);
            }
        }
    }

    /// It keeps more than it was asked for where both shares are below the minimum.
    #[test]
    fn a_small_group_is_kept_whole() {
        let group = group(2, 4);
        let rollouts: Vec<&Facts> = group.iter().collect();
        let config = RocConfig { keep: 2, ..RocConfig::default() };
        assert_eq!(kept(&rollouts, &config), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn takes_the_least_penalised_right_and_the_first_wrong() {
        let group = group(4, 8);
        let rollouts: Vec<&Facts> = group.iter().collect();
        let config = RocConfig { keep: 4, ..RocConfig::default() };
        // Right are 4 to 7, of which 6 failed; wrong are 0 to 3.
        assert_eq!(kept(&rollouts, &config), Ok(vec![4, 5, 0, 1]));
    }
}
