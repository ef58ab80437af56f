//! Resampling on correct: from the rollouts of a task, those that are learned from.
//!
//! Invariants: every rollout that comes in is either kept or dropped with a cause; the choice
//! depends on samples' numbers, facts and the key alone, not on the order in which rollouts come;
//! where a group is usable, exactly `keep` rollouts of it are kept, but for [`Mode::Released`], which
//! keeps a small group whole as the published code does; what is kept of a group that is used differs
//! in its rewards, so that it teaches something.

mod counts;
mod released;

use rocstar_record::draw::Key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::penalty::{self, Penalties};

/// How rollouts are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As the paper defines it: wrong rollouts uniformly, right ones without replacement with
    /// weight 1 / (p_total + ε).
    #[default]
    Paper,
    /// As the published code does it: the least penalised right ones, the first wrong ones, and at
    /// least [`RocConfig::released_minimum`] of each class.
    Released,
    /// Plain GRPO: `keep` rollouts by their number, whatever they are.
    Off,
}

/// Settings of the selection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RocConfig {
    /// How rollouts are chosen.
    pub mode: Mode,
    /// Rollouts of a group that are learned from, the paper's G.
    pub keep: usize,
    /// ε beside p_total in the weight of a right rollout, which has no flaw in the commonest case.
    pub epsilon: f64,
    /// Fewest rollouts of either class that [`Mode::Released`] keeps.
    pub released_minimum: usize,
}

impl Default for RocConfig {
    fn default() -> Self {
        Self { mode: Mode::Paper, keep: 16, epsilon: 0.05, released_minimum: 2 }
    }
}

/// Settings that can't work, or rollouts that aren't a group.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelectionError {
    /// `keep` is zero.
    #[error("`keep` is 0: at least one rollout of a group must be kept")]
    KeepsNothing,
    /// `epsilon` is not a positive number.
    #[error(
        "`epsilon` is {0}: it must be a positive number, since most right rollouts have no penalty"
    )]
    Epsilon(f64),
    /// Two rollouts have the same number.
    #[error("sample {0} is there twice in one group")]
    SampleTwice(u32),
    /// The published code's counts don't add up to `keep` for this split, which ends its run.
    #[error(
        "the released selection keeps {zero} wrong and {nonzero} right rollouts where it must keep \
         {keep}; it is only defined for an even `keep` and twice as many rollouts"
    )]
    ReleasedCounts {
        /// Wrong rollouts that it would keep.
        zero: usize,
        /// Right rollouts that it would keep.
        nonzero: usize,
        /// What they must add up to.
        keep: usize,
    },
}

/// Why a rollout isn't learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropCause {
    /// Every rollout of the task was right: nothing to compare.
    AllRight,
    /// Every rollout of the task was wrong: nothing to compare.
    AllWrong,
    /// Those that would be kept are all right, or all wrong: nothing to compare. So it is where the
    /// paper's rule leaves none of a single wrong rollout.
    KeptAlike,
    /// The group has fewer rollouts than it must keep.
    GroupTooSmall,
    /// A wrong rollout that the draw passed over.
    WrongNotDrawn,
    /// A right rollout that the draw, weighted against its flaws, passed over.
    RightNotDrawn,
    /// Beyond the number of rollouts that are kept.
    Surplus,
}

/// Whether a group is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupVerdict {
    /// Right and wrong rollouts are there.
    Used,
    /// None of it is, for this cause.
    Dropped(DropCause),
}

/// How many of each class are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivors {
    /// Right rollouts.
    pub right: usize,
    /// Wrong rollouts.
    pub wrong: usize,
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// Whether it is of use.
    pub verdict: GroupVerdict,
    /// Samples that are kept, in ascending order.
    pub kept: Vec<u32>,
    /// Samples that are dropped, in ascending order, each with its cause.
    pub dropped: Vec<(u32, DropCause)>,
    /// Penalties of every sample, in ascending order of samples.
    pub penalties: Vec<(u32, Penalties)>,
}

impl RocConfig {
    /// What is wrong with the settings.
    ///
    /// # Errors
    /// They can't work.
    pub fn validate(&self) -> Result<(), SelectionError> {
        if self.keep == 0 {
            return Err(SelectionError::KeepsNothing);
        }
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(SelectionError::Epsilon(self.epsilon));
        }
        Ok(())
    }
}

