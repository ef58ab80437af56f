//! From what is written down of rollouts to what the selection looks at, and the name of its draws.
//!
//! Invariant: both follow from the run directory alone, so that trainer, replay and dashboard choose
//! the same rollouts.

use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Episode, Group, ToolOutcome, VerdictKind};

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
        let turns = episode.turns.iter();
        let turns = turns.map(|it| (it.answer_tags, it.calls.iter().map(|call| &call.outcome)));
        Self::of_turns(episode.sample, episode.verdict.kind, turns)
    }

    /// Of an episode of which this much was read: of each turn its answer tags and the outcomes of its
    /// calls.
    pub fn of_turns<'o, O: IntoIterator<Item = &'o ToolOutcome>>(
        sample: u32,
        verdict: VerdictKind,
        turns: impl IntoIterator<Item = (u32, O)>,
    ) -> Self {
        let mut facts = Self {
            sample,
            right: verdict == VerdictKind::Right,
            tool_calls: 0,
            failed_tool_calls: 0,
            answer_tags: 0,
            turns: 0,
        };
        for (answer_tags, outcomes) in turns {
            facts.turns = facts.turns.saturating_add(1);
            facts.answer_tags = facts.answer_tags.saturating_add(answer_tags);
            for outcome in outcomes {
                facts.tool_calls = facts.tool_calls.saturating_add(1);
                let failed = facts.failed_tool_calls.saturating_add(outcome.is_failure().into());
                facts.failed_tool_calls = failed;
            }
        }
        facts
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
