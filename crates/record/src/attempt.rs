//! An attempt: what a model, any model, wrote on a problem, turn by turn, and what it scored.
//!
//! An [`crate::episode::Episode`] holds tokens and can be trained on. An attempt holds text and
//! can't: it is what evaluation keeps of models that hide their tokens too. Invariant: whatever is
//! needed to score it again is in it, so a changed scorer needs no model.
//!
//! Infrastructure failures are no attempts: what could not be made is missing, and made later.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::episode::{Call, Finish, TaskId, Timing, Verdict};
use crate::message::ToolCall;

/// Version of the form in which attempts are written. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// One sample of one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The problem.
    pub problem: TaskId,
    /// The sample's number within the problem.
    pub sample: u32,
    /// The model's turns, in order.
    pub turns: Vec<AttemptTurn>,
    /// How it ended.
    pub finish: Finish,
    /// What it took, in tokens.
    pub tokens: TokenCounts,
    /// Where the time went.
    pub timing: Timing,
    /// Which generator made it: the model's path, or the endpoint's address.
    pub generator: String,
}

/// What the model wrote in one turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AttemptTurn {
    /// Its text; calls apart where they were read out of it.
    pub text: String,
    /// Thinking that a server keeps apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Its calls, in order, well formed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<AttemptCall>,
}

/// A call that the model wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptCall {
    /// As it was read; `None` where it could not be.
    pub call: Option<ToolCall>,
    /// What running it came to; `None` where tools are offered and not run, or the limit of turns
    /// was reached.
    pub run: Option<Call>,
}

/// Tokens of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Of the first prompt; `None` where a server doesn't say.
    pub prompt_tokens: Option<usize>,
    /// Sampled by the model, in all turns; `None` where a server doesn't say.
    pub policy_tokens: Option<usize>,
    /// After the first prompt, tools' answers included; `None` where a server doesn't say.
    pub response_tokens: Option<usize>,
    /// Whether the ids of the sampled tokens were known, so that it could have been an episode.
    /// Where not, nothing may be trained on it.
    pub are_exact: bool,
}

/// What an attempt is worth, by the scorer of its suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// From 0 to 1; what means are taken of.
    pub value: f64,
    /// Right, wrong, unparseable or undecided, the answer that was found, and why.
    pub verdict: Verdict,
    /// What else the suite measures of one attempt, by name; numbers from 0 to 1.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parts: Map<String, Value>,
}

impl Attempt {
    /// The model's text of its last turn: what answers are looked for in.
    pub fn answer_text(&self) -> &str {
        self.turns.last().map_or("", |turn| turn.text.as_str())
    }

    /// All calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &AttemptCall> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }
}
