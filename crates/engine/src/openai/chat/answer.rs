//! What `/v1/chat/completions` answers, whole or in pieces.
//!
//! Invariant: the pieces of a streamed answer, put together as OpenAI's clients do, are the whole
//! answer: both are made from the same deltas.

use serde::Serialize;

use crate::openai::extension::ChoiceNotes;
use crate::openai::usage::UsageAnswer;

/// A whole answer.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct ChatCompletion<'a> {
    pub(in crate::openai) id: &'a str,
    pub(in crate::openai) object: &'static str,
    pub(in crate::openai) created: u64,
    pub(in crate::openai) model: &'a str,
    pub(in crate::openai) system_fingerprint: &'a str,
    pub(in crate::openai) choices: Vec<Choice>,
    pub(in crate::openai) usage: UsageAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) prompt_token_ids: Option<&'a [u32]>,
}

/// One answer of a whole answer.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct Choice {
    pub(in crate::openai) index: u32,
    pub(in crate::openai) message: AssistantMessage,
    pub(in crate::openai) logprobs: Option<LogProbs>,
    pub(in crate::openai) finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) token_ids: Option<Vec<u32>>,
    pub(in crate::openai) rocstar: ChoiceNotes,
}

/// What the model said.
#[derive(Debug, Default, Serialize)]
pub(in crate::openai) struct AssistantMessage {
    pub(in crate::openai) role: AssistantRole,
    /// Null where the message is calls only.
    pub(in crate::openai) content: Option<String>,
    pub(in crate::openai) refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::openai) tool_calls: Vec<CallAnswer>,
}

/// The one role that answers.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::openai) enum AssistantRole {
    /// The model.
    #[default]
    Assistant,
}

/// A call, complete. In a stream it has an index as well.
#[derive(Debug, Clone, Serialize)]
pub(in crate::openai) struct CallAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) index: Option<usize>,
    pub(in crate::openai) id: String,
    #[serde(rename = "type")]
    pub(in crate::openai) kind: &'static str,
    pub(in crate::openai) function: FunctionAnswer,
}

/// The called function.
#[derive(Debug, Clone, Serialize)]
pub(in crate::openai) struct FunctionAnswer {
    pub(in crate::openai) name: String,
    /// A JSON object, as text.
    pub(in crate::openai) arguments: String,
}

/// Log-probabilities of the tokens, at temperature 1.
#[derive(Debug, Default, Serialize)]
pub(in crate::openai) struct LogProbs {
    pub(in crate::openai) content: Vec<TokenLogProb>,
    pub(in crate::openai) refusal: Option<Vec<TokenLogProb>>,
}

/// A token with its alternatives.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct TokenLogProb {
    #[serde(flatten)]
    pub(in crate::openai) token: Alternative,
    pub(in crate::openai) top_logprobs: Vec<Alternative>,
}

/// A token that could stand in this place.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct Alternative {
    /// Its text; a part of a character shows as U+FFFD.
    pub(in crate::openai) token: String,
    pub(in crate::openai) logprob: f32,
    /// Its bytes, which may be a part of a character.
    pub(in crate::openai) bytes: Vec<u8>,
}

/// A piece of a streamed answer.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct ChatChunk<'a> {
    pub(in crate::openai) id: &'a str,
    pub(in crate::openai) object: &'static str,
    pub(in crate::openai) created: u64,
    pub(in crate::openai) model: &'a str,
    pub(in crate::openai) system_fingerprint: &'a str,
    pub(in crate::openai) choices: Vec<ChunkChoice>,
    /// Absent unless asked for, then null but in the last piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) usage: Option<Option<UsageAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) prompt_token_ids: Option<&'a [u32]>,
}

/// What is new of one answer.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct ChunkChoice {
    pub(in crate::openai) index: u32,
    pub(in crate::openai) delta: Delta,
    pub(in crate::openai) logprobs: Option<LogProbs>,
    pub(in crate::openai) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) rocstar: Option<ChoiceNotes>,
}

/// What is new of a message.
#[derive(Debug, Default, Serialize)]
pub(in crate::openai) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) role: Option<AssistantRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::openai) tool_calls: Vec<CallAnswer>,
}
