//! Selection: counts, causes, chances, and what it must not depend on.

#![cfg(test)]

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_grpo::{
    DropCause, Facts, GroupVerdict, Mode, RocConfig, Selection, SelectionError, select,
};
use rocstar_record::draw::{Key, Purpose};

fn facts(sample: u32, right: bool, failed_tool_calls: u32) -> Facts {
    Facts { sample, right, tool_calls: 4, failed_tool_calls, answer_tags: 1, turns: 3 }
}

fn group(right: u32, wrong: u32) -> Vec<Facts> {
    (0..right + wrong).map(|sample| facts(sample, sample < right, sample % 3)).collect()
}

fn key(task: u64) -> Key {
    Key { task, ..Key::new(1, Purpose::Selection) }
}

fn chosen(group: &[Facts], config: &RocConfig, task: u64) -> Selection {
    select(group, config, key(task)).expect("settings that work")
}

#[test]
fn groups_without_a_difference_are_dropped_whole() {
    let config = RocConfig { keep: 2, ..RocConfig::default() };
    for (right, wrong, cause) in
        [(4, 0, DropCause::AllRight), (0, 4, DropCause::AllWrong), (1, 0, DropCause::GroupTooSmall)]
    {
        let selection = chosen(&group(right, wrong), &config, 0);
        assert_eq!(selection.verdict, GroupVerdict::Dropped(cause));
        assert_eq!(selection.kept, Vec::<u32>::new());
        assert_eq!(selection.dropped, (0..right + wrong).map(|it| (it, cause)).collect::<Vec<_>>());
    }
}

/// Half of one wrong rollout, rounded down, is none; and plain GRPO may keep only right ones.
#[test]
fn groups_of_which_nothing_different_is_kept_are_dropped_whole() {
    for (mode, keep) in [(Mode::Paper, 16), (Mode::Off, 16)] {
        let config = RocConfig { mode, keep, ..RocConfig::default() };
        let selection = chosen(&group(31, 1), &config, 0);
        let cause = DropCause::KeptAlike;
        assert_eq!(selection.verdict, GroupVerdict::Dropped(cause));
        assert_eq!(selection.kept, Vec::<u32>::new());
        assert_eq!(selection.dropped, (0..32).map(|it| (it, cause)).collect::<Vec<_>>());
    }
    let config = RocConfig { mode: Mode::Released, ..RocConfig::default() };
    assert_eq!(chosen(&group(31, 1), &config, 0).verdict, GroupVerdict::Used);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |config: RocConfig| select(&group(2, 2), &config, key(0)).expect_err("refused");
    assert_eq!(
        refused(RocConfig { keep: 0, ..RocConfig::default() }),
        SelectionError::KeepsNothing
    );
    let epsilon = RocConfig { epsilon: 0.0, ..RocConfig::default() };
    assert_eq!(refused(epsilon), SelectionError::Epsilon(0.0));
    let twice = [facts(3, true, 0), facts(3, false, 0)];
    assert_eq!(select(&twice, &RocConfig::default(), key(0)), Err(SelectionError::SampleTwice(3)));
}

#[test]
fn plain_grpo_keeps_the_first() {
    let config = RocConfig { mode: Mode::Off, keep: 3, ..RocConfig::default() };
    let selection = chosen(&group(2, 3), &config, 0);
    assert_eq!(selection.kept, [0, 1, 2]);
    assert_eq!(selection.dropped, [(3, DropCause::Surplus), (4, DropCause::Surplus)]);
}

/// Each wrong rollout is kept equally often: 5 of 10 in 4,000 draws, within five deviations.
#[test]
fn wrong_rollouts_are_drawn_uniformly() {
    let config = RocConfig { keep: 10, ..RocConfig::default() };
    let group = group(10, 10);
    let mut kept = [0_u32; 20];
    let draws = 4_000;
    for task in 0..draws {
        for sample in chosen(&group, &config, task).kept {
            kept[sample as usize] += 1;
        }
    }
    let deviation = (draws as f64 * 0.25).sqrt();
    for (sample, count) in kept.iter().enumerate().skip(10) {
        let apart = (f64::from(*count) - draws as f64 * 0.5).abs();
        assert!(apart < 5.0 * deviation, "sample {sample} was kept {count} times");
    }
}

/// The first right rollout drawn has a chance in proportion to 1 / (p_total + ε).
#[test]
fn right_rollouts_are_drawn_against_their_flaws() {
    let config = RocConfig { keep: 2, epsilon: 0.25, ..RocConfig::default() };
    // Two wrong, two right: one of each is kept. Penalties 0 and 0.75: weights 4 and 1.
    let group = [facts(0, false, 0), facts(1, false, 0), facts(2, true, 0), facts(3, true, 3)];
    let draws = 5_000;
    let clean = (0..draws).filter(|task| chosen(&group, &config, *task).kept.contains(&2)).count();
    let deviation = (draws as f64 * 0.8 * 0.2).sqrt();
    assert!((clean as f64 - draws as f64 * 0.8).abs() < 5.0 * deviation, "{clean} of {draws}");
}

fn any_group() -> impl Strategy<Value = Vec<Facts>> {
    prop::collection::vec((any::<bool>(), 0_u32..6, 0_u32..6, 0_u32..4, 1_u32..5), 0..70).prop_map(
        |rollouts| {
            let facts = |(sample, (right, calls, failed, tags, turns))| Facts {
                sample,
                right,
                tool_calls: calls,
                failed_tool_calls: calls.min(failed),
                answer_tags: tags,
                turns,
            };
            (0..).zip(rollouts).map(facts).collect()
        },
    )
}

proptest! {
    #[test]
    fn every_rollout_is_kept_or_dropped_once(group in any_group(), keep in 1_usize..40, off: bool) {
        let mode = if off { Mode::Off } else { Mode::Paper };
        let config = RocConfig { mode, keep, ..RocConfig::default() };
        let selection = chosen(&group, &config, 9);
        let mut all: Vec<u32> = selection.kept.clone();
        all.extend(selection.dropped.iter().map(|(sample, _)| sample));
        all.sort_unstable();
        prop_assert_eq!(all, (0..group.len() as u32).collect::<Vec<_>>());
        if selection.verdict == GroupVerdict::Used {
            prop_assert_eq!(selection.kept.len(), keep);
        } else {
            prop_assert!(selection.kept.is_empty());
        }
    }

    /// For G of 2G, half of the wrong ones, rounded down, are kept; the rest is right.
    #[test]
    fn half_of_the_wrong_are_kept(wrong in 1_u32..64, more in 1_u32..64, task: u64) {
        let all = wrong + more;
        prop_assume!(all % 2 == 0);
        let config = RocConfig { keep: all as usize / 2, ..RocConfig::default() };
        let selection = chosen(&group(more, wrong), &config, task);
        let kept_wrong = selection.kept.iter().filter(|sample| **sample >= more).count();
        prop_assert_eq!(kept_wrong, wrong as usize / 2);
    }

    #[test]
    fn who_finished_first_does_not_matter(group in any_group(), keep in 1_usize..30, seed: u64) {
        let config = RocConfig { keep, ..RocConfig::default() };
        let mut shuffled = group.clone();
        Key::new(seed, Purpose::Shuffle).at(0).shuffle(&mut shuffled);
        prop_assert_eq!(chosen(&group, &config, 4), chosen(&shuffled, &config, 4));
    }
}
