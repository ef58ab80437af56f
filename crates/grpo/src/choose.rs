//! From the rollouts of a task to a group: which are learnt from, at what worth, and why the others
//! are not.
//!
//! Invariant: every rollout of the task is in the group once: kept, dropped with its cause and its
//! penalties, or lost with its cause. What decides is in the group's own facts, so that the choice
//! can be made again from what is written down.

use rocstar_record::draw::Key;
use rocstar_record::episode::{
    DropCause, Dropped, Episode, Group, GroupVerdict, Kept, Lost, Penalties, SCHEMA_VERSION, TaskId,
};

use crate::advantage::{AdvantageConfig, advantages};
use crate::facts::Facts;
use crate::select::{self, RocConfig, Selection, SelectionError, select};

/// All rollouts of a task in a step.
#[derive(Debug, Clone)]
pub struct Rollouts {
    /// The task.
    pub task: TaskId,
    /// Its right answer.
    pub answer: String,
    /// Those that ended.
    pub episodes: Vec<Episode>,
    /// Those that were lost to us.
    pub lost: Vec<Lost>,
}

/// What became of a task in a step.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// As it is written down.
    pub group: Group,
    /// Whether the group is of use.
    pub verdict: select::GroupVerdict,
}

/// Chooses among the rollouts of a task; `key` names the draw, and the step.
///
/// # Errors
/// The settings can't work for this group, as [`select()`] says.
pub fn choose(
    rollouts: Rollouts,
    selection: &RocConfig,
    advantage: &AdvantageConfig,
    key: Key,
) -> Result<Chosen, SelectionError> {
    let facts: Vec<Facts> = rollouts.episodes.iter().map(Facts::of).collect();
    let selected = select(&facts, selection, key)?;
    let verdict = match selected.verdict {
        select::GroupVerdict::Used => GroupVerdict::Used,
        select::GroupVerdict::Dropped(cause) => GroupVerdict::Dropped { why: name(cause) },
    };
    let mut group = Group {
        schema: SCHEMA_VERSION,
        task: rollouts.task,
        answer: rollouts.answer,
        step: u64::from(key.step),
        verdict,
        kept: Vec::new(),
        dropped: Vec::new(),
        lost: rollouts.lost,
    };
    for episode in rollouts.episodes {
        let penalties = penalties(&selected, episode.sample);
        match selected.dropped.iter().find(|(sample, _)| *sample == episode.sample) {
            Some((_, cause)) => {
                let cause = DropCause::Selection { why: name(*cause) };
                group.dropped.push(Dropped { episode, penalties, cause });
            }
            None => group.kept.push(Kept {
                episode,
                penalties,
                advantage: 0.0,
                trained_log_probs: Vec::new(),
            }),
        }
    }
    let rewards: Vec<f64> = group.kept.iter().map(|kept| kept.episode.reward).collect();
    for (kept, worth) in group.kept.iter_mut().zip(advantages(&rewards, advantage)) {
        kept.advantage = worth;
    }
    Ok(Chosen { group, verdict: selected.verdict })
}

/// The cause as it is written down.
fn name(cause: select::DropCause) -> String {
    match serde_json::to_value(cause) {
        Ok(serde_json::Value::String(name)) => name,
        // A cause without fields is always a text.
        _ => format!("{cause:?}"),
    }
}

fn penalties(selection: &Selection, sample: u32) -> Penalties {
    let found = selection.penalties.binary_search_by_key(&sample, |(of, _)| *of);
    let zero = Penalties { tool_errors: 0.0, answer_format: 0.0 };
    found.map_or(zero, |index| selection.penalties[index].1)
}
