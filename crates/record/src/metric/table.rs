//! The metrics, as data.

use super::Place::{RlEvaluation, RlStep, SftEvaluation, SftStep};
use super::{Healthy, Metric, Place, Topic};

const EVERYWHERE: &[Place] = &[SftStep, SftEvaluation, RlStep, RlEvaluation];
const STEPS: &[Place] = &[SftStep, RlStep];
const ROLLOUTS: &[Place] = &[RlStep, RlEvaluation];
const SFT: &[Place] = &[SftStep, SftEvaluation];

/// An entry without a healthy range, logged at RL steps.
const fn metric(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning, healthy: None, logged: &[RlStep], is_measured: false }
}

impl Metric {
    const fn at(self, logged: &'static [Place]) -> Self {
        Self { logged, ..self }
    }

    const fn measured(self) -> Self {
        Self { is_measured: true, ..self }
    }

    const fn at_most(self, highest: f64, otherwise: &'static str) -> Self {
        let healthy = Some(Healthy { lowest: None, highest: Some(highest), otherwise });
        Self { healthy, ..self }
    }

    const fn at_least(self, lowest: f64, otherwise: &'static str) -> Self {
        let healthy = Some(Healthy { lowest: Some(lowest), highest: None, otherwise });
        Self { healthy, ..self }
    }

    const fn between(self, lowest: f64, highest: f64, otherwise: &'static str) -> Self {
        let (lowest, highest) = (Some(lowest), Some(highest));
        Self { healthy: Some(Healthy { lowest, highest, otherwise }), ..self }
    }
}

pub(super) const TOPICS: &[Topic] = &[
    Topic { name: "place", metrics: PLACE },
    Topic { name: "reward", metrics: REWARD },
    Topic { name: "groups", metrics: GROUPS },
    Topic { name: "tools", metrics: TOOLS },
    Topic { name: "flaws", metrics: FLAWS },
    Topic { name: "length", metrics: LENGTH },
    Topic { name: "update", metrics: UPDATE },
    Topic { name: "mismatch", metrics: MISMATCH },
    Topic { name: "amount", metrics: AMOUNT },
    Topic { name: "speed", metrics: SPEED },
];

const PLACE: &[Metric] = &[
    metric("step", "steps", "steps of the optimiser in the whole run, this one counted")
        .at(EVERYWHERE),
    metric("stage", "index", "stage of the recipe, from 0").at(EVERYWHERE),
    metric("epoch", "index", "pass over the data, from 0").at(STEPS),
];

const REWARD: &[Metric] = &[
    metric("reward_mean", "reward", "mean reward of all rollouts that came to an episode")
        .at(&[RlStep]),
    metric("accuracy", "share", "right final answers among all rollouts that came to an episode")
        .at(ROLLOUTS),
    metric("accuracy_standard_error", "share", "standard error of `accuracy`, clustered by task")
        .at(&[RlEvaluation]),
    metric(
        "kept_accuracy",
        "share",
        "right final answers among the rollouts that are learned from",
    )
    .between(0.1, 0.9, "a batch has little to compare: tasks are too hard or too easy"),
    metric("unparseable_share", "share", "rollouts without a final answer that can be read")
        .at(ROLLOUTS)
        .at_most(0.2, "the policy does not keep to the form of the answer, or is cut off"),
    metric(
        "second_opinions",
        "answers",
        "answers that the verifier could not decide and a second one was asked about; 0 where the \
         recipe wants none",
    )
    .at(ROLLOUTS),
    metric(
        "second_opinions_decided",
        "answers",
        "of these, answers that the second verifier found right or wrong",
    )
    .at(ROLLOUTS),
];

const GROUPS: &[Metric] = &[
    metric("groups", "groups", "tasks that were rolled out").at(&[RlStep]),
    metric("groups_used", "groups", "groups that are learned from")
        .at_least(1.0, "there was nothing to learn from: the step changed no weight"),
    metric("groups_all_right", "groups", "groups that are dropped since every rollout was right"),
    metric("groups_all_wrong", "groups", "groups that are dropped since every rollout was wrong"),
    metric(
        "groups_kept_alike",
        "groups",
        "groups that are dropped since the rollouts that would be kept are all right or all wrong",
    ),
    metric(
        "groups_too_small",
        "groups",
        "groups that are dropped since too many rollouts were lost",
    )
    .at_most(0.0, "the code environment or the engine fails often"),
    metric("tasks", "tasks", "tasks that were evaluated").at(&[RlEvaluation]),
    metric("samples", "rollouts", "rollouts of each task").at(&[RlEvaluation]),
    metric("rollouts", "rollouts", "rollouts that came to an episode").at(&[RlStep]),
    metric(
        "lost_rollouts",
        "rollouts",
        "rollouts that came to no episode, since something of ours failed",
    )
    .at(ROLLOUTS)
    .at_most(0.0, "the code environment or the engine fails; `episodes/` holds the causes"),
];

