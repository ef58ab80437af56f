//! How a problem is worded for the model.
//!
//! Invariant: a wording changes the last message, which is the user's, and may add a system message;
//! it never changes what is right.

use std::sync::Arc;

use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

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

/// What stands for the problem in a wording.
const PROBLEM: &str = "{problem}";

const BOXED: &str = "{problem}\n\nReason step by step, and put the final answer inside \\boxed{}.";

const RSTAR2_SYSTEM: &str = "This is a dialogue between a User and an Assistant. The User poses a problem and the Assistant \
     works it out. The Assistant first reasons step by step between <reason> and </reason>, where it \
     may call tools to compute and to check; then it gives its solution between <answer> and \
     </answer>. A whole reply has this form: \
     <reason>the reasoning</reason><answer>the solution</answer>";

const RSTAR2_USER: &str = "Solve the problem below and write the solution between <answer> and </answer>. The final answer \
     is taken from \\boxed{} there, so put it inside \\boxed{}. This is the problem:\n{problem}";

impl Prompt {
    /// The wording of this name: `plain`, `boxed` or `rstar2`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "plain" => Some(Self::Plain),
            "boxed" => Some(Self::Boxed),
            "rstar2" => Some(Self::RStar2),
            _ => None,
        }
    }

    /// Its name; of one's own, `custom`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Boxed => "boxed",
            Self::RStar2 => "rstar2",
            Self::Custom { .. } => "custom",
        }
    }

    /// The system message and the user's, as templates.
    fn templates(&self) -> (Option<&str>, &str) {
        match self {
            Self::Plain => (None, PROBLEM),
            Self::Boxed => (None, BOXED),
            Self::RStar2 => (Some(RSTAR2_SYSTEM), RSTAR2_USER),
            Self::Custom { system, user } => (system.as_deref(), user),
        }
    }

    /// The messages in this wording: the last one, the user's, is worded; a system message comes
    /// first where there is none yet, and before the text of one that is there.
    pub fn apply(&self, messages: &[Message]) -> Vec<Message> {
        let (system, user) = self.templates();
        let mut messages = messages.to_vec();
        if let Some(last) = messages.last_mut() {
            last.content = user.replace(PROBLEM, &last.content);
        }
        let Some(system) = system else { return messages };
        match messages.first_mut() {
            Some(first) if first.role == Role::System => {
                first.content = format!("{system}\n\n{}", first.content);
            }
            _ => messages.insert(0, Message::text(Role::System, system)),
        }
        messages
    }

    pub(super) fn worded(&self, problem: Problem) -> Problem {
        if *self == Self::Plain {
            return problem;
        }
        let messages = self.apply(&problem.task.messages);
        let task = Task { messages, ..Task::clone(&problem.task) };
        Problem { task: Arc::new(task), gold: problem.gold }
    }
}
