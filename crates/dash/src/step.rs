//! The groups of one step: who was kept, who was dropped and why.
//!
//! Invariant: what a page shows of a group is what is written down of it; nothing is decided anew
//! here ([`crate::what_if`] does that).

use rocstar_grpo::{AdvantageConfig, RocConfig};
use rocstar_record::episode::{
    DropCause, Finish, GroupVerdict, Lost, Penalties, Timing, VerdictKind,
};
use serde::Serialize;

use crate::Error;
use crate::run::Run;
use crate::sketch::{EpisodeSketch, GroupSketch, outcome};
use crate::vocabulary::Vocabulary;

/// Groups of a step that are read.
const MOST_GROUPS: usize = 20_000;
/// Episodes of a step that are read.
const MOST_EPISODES: usize = 100_000;
/// Spans, turns, calls and the like of a step's episodes, of up to some hundred bytes each.
const MOST_PARTS: usize = 1_000_000;

/// A step's groups as they were read.
#[derive(Debug)]
pub struct Step {
    /// The step.
    pub step: u64,
    /// Groups, in their order.
    pub groups: Vec<GroupSketch>,
    /// What could not be read.
    pub notices: Vec<String>,
}

/// A step's groups as a page shows them.
#[derive(Debug, Serialize)]
pub struct StepView {
    step: u64,
    /// Steps with episodes before and behind it.
    previous: Option<u64>,
    next: Option<u64>,
    stage: Option<usize>,
    /// The settings by which rollouts were chosen.
    selection: Option<RocConfig>,
    advantage: Option<AdvantageConfig>,
    /// Groups of the step, of which `groups` may be one.
    all_groups: usize,
    groups: Vec<GroupView>,
    notices: Vec<String>,
}

/// A group as a page shows it.
#[derive(Debug, Serialize)]
pub struct GroupView {
    /// Its place within the step, from 0.
    number: usize,
    task: String,
    problem: String,
    answer: String,
    verdict: GroupVerdict,
    right: usize,
    episodes: Vec<Card>,
    lost: Vec<Lost>,
}

/// An episode as one of many.
#[derive(Debug, Serialize)]
pub struct Card {
    sample: u32,
    kept: bool,
    /// Why it was dropped.
    cause: Option<String>,
    penalties: Option<Penalties>,
    advantage: Option<f64>,
    reward: f64,
    verdict: VerdictKind,
    answer: Option<String>,
    response_tokens: usize,
    policy_tokens: usize,
    turns: usize,
    calls: Vec<CallChip>,
    finish: Finish,
    timing: Timing,
}

/// A call as one of many.
#[derive(Debug, Serialize)]
pub struct CallChip {
    kind: &'static str,
    detail: Option<String>,
    wall_us: u64,
}

impl Step {
    /// Reads the groups of `step`.
    ///
    /// # Errors
    /// There are none, or the file can't be opened.
    pub fn read(run: &Run, step: u64) -> Result<Self, Error> {
        let mut groups: Vec<GroupSketch> = Vec::new();
        let (mut notices, mut episodes, mut parts) = (Vec::new(), 0, 0);
        for record in run.groups::<GroupSketch>(step)? {
            match record {
                Ok(mut group) => {
                    group.shorten();
                    episodes += group.kept.len() + group.dropped.len();
                    parts += group.parts();
                    groups.push(group);
                }
                Err(error) => notices.push(error.to_string()),
            }
            if groups.len() >= MOST_GROUPS || episodes >= MOST_EPISODES || parts >= MOST_PARTS {
                notices
                    .push(format!("step {step}: only the first {} groups are shown", groups.len()));
                break;
            }
        }
        Ok(Self { step, groups, notices })
    }

    /// As a page shows it; only the group `only`, where one is asked for.
    ///
    /// # Errors
    /// There is no such group.
    pub fn view(&self, run: &Run, only: Option<usize>) -> Result<StepView, Error> {
        let place = run.curves()?.place(self.step);
        let recipe = run.recipe();
        let stage = place.and_then(|(stage, _)| recipe.stages.get(stage));
        let vocabulary = run.vocabulary();
        let shown = |number: usize| only.is_none_or(|only| only == number);
        let groups = self.groups.iter().enumerate().filter(|(number, _)| shown(*number));
        let groups: Vec<_> = groups.map(|(at, group)| group_view(at, group, &vocabulary)).collect();
        if let (Some(number), true) = (only, groups.is_empty()) {
            return Err(Error::missing(format!("group {number} in step {}", self.step)));
        }
        let steps = run.reader().episode_steps()?;
        let at = steps.partition_point(|step| *step < self.step);
        Ok(StepView {
            step: self.step,
            previous: at.checked_sub(1).and_then(|before| steps.get(before)).copied(),
            next: steps.get(at + 1).copied(),
            stage: place.map(|(stage, _)| stage),
            selection: stage.and_then(|stage| stage.selection.clone()),
            advantage: stage.and_then(|stage| stage.advantage),
            all_groups: self.groups.len(),
            groups,
            notices: self.notices.iter().cloned().chain(run.vocabulary_notice()).collect(),
        })
    }
}

fn group_view(number: usize, group: &GroupSketch, vocabulary: &Vocabulary) -> GroupView {
    let kept = group.kept.iter().map(|it| Card {
        kept: true,
        penalties: Some(it.penalties),
        advantage: Some(it.advantage),
        ..card(&it.episode)
    });
    let dropped = group.dropped.iter().map(|it| Card {
        cause: Some(cause(&it.cause)),
        penalties: Some(it.penalties),
        ..card(&it.episode)
    });
    let mut episodes: Vec<Card> = kept.chain(dropped).collect();
    episodes.sort_by_key(|card| card.sample);
    let problem = group.episodes().next().map(EpisodeSketch::problem).unwrap_or_default();
    GroupView {
        number,
        task: group.task.0.clone(),
        problem: vocabulary.text(problem).trim().to_owned(),
        answer: group.answer.clone(),
        verdict: group.verdict.clone(),
        right: group.episodes().filter(|episode| episode.is_right()).count(),
        episodes,
        lost: group.lost.clone(),
    }
}

/// An episode of which it is not known whether it was learned from.
pub(crate) fn card(episode: &EpisodeSketch) -> Card {
    let chip = |call: &crate::sketch::CallSketch| {
        let (kind, detail) = outcome(&call.outcome);
        CallChip { kind, detail, wall_us: call.wall_us }
    };
    Card {
        sample: episode.sample,
        kept: false,
        cause: None,
        penalties: None,
        advantage: None,
        reward: episode.reward,
        verdict: episode.verdict.kind,
        answer: episode.verdict.answer.clone(),
        response_tokens: episode.response_tokens(),
        policy_tokens: episode.policy_tokens(),
        turns: episode.turns.len(),
        calls: episode.calls().map(chip).collect(),
        finish: episode.finish,
        timing: Timing { activities: Vec::new(), ..episode.timing.clone() },
    }
}

/// The cause as it is written down.
pub fn cause(cause: &DropCause) -> String {
    match cause {
        DropCause::Selection { why } => why.clone(),
        DropCause::Infrastructure { what } => format!("infrastructure: {what}"),
    }
}
