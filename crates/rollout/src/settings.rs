//! What decides how a rollout goes: the `rollout` table of a recipe's stage.
//!
//! Invariant: every key changes what episodes hold, except `most_running` and `tries`, which only
//! change when they are made.

use rocstar_engine::Sampling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How episodes are made. Units stand in the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutOptions {
    /// Episodes of each task: the paper's 2G, of which G are learned from.
    pub samples: usize,
    /// Most tokens after the prompt, tools' answers included.
    pub response_tokens: usize,
    /// Most turns of the policy. The last one can't call: a call in it is not run.
    pub max_turns: usize,
    /// Divisor of the logits; 0 takes the likeliest token.
    pub temperature: f64,
    /// Only the fewest likeliest tokens whose probabilities sum to at least this; 1 for all.
    pub top_p: f64,
    /// Only this many likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only tokens at least this share as likely as the likeliest; 0 for all.
    pub min_p: f64,
    /// Whether there is a Python tool, and whether it remembers.
    pub tool: ToolMode,
    /// Longest answer of a tool; what is longer loses its middle, with a mark.
    pub tool_answer_tokens: usize,
    /// Most wall time of one call, in milliseconds.
    pub tool_wall_ms: u64,
    /// Most memory of one call, in bytes.
    pub tool_memory_bytes: u64,
    /// Most calls of one turn that are run; more are refused, and told so.
    pub parallel_calls: usize,
    /// How often a failure of ours (engine, tool, verifier) is tried before the rollout is lost.
    pub tries: usize,
    /// Most episodes at once; 0 = as many as the cache has room for.
    pub most_running: usize,
}

impl Default for RolloutOptions {
    /// The paper's first stage.
    fn default() -> Self {
        Self {
            samples: 32,
            response_tokens: 8192,
            max_turns: 10,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            tool: ToolMode::Stateless,
            tool_answer_tokens: 512,
            tool_wall_ms: 10_000,
            tool_memory_bytes: 512 << 20,
            parallel_calls: 4,
            tries: 3,
            most_running: 0,
        }
    }
}

/// Whether there is a Python tool, and whether it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// The policy has no tool; nothing it writes is a call.
    None,
    /// Each call is a program of its own.
    Stateless,
    /// The calls of an episode share one interpreter and its variables.
    Session,
}

/// Fewest tokens of a tool's answer: a mark of what was cut must fit.
const FEWEST_ANSWER_TOKENS: usize = 64;

impl RolloutOptions {
    /// Every problem of the values; none if they can work. Each names its key in backquotes first.
    pub fn validate(&self) -> Vec<String> {
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        let answers = format!(
            "`tool_answer_tokens` must be at least {FEWEST_ANSWER_TOKENS}, is {}",
            self.tool_answer_tokens
        );
        let checks = [
            (self.samples > 0, "`samples` must be at least 1"),
            (self.response_tokens > 0, "`response_tokens` must be at least 1"),
            (self.max_turns > 0, "`max_turns` must be at least 1"),
            (
                self.temperature.is_finite() && self.temperature >= 0.0,
                "`temperature` must be at least 0",
            ),
            (unit(self.top_p) && self.top_p > 0.0, "`top_p` must be over 0 and at most 1"),
            (unit(self.min_p), "`min_p` must be from 0 to 1"),
            (self.tool_answer_tokens >= FEWEST_ANSWER_TOKENS, answers.as_str()),
            (self.tool_wall_ms > 0, "`tool_wall_ms` must be at least 1"),
            (self.tool_memory_bytes > 0, "`tool_memory_bytes` must be at least 1"),
            (self.parallel_calls > 0, "`parallel_calls` must be at least 1"),
            (self.tries > 0, "`tries` must be at least 1"),
        ];
        let wrong = checks.into_iter().filter(|(good, _)| !good);
        wrong.map(|(_, problem)| problem.to_owned()).collect()
    }

    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature as f32,
            top_p: self.top_p as f32,
            top_k: (self.top_k > 0).then_some(self.top_k),
            min_p: self.min_p as f32,
        }
    }
}