const TOOLS: &[Metric] = &[
    metric("tool_calls_per_episode", "calls", "tool calls of all episodes over episodes").at(ROLLOUTS),
    metric("tool_error_share", "share", "failed tool calls among those of all episodes").at(ROLLOUTS),
    metric(
        "tool_error_share_right",
        "share",
        "failed tool calls among those of episodes with a right answer: the noise that reaches what \
         is learned",
    )
    .at(ROLLOUTS),
    metric(
        "tool_error_share_kept",
        "share",
        "failed tool calls among those of the episodes that are learned from",
    ),
];

const FLAWS: &[Metric] = &[
    metric(
        "penalty_tool_errors_mean",
        "penalty",
        "mean of p_err, from 0 to 1, over all episodes: failed calls over calls, 0.5 without a call",
    ),
    metric(
        "penalty_answer_format_mean",
        "penalty",
        "mean of p_format, from 0 to 1, over all episodes: answers that are missing or too many",
    ),
];

const LENGTH: &[Metric] = &[
    metric("response_tokens_mean", "tokens", "mean length after the prompt, tool answers included")
        .at(ROLLOUTS),
    metric("response_tokens_right_mean", "tokens", "the same of episodes with a right answer")
        .at(ROLLOUTS),
    metric("turns_mean", "turns", "mean number of turns of the assistant").at(ROLLOUTS),
    metric("truncated_share", "share", "episodes that a limit of tokens or turns cut off")
        .at(ROLLOUTS)
        .at_most(0.1, "responses outgrow their limit: raise it, or begin the next stage"),
];

const UPDATE: &[Metric] = &[
    metric(
        "loss",
        "nats",
        "what the step minimises, over all its tokens: in SFT the mean negative log-probability of \
         the tokens to learn, in RL the clipped surrogate, which is near 0 and says little",
    )
    .at(&[SftStep, SftEvaluation, RlStep]),
    metric("learning_rate", "rate", "the step's learning rate").at(STEPS),
    metric("gradient_norm", "norm", "length of the gradient before it was clipped").at(STEPS),
    metric(
        "entropy_mean",
        "nats",
        "mean entropy of the policy over the tokens that are learned from",
    )
    .at_least(0.01, "the policy has collapsed: its rollouts no longer differ"),
    metric("updates", "updates", "updates of the weights in the step, 0 where no group was of use"),
    metric("clip_high_share", "share", "tokens whose ratio was clipped from above")
        .at_most(0.1, "the policy moves far within a step: lower the learning rate or the updates"),
    metric("clip_low_share", "share", "tokens whose ratio was clipped from below")
        .at_most(0.1, "the policy moves far within a step: lower the learning rate or the updates"),
];

const MISMATCH: &[Metric] = &[
    metric(
        "mismatch_kl",
        "nats",
        "divergence between the policy that sampled and the policy that the trainer computes, \
         before the first update: mean of r - 1 - ln r over the sampled tokens, with r the ratio of \
         their probabilities",
    )
    .at_most(0.01, "rollouts come from other weights or another arithmetic than are trained"),
    metric("mismatch_max_ratio", "ratio", "largest ratio of the two probabilities of a token, or its inverse")
        .at_most(10.0, "rollouts come from other weights or another arithmetic than are trained"),
    metric(
        "mismatch_effective_sample_size",
        "share",
        "effective sample size of the tokens under the ratio of the two probabilities, over their \
         number",
    )
    .between(0.9, 1.0, "a few tokens would carry the correction for the mismatch"),
];

const AMOUNT: &[Metric] = &[
    metric("sequences", "sequences", "sequences that went through the model").at(SFT),
    metric("tokens", "tokens", "tokens that went through the model").at(STEPS),
    metric("learnt_tokens", "tokens", "of these, tokens to learn").at(SFT),
    metric("policy_tokens", "tokens", "tokens that the policy sampled, in all rollouts")
        .at(&[RlStep]),
    metric("micro_batches", "micro-batches", "times the model was gone through").at(&[SftStep]),
];

const SPEED: &[Metric] = &[
    metric("seconds", "s", "what the step or the evaluation took").at(EVERYWHERE).measured(),
    metric(
        "tokens_per_s",
        "tokens/s",
        "in SFT tokens over seconds, in RL tokens that the policy sampled over the seconds in which the engine generated",
    )
    .at(STEPS).measured(),
    metric("seconds_rolling_out", "s", "time from the step's beginning to its update: episodes and the choice among them").measured(),
    metric("seconds_generating", "s", "time in which the engine generated").at(&[RlStep]).measured(),
    metric(
        "seconds_tools_waiting",
        "s",
        "time in which nothing was generated since every running episode waited for a tool",
    )
    .at(&[RlStep]).measured(),
    metric("seconds_verifying", "s", "time in which nothing was generated and no tool ran, since answers were checked").measured(),
    metric("seconds_updating", "s", "time of forward, backward and optimiser").measured(),
    metric("seconds_weights", "s", "time in which new weights were brought into the engine").measured(),
    metric("seconds_other", "s", "what is left of the step: selection, packing, writing down").measured(),
    metric(
        "pre_emptions",
        "episodes",
        "times that an episode lost its place in the cache and was computed again",
    )
    .at_most(0.0, "reservations are too small: fewer episodes should run at once").measured(),
    metric("kv_use_max", "share", "largest part of the key and value cache that was reserved at once, at most all of it").at(&[RlStep]).measured(),
];
