//! One problem, with the answer that is right.

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A problem that the policy is to solve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its identity within its data.
    pub id: TaskId,
    /// What the policy is shown; usually one message of the user.
    pub messages: Vec<Message>,
    /// The right answer, for the verifier alone: the policy never sees it.
    pub answer: String,
    /// Functions that the policy is offered beside the tool. They are never run: its calls of them
    /// are its answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<ToolSpec>,
    /// What else is known of it, for filters and reports.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}
