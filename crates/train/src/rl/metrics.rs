//! A step and an evaluation of reinforcement learning in numbers, as lines of `metrics.jsonl` hold
//! them. What each means and what is healthy stands in [`rocstar_record::metric`].
//!
//! Invariant: numbers other than times depend on the episodes and the update alone. A share or mean
//! of nothing is absent (`null`), never 0.

use rocstar_grpo::{Chosen, DropCause, GroupVerdict};
use rocstar_record::episode::{Episode, Finish, SecondOpinion, VerdictKind};
use rocstar_rollout::RolledOut;
use serde::{Deserialize, Serialize};

use super::update::Updated;

/// A step of reinforcement learning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the registry of metrics says what each is")]
pub struct RlStepMetrics {
    pub step: u64,
    pub stage: usize,
    /// Pass over the tasks, from 0.
    pub epoch: u64,
    pub reward_mean: Option<f64>,
    pub accuracy: Option<f64>,
    pub kept_accuracy: Option<f64>,
    pub groups: usize,
    pub groups_used: usize,
    pub groups_all_right: usize,
    pub groups_all_wrong: usize,
    pub groups_kept_alike: usize,
    pub groups_too_small: usize,
    pub rollouts: usize,
    pub lost_rollouts: usize,
    pub tool_calls_per_episode: Option<f64>,
    pub tool_error_share: Option<f64>,
    pub tool_error_share_right: Option<f64>,
    pub tool_error_share_kept: Option<f64>,
    pub penalty_tool_errors_mean: Option<f64>,
    pub penalty_answer_format_mean: Option<f64>,
    pub response_tokens_mean: Option<f64>,
    pub response_tokens_right_mean: Option<f64>,
    pub turns_mean: Option<f64>,
    pub truncated_share: Option<f64>,
    pub unparseable_share: Option<f64>,
    #[serde(default)]
    pub second_opinions: usize,
    #[serde(default)]
    pub second_opinions_decided: usize,
    pub entropy_mean: Option<f64>,
    pub clip_high_share: Option<f64>,
    pub clip_low_share: Option<f64>,
    pub loss: Option<f64>,
    pub gradient_norm: Option<f64>,
    pub learning_rate: f64,
    pub updates: usize,
    pub mismatch_kl: Option<f64>,
    pub mismatch_max_ratio: Option<f64>,
    pub mismatch_effective_sample_size: Option<f64>,
    /// Tokens that the policy sampled.
    pub policy_tokens: u64,
    /// Tokens that went through the model in updates.
    pub tokens: u64,
    pub pre_emptions: u64,
    pub kv_use_max: f64,
    pub seconds: f64,
    #[serde(default)]
    pub seconds_rolling_out: f64,
    pub seconds_generating: f64,
    pub seconds_tools_waiting: f64,
    pub seconds_verifying: f64,
    pub seconds_updating: f64,
    pub seconds_weights: f64,
    pub seconds_other: f64,
    pub tokens_per_s: f64,
}

/// An evaluation in a stage of reinforcement learning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the registry of metrics says what each is")]
pub struct RlEvaluationMetrics {
    pub step: u64,
    pub stage: usize,
    pub tasks: usize,
    pub samples: usize,
    pub lost_rollouts: usize,
    pub accuracy: Option<f64>,
    /// Standard error of the accuracy, clustered by task.
    pub accuracy_standard_error: Option<f64>,
    pub tool_calls_per_episode: Option<f64>,
    pub tool_error_share: Option<f64>,
    pub tool_error_share_right: Option<f64>,
    pub response_tokens_mean: Option<f64>,
    pub response_tokens_right_mean: Option<f64>,
    pub turns_mean: Option<f64>,
    pub truncated_share: Option<f64>,
    pub unparseable_share: Option<f64>,
    #[serde(default)]
    pub second_opinions: usize,
    #[serde(default)]
    pub second_opinions_decided: usize,
    pub seconds: f64,
}

/// What is counted over episodes.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    episodes: usize,
    right: usize,
    unparseable: usize,
    second_opinions: usize,
    second_opinions_decided: usize,
    truncated: usize,
    reward: f64,
    turns: usize,
    response_tokens: usize,
    response_tokens_right: usize,
    calls: usize,
    failed_calls: usize,
    calls_right: usize,
    failed_calls_right: usize,
    policy_tokens: usize,
}

impl Tally {
    fn of<'e>(episodes: impl IntoIterator<Item = &'e Episode>) -> Self {
        let mut tally = Self::default();
        episodes.into_iter().for_each(|episode| tally.add(episode));
        tally
    }

    fn add(&mut self, episode: &Episode) {
        let calls = episode.calls().count();
        let failed = episode.calls().filter(|call| call.outcome.is_failure()).count();
        self.episodes += 1;
        self.reward += episode.reward;
        self.turns += episode.turns.len();
        self.response_tokens += episode.response_tokens();
        self.policy_tokens += episode.policy_tokens();
        self.calls += calls;
        self.failed_calls += failed;
        self.unparseable += usize::from(episode.verdict.kind == VerdictKind::Unparseable);
        let second = episode.verdict.second_opinion;
        self.second_opinions += usize::from(second.is_some());
        self.second_opinions_decided += usize::from(second == Some(SecondOpinion::Decided));
        self.truncated += usize::from(episode.finish != Finish::Done);
        if episode.verdict.kind == VerdictKind::Right {
            self.right += 1;
            self.response_tokens_right += episode.response_tokens();
            self.calls_right += calls;
            self.failed_calls_right += failed;
        }
    }
}

