//! How many right and wrong rollouts are kept.

use super::Survivors;

/// Each class keeps its share of `keep`: shares are rounded down, and a place that this leaves goes
/// to the class with the larger remainder, to the right one if they are equal. For twice as many
/// rollouts as are kept, that is the paper's rule: half of the wrong ones, rounded down, and right
/// ones for the rest. A class too small for its share gives its places to the other.
pub(super) fn survivors(right: usize, wrong: usize, keep: usize) -> Survivors {
    let all = right + wrong;
    if all <= keep {
        return Survivors { right, wrong };
    }
    let (mut keep_right, mut keep_wrong) = (right * keep / all, wrong * keep / all);
    if keep_right + keep_wrong < keep {
        if (right * keep) % all >= (wrong * keep) % all {
            keep_right += 1;
        } else {
            keep_wrong += 1;
        }
    }
    let keep_right = keep_right.min(right).max(keep - keep_wrong.min(wrong));
    Survivors { right: keep_right, wrong: keep - keep_right }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn twice_as_many_rollouts_keep_half_of_the_wrong_rounded_down() {
        for wrong in 0..=32 {
            let expected = Survivors { right: 16 - wrong / 2, wrong: wrong / 2 };
            // With 32 wrong or none there is nothing to choose; the rule holds for the rest.
            if (1..32).contains(&wrong) {
                assert_eq!(survivors(32 - wrong, wrong, 16), expected, "{wrong} wrong");
            }
        }
    }

    proptest! {
        #[test]
        fn counts_fit(right in 0_usize..80, wrong in 0_usize..80, keep in 1_usize..80) {
            let Survivors { right: kept_right, wrong: kept_wrong } = survivors(right, wrong, keep);
            prop_assert_eq!(kept_right + kept_wrong, keep.min(right + wrong));
            prop_assert!(kept_right <= right && kept_wrong <= wrong);
            // Never further from the exact share than one place.
            if right + wrong > keep {
                let share = (right * keep) as f64 / (right + wrong) as f64;
                prop_assert!((kept_right as f64 - share).abs() < 1.0);
            }
        }
    }
}
