//! What `/v1/completions` answers, whole or in pieces: a piece has the form of a whole answer.

use indexmap::IndexMap;
use serde::Serialize;

use crate::openai::extension::ChoiceNotes;
use crate::openai::usage::UsageAnswer;

/// An answer, or a piece of one.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct Completion<'a> {
    pub(in crate::openai) id: &'a str,
    pub(in crate::openai) object: &'static str,
    pub(in crate::openai) created: u64,
    pub(in crate::openai) model: &'a str,
    pub(in crate::openai) system_fingerprint: &'a str,
    pub(in crate::openai) choices: Vec<Choice>,
    /// In a stream absent unless asked for, then null but in the last piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) usage: Option<Option<UsageAnswer>>,
}

/// One continuation, or what is new of it.
#[derive(Debug, Serialize)]
pub(in crate::openai) struct Choice {
    pub(in crate::openai) index: u32,
    pub(in crate::openai) text: String,
    pub(in crate::openai) logprobs: Option<LogProbs>,
    pub(in crate::openai) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) prompt_token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::openai) rocstar: Option<ChoiceNotes>,
}

/// Log-probabilities at temperature 1, in the form of columns. The first token of an echoed prompt
/// has none.
#[derive(Debug, Default, Serialize)]
pub(in crate::openai) struct LogProbs {
    pub(in crate::openai) tokens: Vec<String>,
    pub(in crate::openai) token_logprobs: Vec<Option<f32>>,
    pub(in crate::openai) top_logprobs: Vec<Option<IndexMap<String, f32>>>,
    /// Where the token's text begins, in characters of the answer.
    pub(in crate::openai) text_offset: Vec<usize>,
}
