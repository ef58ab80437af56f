//! Choosing again among the rollouts of a group: with the run's own settings, and with others.

use std::collections::BTreeSet;

use rocstar_grpo::{self as grpo, Facts, RocConfig, Selection, selection_key};
use rocstar_record::episode::{DropCause, Episode, Group, GroupVerdict};
use rocstar_train::recipe::RlStage;
use serde::Serialize;

use crate::layers::{Layered, Layers};

impl Layered for RocConfig {
    const EXAMPLE: &'static str = "mode=off";
}

/// The run's settings with `assignments` over them; `None` without any.
///
/// # Errors
/// A key is unknown, or a value can't work.
pub(super) fn with(own: &RocConfig, assignments: &[String]) -> anyhow::Result<Option<RocConfig>> {
    if assignments.is_empty() {
        return Ok(None);
    }
    let mut layers = Layers::default();
    layers.add_text::<RocConfig>(&toml::to_string(own)?)?;
    for assignment in assignments {
        layers.assign::<RocConfig>(assignment, &format!("--selection {assignment}"))?;
    }
    let config: RocConfig = layers.resolve()?;
    config.validate().map_err(|error| crate::failure::WrongUse::error(error.to_string()))?;
    Ok(Some(config))
}

/// Which draws choose among the groups of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) seed: u64,
    pub(super) step: u64,
    /// Number of the step's first task.
    pub(super) first_task: u64,
    pub(super) options: &'a RlStage,
}

impl Choice<'_> {
    /// Chooses among the rollouts of the step's group `index`.
    ///
    /// # Errors
    /// The settings don't fit the group.
    pub(super) fn select(
        &self,
        index: usize,
        group: &Group,
        config: &RocConfig,
    ) -> anyhow::Result<Selection> {
        let key = selection_key(self.seed, self.step, self.first_task + index as u64);
        Ok(grpo::select(&Facts::of_group(group), config, key)?)
    }

    /// What differs between the choice that is written down and `selection` with the run's settings.
    pub(super) fn difference(&self, group: &Group, selection: &Selection) -> Option<String> {
        if written_verdict(group) != verdict(selection) {
            return Some(format!("{} and now {}", written_verdict(group), verdict(selection)));
        }
        let kept: Vec<u32> = group.kept.iter().map(|kept| kept.episode.sample).collect();
        if kept != selection.kept {
            return Some(format!("kept {kept:?} and now {:?}", selection.kept));
        }
        let causes: BTreeSet<_> = group
            .dropped
            .iter()
            .filter_map(|one| match &one.cause {
                DropCause::Selection { why } => Some((one.episode.sample, why.clone())),
                DropCause::Infrastructure { .. } => None,
            })
            .collect();
        let now: BTreeSet<_> =
            selection.dropped.iter().map(|(sample, cause)| (*sample, name(*cause))).collect();
        if causes != now {
            return Some("other causes for those that are dropped".to_owned());
        }
        let rewards: Vec<f64> = group.kept.iter().map(|kept| kept.episode.reward).collect();
        let worth = grpo::advantages(&rewards, &self.options.advantage);
        let same = group.kept.iter().zip(&worth).all(|(kept, worth)| kept.advantage == *worth);
        (!same).then(|| "other advantages".to_owned())
    }
}

fn name(cause: grpo::DropCause) -> String {
    serde_json::to_value(cause)
        .ok()
        .and_then(|it| it.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn written_verdict(group: &Group) -> String {
    match &group.verdict {
        GroupVerdict::Used => "used".to_owned(),
        GroupVerdict::Dropped { why } => format!("dropped as {why}"),
    }
}

fn verdict(selection: &Selection) -> String {
    match selection.verdict {
        grpo::GroupVerdict::Used => "used".to_owned(),
        grpo::GroupVerdict::Dropped(cause) => format!("dropped as {}", name(cause)),
    }
}

/// What is learnt from under a selection, over all groups that were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Learnt {
    pub(super) groups: usize,
    pub(super) episodes: usize,
    pub(super) right: usize,
    pub(super) calls: usize,
    pub(super) failed_calls: usize,
    pub(super) calls_right: usize,
    pub(super) failed_calls_right: usize,
}

impl Learnt {
    /// Counts the episodes of a group that are kept, where the group is used.
    pub(super) fn add(&mut self, group: &Group, is_used: bool, kept: &[u32]) {
        if !is_used {
            return;
        }
        self.groups += 1;
        let is_kept = |episode: &&Episode| kept.contains(&episode.sample);
        for episode in group.episodes().map(|(episode, _)| episode).filter(is_kept) {
            let facts = Facts::of(episode);
            let (calls, failed) = (facts.tool_calls as usize, facts.failed_tool_calls as usize);
            self.episodes += 1;
            self.calls += calls;
            self.failed_calls += failed;
            if facts.right {
                self.right += 1;
                self.calls_right += calls;
                self.failed_calls_right += failed;
            }
        }
    }
}
