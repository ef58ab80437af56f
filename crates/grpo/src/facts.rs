//! From what is written down of rollouts to what the selection looks at, and the name of its draws.
//!
//! Invariant: both follow from the run directory alone, so that trainer, replay and dashboard choose
//! the same rollouts.

use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Episode, Group, VerdictKind};

/// What the selection needs to know of one rollout.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// The rollout's number within its task; ties and draws go by it, never by who finished first.
    pub sample: u32,
    /// The final answer was right: reward 1, else 0 (equation 3).
    pub right: bool,
    /// Tool calls that the policy made, malformed ones among them.
    pub tool_calls: u32,
    /// Of these, calls that could not be parsed, raised, or ran out of time or another limit.
    pub failed_tool_calls: u32,
    /// Answer tags in the policy's own text.
    pub answer_tags: u32,
    /// Turns of the assistant in the trajectory.
    pub turns: u32,
}

impl Facts {
    /// Of an episode.
    pub fn of(episode: &Episode) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let failed = episode.calls().filter(|call| call.outcome.is_failure()).count();
        let tags = episode.turns.iter().map(|turn| turn.answer_tags);
        Self {
            sample: episode.sample,
            right: episode.verdict.kind == VerdictKind::Right,
            tool_calls: count(episode.calls().count()),
            failed_tool_calls: count(failed),
            answer_tags: tags.fold(0, u32::saturating_add),
            turns: count(episode.turns.len()),
        }
    }

    /// Of all episodes of a group that is written down.
    pub fn of_group(group: &Group) -> Vec<Self> {
        group.episodes().map(|(episode, _)| Self::of(episode)).collect()
    }
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
