//! What rocstar says beyond OpenAI's form: the `rocstar` object of each choice.
//!
//! Invariant: whoever trains on an answer finds here, for every sampled token, the log-probability
//! under the distribution that it was drawn from, the one at temperature 1, and which weights made
//! it; and the name of the draws, with which the same answer comes again.

use rocstar_chat::calls::CallFailure;
use rocstar_record::draw::Key;
use serde::Serialize;

use crate::generation::{FinishReason, SampledToken, WeightVersion};

/// The `rocstar` object of a choice, or what is new of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChoiceNotes {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<DrawNote>,
    /// Why it ended, more exactly than `finish_reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_string: Option<String>,
    /// Runs of tokens by the weights that made them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    weight_versions: Vec<VersionRun>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    malformed_tool_calls: Vec<MalformedCall>,
    /// Under the distribution that the token was drawn from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sampling_logprobs: Vec<f32>,
    /// At temperature 1, without cuts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_logprobs: Vec<f32>,
}

#[derive(Debug, Serialize)]
struct DrawNote {
    step: u32,
    task: u64,
    sample: u32,
    turn: u32,
}

#[derive(Debug, Serialize)]
struct VersionRun {
    version: WeightVersion,
    tokens: usize,
}

/// A call that could not be read: it stays text of the answer.
#[derive(Debug, Serialize)]
struct MalformedCall {
    kind: &'static str,
    /// The sentence to give back to the model.
    message: String,
    /// Where it went wrong, in bytes of the generated text.
    position: usize,
    start: usize,
    end: usize,
}

impl ChoiceNotes {
    /// Nothing to tell.
    pub(super) const fn is_empty(&self) -> bool {
        self.seed.is_none()
            && self.weight_versions.is_empty()
            && self.malformed_tool_calls.is_empty()
            && self.sampling_logprobs.is_empty()
    }

    /// Notes the log-probabilities of a token.
    pub(super) fn add_log_probs(&mut self, token: &SampledToken) {
        self.sampling_logprobs.push(token.log_prob);
        self.model_logprobs.push(token.model_log_prob);
    }

    /// Notes a call that could not be read.
    pub(super) fn add_malformed(&mut self, failure: &CallFailure) {
        self.malformed_tool_calls.push(MalformedCall {
            kind: failure.kind.as_str(),
            message: failure.to_string(),
            position: failure.position,
            start: failure.span.start,
            end: failure.span.end,
        });
    }

    /// Notes what is known only at the end.
    pub(super) fn end(
        &mut self,
        key: Key,
        versions: &Versions,
        reason: &FinishReason,
        stop_strings: &[String],
    ) {
        let Key { seed, step, task, sample, turn, .. } = key;
        self.seed = Some(seed);
        self.draw = Some(DrawNote { step, task, sample, turn });
        let runs = versions.0.iter();
        self.weight_versions =
            runs.map(|&(version, tokens)| VersionRun { version, tokens }).collect();
        let (ended_by, stop_string) = match reason {
            FinishReason::StopToken(_) => ("stop_token", None),
            FinishReason::StopString { index, .. } => {
                ("stop_string", stop_strings.get(*index).cloned())
            }
            FinishReason::Length => ("max_tokens", None),
            FinishReason::Context => ("context", None),
            FinishReason::Cancelled => ("cancelled", None),
            FinishReason::EngineFailed { .. } => ("engine_failed", None),
        };
        self.ended_by = Some(ended_by);
        self.stop_string = stop_string;
    }

    /// Adds what is new.
    pub(super) fn extend(&mut self, new: Self) {
        let Self { seed, draw, ended_by, stop_string, .. } = new;
        self.seed = seed.or(self.seed);
        self.draw = draw.or_else(|| self.draw.take());
        self.ended_by = ended_by.or(self.ended_by);
        self.stop_string = stop_string.or_else(|| self.stop_string.take());
        self.weight_versions.extend(new.weight_versions);
        self.malformed_tool_calls.extend(new.malformed_tool_calls);
        self.sampling_logprobs.extend(new.sampling_logprobs);
        self.model_logprobs.extend(new.model_logprobs);
    }
}

/// Which weights made how many tokens, in order.
#[derive(Debug, Default)]
pub(super) struct Versions(Vec<(WeightVersion, usize)>);

impl Versions {
    /// Counts a token.
    pub(super) fn add(&mut self, version: WeightVersion) {
        match self.0.last_mut() {
            Some((last, tokens)) if *last == version => *tokens += 1,
            Some(_) | None => self.0.push((version, 1)),
        }
    }
}
