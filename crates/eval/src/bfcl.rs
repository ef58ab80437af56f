//! Function calls as data: is a model's call one of those that answer the question?
//!
//! The rules are those of the Berkeley Function-Calling Leaderboard, version 3, for the categories
//! whose calls are compared and not run.

use rocstar_record::attempt::{Attempt, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the model's calls are looked for, and so how it is told of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallsIn {
    /// Functions are offered as tools; calls are what the server, or our parser of the model's own
    /// format, read. Dots in names become `_`, since servers take no dots.
    #[default]
    Tools,
    /// Functions stand in the prompt, and the model writes `[f(a=1), g()]` as its text.
    Text,
}

/// What a question's calls are scored against.
#[derive(Debug, Clone, PartialEq)]
pub struct BfclGold {}

impl BfclGold {
    /// Scores an attempt: 1 or 0. A refusal's explanation names the call, the parameter, what was
    /// expected and what was there.
    pub fn check(&self, attempt: &Attempt) -> Score {
        let _ = attempt;
        unimplemented!()
    }
}