/// `None` of nothing.
fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

impl RlStepMetrics {
    /// What the groups of a step say.
    pub(crate) fn of_groups(chosen: &[Chosen]) -> Self {
        let all = || chosen.iter().flat_map(|one| one.group.episodes());
        let tally = Tally::of(all().map(|(episode, _)| episode));
        let kept = || chosen.iter().flat_map(|one| &one.group.kept);
        let of_kept = Tally::of(kept().map(|kept| &kept.episode));
        let ended =
            |cause| chosen.iter().filter(|one| one.verdict == GroupVerdict::Dropped(cause)).count();
        let mean = |sum: f64| (tally.episodes > 0).then(|| sum / tally.episodes as f64);
        Self {
            reward_mean: mean(tally.reward),
            accuracy: share(tally.right, tally.episodes),
            kept_accuracy: share(of_kept.right, of_kept.episodes),
            groups: chosen.len(),
            groups_used: chosen.iter().filter(|one| one.verdict == GroupVerdict::Used).count(),
            groups_all_right: ended(DropCause::AllRight),
            groups_all_wrong: ended(DropCause::AllWrong),
            groups_kept_alike: ended(DropCause::KeptAlike),
            groups_too_small: ended(DropCause::GroupTooSmall),
            rollouts: tally.episodes,
            lost_rollouts: chosen.iter().map(|one| one.group.lost.len()).sum(),
            tool_calls_per_episode: share(tally.calls, tally.episodes),
            tool_error_share: share(tally.failed_calls, tally.calls),
            tool_error_share_right: share(tally.failed_calls_right, tally.calls_right),
            tool_error_share_kept: share(of_kept.failed_calls, of_kept.calls),
            penalty_tool_errors_mean: mean(all().map(|(_, it)| it.tool_errors).sum()),
            penalty_answer_format_mean: mean(all().map(|(_, it)| it.answer_format).sum()),
            response_tokens_mean: share(tally.response_tokens, tally.episodes),
            response_tokens_right_mean: share(tally.response_tokens_right, tally.right),
            turns_mean: share(tally.turns, tally.episodes),
            truncated_share: share(tally.truncated, tally.episodes),
            unparseable_share: share(tally.unparseable, tally.episodes),
            second_opinions: tally.second_opinions,
            second_opinions_decided: tally.second_opinions_decided,
            policy_tokens: tally.policy_tokens as u64,
            ..Self::default()
        }
    }

    /// Adds what the step's updates say; nothing where there was none.
    pub(crate) fn with_update(self, updated: &Updated) -> Self {
        let tokens = updated.totals.tokens;
        let some = |value: f64| (updated.updates > 0).then_some(value);
        Self {
            entropy_mean: some(updated.totals.entropy / tokens.max(1) as f64),
            clip_high_share: share(updated.totals.clipped_high, tokens),
            clip_low_share: share(updated.totals.clipped_low, tokens),
            loss: some(updated.totals.loss),
            gradient_norm: some(updated.gradient_norm),
            updates: updated.updates,
            mismatch_kl: some(updated.mismatch.kl()),
            mismatch_max_ratio: some(updated.mismatch.max_ratio()),
            mismatch_effective_sample_size: some(updated.mismatch.effective_sample_share()),
            tokens: updated.tokens,
            ..self
        }
    }
}

impl RlEvaluationMetrics {
    /// What the episodes of tasks, each with its rollouts, say.
    pub(crate) fn of_tasks(tasks: &[RolledOut]) -> Self {
        let tally = Tally::of(tasks.iter().flat_map(|task| &task.episodes));
        Self {
            tasks: tasks.len(),
            accuracy: share(tally.right, tally.episodes),
            accuracy_standard_error: standard_error(tasks),
            tool_calls_per_episode: share(tally.calls, tally.episodes),
            tool_error_share: share(tally.failed_calls, tally.calls),
            tool_error_share_right: share(tally.failed_calls_right, tally.calls_right),
            response_tokens_mean: share(tally.response_tokens, tally.episodes),
            response_tokens_right_mean: share(tally.response_tokens_right, tally.right),
            turns_mean: share(tally.turns, tally.episodes),
            truncated_share: share(tally.truncated, tally.episodes),
            unparseable_share: share(tally.unparseable, tally.episodes),
            second_opinions: tally.second_opinions,
            second_opinions_decided: tally.second_opinions_decided,
            ..Self::default()
        }
    }
}

/// Deviation of the tasks' accuracies over the root of their number.
fn standard_error(tasks: &[RolledOut]) -> Option<f64> {
    let accuracies: Vec<f64> = tasks
        .iter()
        .filter_map(|task| {
            let tally = Tally::of(&task.episodes);
            share(tally.right, tally.episodes)
        })
        .collect();
    let count = accuracies.len() as f64;
    let mean = accuracies.iter().sum::<f64>() / count;
    let square: f64 = accuracies.iter().map(|it| (it - mean).powi(2)).sum();
    (accuracies.len() > 1).then(|| (square / (count - 1.0) / count).sqrt())
}
