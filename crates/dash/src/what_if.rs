//! What other settings of the selection would have kept of a step's rollouts.
//!
//! Invariant: [`rocstar_grpo::select()`] chooses, with the draws that training used: with a run's own
//! settings the answer is what is written down, and [`WhatIf::agrees`] says whether it is.

use std::collections::{BTreeSet, HashMap};

use rocstar_grpo::{AdvantageConfig, DropCause, Facts, GroupVerdict, RocConfig, Selection};
use rocstar_grpo::{select, selection_key};
use rocstar_record::draw::Key;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::run::Run;
use crate::sketch::GroupSketch;
use crate::step::Step;

/// What is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The settings to try.
    pub selection: RocConfig,
    /// The one group to answer for; all of the step where none is named.
    #[serde(default)]
    pub group: Option<usize>,
}

/// What would have been kept.
#[derive(Debug, Serialize)]
pub struct WhatIf {
    step: u64,
    /// Whether the run's own settings, tried again, keep what is written down; `None` where they
    /// aren't known.
    agrees: Option<bool>,
    groups: Vec<Choice>,
    /// What was kept, over the groups that are answered for.
    before: Summary,
    /// What would be kept.
    after: Summary,
}

/// The choice in one group.
#[derive(Debug, Serialize)]
pub struct Choice {
    number: usize,
    verdict: GroupVerdict,
    /// Advantages of those that would be kept, by sample.
    kept: Vec<(u32, f64)>,
    dropped: Vec<(u32, DropCause)>,
    /// Samples that would be kept and were not.
    gained: Vec<u32>,
    /// Samples that were kept and would not be.
    lost: Vec<u32>,
}

/// What is kept of some groups.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct Summary {
    groups_used: usize,
    kept: usize,
    kept_right: usize,
    calls: u64,
    failed_calls: u64,
}

impl Question {
    /// The answer, for `step` of `run`.
    ///
    /// # Errors
    /// The settings can't work, or there is no such group.
    pub fn answer(&self, run: &Run, step: &Step) -> Result<WhatIf, Error> {
        self.selection.validate()?;
        let place = run.curves()?.place(step.step);
        let recipe = run.recipe();
        // Where the metrics don't tell the place yet, the step's draws are not known: those of the
        // run's start are as good as any.
        let (stage, first_task) = place.unwrap_or((0, 0));
        let own = recipe.stages.get(stage);
        let advantage = own.and_then(|stage| stage.advantage).unwrap_or_default();
        let own = own.and_then(|stage| stage.selection.as_ref());
        let mut answer = WhatIf {
            step: step.step,
            agrees: place.and(own).map(|_| true),
            groups: Vec::new(),
            before: Summary::default(),
            after: Summary::default(),
        };
        let wanted = |number: usize| self.group.is_none_or(|only| only == number);
        for (number, group) in step.groups.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            let key = selection_key(recipe.seed, step.step, first_task + number as u64);
            answer.add(number, group, &self.selection, own, &advantage, key)?;
        }
        match self.group {
            Some(number) if answer.groups.is_empty() => {
                Err(Error::missing(format!("group {number} in step {}", step.step)))
            }
            _ => Ok(answer),
        }
    }
}

impl WhatIf {
    /// Chooses in a group by `selection`, and by the run's `own` settings to compare.
    fn add(
        &mut self,
        number: usize,
        group: &GroupSketch,
        selection: &RocConfig,
        own: Option<&RocConfig>,
        advantage: &AdvantageConfig,
        key: Key,
    ) -> Result<(), Error> {
        let facts = group.facts();
        let selection = select(&facts, selection, key)?;
        let was: BTreeSet<u32> = group.kept.iter().map(|kept| kept.episode.sample).collect();
        if let (Some(agrees), Some(own)) = (&mut self.agrees, own) {
            let again = select(&facts, own, key)?;
            *agrees &= again.kept.iter().copied().collect::<BTreeSet<u32>>() == was;
        }
        self.before.add(&facts, &was);
        self.after.add(&facts, &selection.kept.iter().copied().collect());
        let worth = rocstar_grpo::advantages(&rewards(group, &selection), advantage);
        self.groups.push(choice(number, selection, &worth, &was));
        Ok(())
    }

    /// Whether the run's own settings, tried again, keep what is written down; `None` where they
    /// aren't known.
    pub const fn agrees(&self) -> Option<bool> {
        self.agrees
    }
}

fn rewards(group: &GroupSketch, selection: &Selection) -> Vec<f64> {
    let all: HashMap<u32, f64> = group.episodes().map(|it| (it.sample, it.reward)).collect();
    selection.kept.iter().map(|sample| all.get(sample).copied().unwrap_or(0.0)).collect()
}

fn choice(number: usize, selection: Selection, worth: &[f64], was: &BTreeSet<u32>) -> Choice {
    let is: BTreeSet<u32> = selection.kept.iter().copied().collect();
    Choice {
        number,
        verdict: selection.verdict,
        gained: is.difference(was).copied().collect(),
        lost: was.difference(&is).copied().collect(),
        kept: selection.kept.into_iter().zip(worth.iter().copied()).collect(),
        dropped: selection.dropped,
    }
}

impl Summary {
    fn add(&mut self, facts: &[Facts], kept: &BTreeSet<u32>) {
        self.groups_used += usize::from(!kept.is_empty());
        for one in facts.iter().filter(|one| kept.contains(&one.sample)) {
            self.kept += 1;
            self.kept_right += usize::from(one.right);
            self.calls += u64::from(one.tool_calls);
            self.failed_calls += u64::from(one.failed_tool_calls);
        }
    }
}
