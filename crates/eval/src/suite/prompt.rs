//! How a problem is worded for the model.

use rocstar_record::message::{Message, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// The problem as it stands.
    #[default]
    Plain,
    /// The problem, and that the final answer goes into `\boxed{}`.
    Boxed,
    /// The report's: thoughts in `<reason>`, the solution in `<answer>`, its value in `\boxed{}`.
    /// For models whose own chat template doesn't say this already; with those that do, `plain`.
    #[serde(rename = "rstar2")]
    RStar2,
    /// One's own.
    Custom {
        /// A system message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// The user's message; `{problem}` stands for the problem.
        user: String,
    },
}

impl Prompt {
    /// The messages in this wording: the last one, the user's, is worded; a system message comes
    /// before all others where there is none yet.
    pub fn apply(&self, messages: &[Message]) -> Vec<Message> {
        let _ = (messages, Message::text(Role::User, ""));
        unimplemented!()
    }
}
