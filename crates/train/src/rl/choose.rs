//! From the rollouts of a task to a group: which are learnt from, at what worth, and why the others
//! are not.
//!
//! Invariant: every rollout of the task is in the group once: kept, dropped with its cause and its
//! penalties, or lost with its cause. What decides is in the group's own facts, so that the choice
//! can be made again from what is written down.

use rocstar_grpo::{self as grpo, AdvantageConfig, Facts, RocConfig, Selection, SelectionError};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{DropCause, Dropped, Episode, Group, GroupVerdict, Kept};
use rocstar_record::episode::{Penalties, SCHEMA_VERSION, VerdictKind};
use rocstar_rollout::RolledOut;

/// What the selection looks at, of an episode.
pub fn facts(episode: &Episode) -> Facts {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Facts {
        sample: episode.sample,
        right: episode.verdict.kind == VerdictKind::Right,
        tool_calls: count(episode.calls().count()),
        failed_tool_calls: count(episode.calls().filter(|call| call.outcome.is_failure()).count()),
        answer_tags: episode.turns.iter().map(|turn| turn.answer_tags).sum(),
        turns: count(episode.turns.len()),
    }
}

/// What the selection looks at, of all episodes of a group that is written down.
pub fn group_facts(group: &Group) -> Vec<Facts> {
    group.episodes().map(|(episode, _)| facts(episode)).collect()
}

/// The name of the draws by which rollouts of a task are chosen; `number` is the task's within its
/// stage.
pub fn selection_key(seed: u64, step: u64, number: u64) -> Key {
    Key {
        // A step number beyond 32 bits would take longer than any run.
        step: u32::try_from(step).unwrap_or(u32::MAX),
        task: number,
        ..Key::new(seed, Purpose::Selection)
    }
}

/// What became of a task in a step.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) group: Group,
    pub(crate) verdict: grpo::GroupVerdict,
}

/// Chooses among the rollouts of a task; `key` names the draw.
///
/// # Errors
/// The settings can't work for this group, as [`grpo::select()`] says.
pub(crate) fn choose(
    rolled: RolledOut,
    selection: &RocConfig,
    advantage: &AdvantageConfig,
    key: Key,
) -> Result<Chosen, SelectionError> {
    let facts: Vec<Facts> = rolled.episodes.iter().map(facts).collect();
    let selected = grpo::select(&facts, selection, key)?;
    let verdict = match selected.verdict {
        grpo::GroupVerdict::Used => GroupVerdict::Used,
        grpo::GroupVerdict::Dropped(cause) => GroupVerdict::Dropped { why: name(cause) },
    };
    let mut group = Group {
        schema: SCHEMA_VERSION,
        task: rolled.task.id.clone(),
        answer: rolled.task.answer.clone(),
        step: u64::from(key.step),
        verdict,
        kept: Vec::new(),
        dropped: Vec::new(),
        lost: rolled.lost,
    };
    for episode in rolled.episodes {
        let penalties = penalties(&selected, episode.sample);
        match selected.dropped.iter().find(|(sample, _)| *sample == episode.sample) {
            Some((_, cause)) => {
                let cause = DropCause::Selection { why: name(*cause) };
                group.dropped.push(Dropped { episode, penalties, cause });
            }
            None => group.kept.push(Kept { episode, penalties, advantage: 0.0 }),
        }
    }
    let rewards: Vec<f64> = group.kept.iter().map(|kept| kept.episode.reward).collect();
    for (kept, worth) in group.kept.iter_mut().zip(grpo::advantages(&rewards, advantage)) {
        kept.advantage = worth;
    }
    Ok(Chosen { group, verdict: selected.verdict })
}

/// The cause as it is written down.
fn name(cause: grpo::DropCause) -> String {
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