/// Chooses the rollouts of `group` that are learned from. `key` names the draws; its `sample` is
/// replaced by each rollout's own.
///
/// # Errors
/// The settings can't work, or a sample is there twice.
pub fn select(group: &[Facts], config: &RocConfig, key: Key) -> Result<Selection, SelectionError> {
    config.validate()?;
    let mut rollouts: Vec<&Facts> = group.iter().collect();
    rollouts.sort_by_key(|facts| facts.sample);
    if let Some(pair) = rollouts.windows(2).find(|pair| pair[0].sample == pair[1].sample) {
        return Err(SelectionError::SampleTwice(pair[0].sample));
    }
    let penalties = rollouts.iter().map(|it| (it.sample, penalty::of(it))).collect();
    let dropped_whole = |cause, penalties| {
        let dropped = rollouts.iter().map(|facts| (facts.sample, cause)).collect();
        let verdict = GroupVerdict::Dropped(cause);
        Selection { verdict, kept: Vec::new(), dropped, penalties }
    };
    if let Some(cause) = unusable(&rollouts, config) {
        return Ok(dropped_whole(cause, penalties));
    }
    let mut kept: Vec<u32> = match config.mode {
        Mode::Off => rollouts.iter().take(config.keep).map(|facts| facts.sample).collect(),
        Mode::Paper => as_the_paper(&rollouts, config, key),
        Mode::Released => released::kept(&rollouts, config)?,
    };
    kept.sort_unstable();
    let is_kept = |facts: &&&Facts| kept.binary_search(&facts.sample).is_ok();
    let right = rollouts.iter().filter(|facts| facts.right).filter(is_kept).count();
    if right == 0 || right == kept.len() {
        return Ok(dropped_whole(DropCause::KeptAlike, penalties));
    }
    Ok(finish(&rollouts, kept, config.mode, penalties))
}

fn unusable(rollouts: &[&Facts], config: &RocConfig) -> Option<DropCause> {
    let right = rollouts.iter().filter(|facts| facts.right).count();
    if rollouts.len() < config.keep || rollouts.is_empty() {
        Some(DropCause::GroupTooSmall)
    } else if right == rollouts.len() {
        Some(DropCause::AllRight)
    } else if right == 0 {
        Some(DropCause::AllWrong)
    } else {
        None
    }
}

fn finish(
    rollouts: &[&Facts],
    kept: Vec<u32>,
    mode: Mode,
    penalties: Vec<(u32, Penalties)>,
) -> Selection {
    let cause = |facts: &Facts| match (mode, facts.right) {
        (Mode::Off, _) => DropCause::Surplus,
        (_, true) => DropCause::RightNotDrawn,
        (_, false) => DropCause::WrongNotDrawn,
    };
    let dropped = rollouts
        .iter()
        .filter(|facts| kept.binary_search(&facts.sample).is_err())
        .map(|facts| (facts.sample, cause(facts)))
        .collect();
    Selection { verdict: GroupVerdict::Used, kept, dropped, penalties }
}

/// Wrong rollouts uniformly, right ones by weight, neither of them twice.
fn as_the_paper(rollouts: &[&Facts], config: &RocConfig, key: Key) -> Vec<u32> {
    let (right, wrong): (Vec<&Facts>, Vec<&Facts>) = rollouts.iter().partition(|it| it.right);
    let survivors = counts::survivors(right.len(), wrong.len(), config.keep);
    let weight = |facts: &&Facts| 1.0 / (penalty::of(facts).total() + config.epsilon);
    let mut kept = drawn(&wrong, survivors.wrong, key, |_| 1.0);
    kept.extend(drawn(&right, survivors.right, key, weight));
    kept
}

/// `count` samples without replacement, each next one with a chance in proportion to its weight.
///
/// The draw is a race: each sample arrives after an exponential time with its weight as rate, and
/// the first ones win (Efraimidis and Spirakis, 2006). Each time comes from the sample's own key, so
/// the result doesn't depend on the order of the samples, nor on who else is there.
fn drawn(from: &[&Facts], count: usize, key: Key, weight: impl Fn(&&Facts) -> f64) -> Vec<u32> {
    let mut arrivals: Vec<(f64, u32)> = from
        .iter()
        .map(|facts| {
            let uniform = Key { sample: facts.sample, ..key }.at(0).uniform();
            (-(1.0 - uniform).ln() / weight(facts), facts.sample)
        })
        .collect();
    arrivals.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    arrivals.into_iter().take(count).map(|(_, sample)| sample).collect()
}
