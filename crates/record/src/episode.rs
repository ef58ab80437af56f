//! An episode and a group of episodes, as they are written down.
//!
//! Invariant: an episode is complete from birth. It holds the tokens with their authors, the
//! log-probability and the weights' version of each sampled token, and what each tool call did, so
//! that training, replay and the dashboard need neither the model nor the tool again, and nothing is
//! ever decoded to be encoded once more. [`Episode::check`] says whether the parts fit each other.
//!
//! What the model did is a value here: an unparseable call, a time-out, a wrong answer. An
//! infrastructure failure is no episode's outcome; it leaves the group, with
//! [`DropCause::Infrastructure`].

mod check;
mod group;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use check::Misfit;
pub use group::{DropCause, Dropped, Evaluated, Group, GroupVerdict, Kept, Lost, Penalties};

/// Version of the form in which episodes are written. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// A task's identity within its data set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

/// Who wrote a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The policy, when sampling: the only tokens that are trained on.
    Policy,
    /// A tool's answer.
    Tool,
    /// The template: headers, ends and forced openings of turns.
    Template,
    /// The prompt: instructions, tools, the question.
    Prompt,
}

/// Neighbouring tokens of one author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Who wrote them.
    pub author: Author,
    /// How many.
    pub tokens: usize,
}

/// One rollout of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The rollout's number within the task.
    pub sample: u32,
    /// The training step that it was made for.
    pub step: u64,
    /// All token ids: the prompt, then the turns.
    pub tokens: Vec<u32>,
    /// Authors of the tokens; their lengths add up to the tokens.
    pub spans: Vec<Span>,
    /// For each token of the policy, in order: log-probability under the sampling transform.
    pub log_probs: Vec<f32>,
    /// For each token of the policy: log-probability at temperature 1, without cuts.
    pub model_log_probs: Vec<f32>,
    /// Versions of the weights, with the number of policy tokens that each sampled, in order.
    pub weight_versions: Vec<(u64, usize)>,
    /// The turns of the assistant, in order.
    pub turns: Vec<Turn>,
    /// How it ended.
    pub finish: Finish,
    /// What the verifier said of the final answer.
    pub verdict: Verdict,
    /// The reward; 1 or 0 in the paper's recipe.
    pub reward: f64,
    /// Where the time went.
    pub timing: Timing,
}

/// A turn of the assistant and what its calls did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The first token of the turn that the policy sampled.
    pub start_token: usize,
    /// Tokens that the policy sampled in it.
    pub policy_tokens: usize,
    /// `<answer>` tags in the policy's own text of this turn.
    pub answer_tags: u32,
    /// Its tool calls, in the order in which they were written.
    pub calls: Vec<Call>,
}

/// A tool call of the policy, well formed or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The tool that was named; empty where no name could be read.
    pub tool: String,
    /// The program that ran; empty where nothing did.
    pub program: String,
    /// What the program was given on standard input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// What the model was shown.
    pub shown: String,
    /// Tokens that were cut from what it was shown.
    pub cut_tokens: usize,
    /// Wall time, in microseconds.
    pub wall_us: u64,
    /// CPU time, in microseconds.
    pub cpu_us: u64,
    /// Peak memory, in bytes; `None` where it is not known.
    pub memory_bytes: Option<u64>,
    /// Layers of isolation that were in force.
    pub isolation: Vec<String>,
}

impl Call {
    /// What the call came to, in the words that were meant for the policy. Where the answer left no
    /// room the policy was shown nothing; what was wrong with the call is told all the same.
    pub fn told(&self) -> &str {
        match &self.outcome {
            ToolOutcome::Malformed { message } | ToolOutcome::Refused { message } => message,
            _ => &self.shown,
        }
    }
}

/// What a tool call came to. Everything but [`ToolOutcome::Ok`] is a failed call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The program ran to its end.
    Ok,
    /// The call could not be read.
    Malformed {
        /// What was wrong, as the model was told.
        message: String,
    },
    /// No tool has that name, or its arguments don't fit.
    Refused {
        /// What was wrong, as the model was told.
        message: String,
    },
    /// An exception reached the top.
    Exception {
        /// Its class.
        name: String,
    },
    /// It left with a status other than 0.
    Exit {
        /// The status.
        code: i32,
    },
    /// Wall or CPU time was over.
    Timeout,
    /// Another limit was reached: memory, output, processes, files, a system call.
    Limit {
        /// Which.
        what: String,
    },
}

impl ToolOutcome {
    /// The call failed: it counts as an error of the policy.
    pub const fn is_failure(&self) -> bool {
        !matches!(self, Self::Ok)
    }
}

/// A few words for people. The name of an exception is the program's own text.
impl fmt::Display for ToolOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => formatter.write_str("ok"),
            Self::Malformed { .. } => formatter.write_str("malformed"),
            Self::Refused { .. } => formatter.write_str("refused"),
            Self::Exception { name } => formatter.write_str(name),
            Self::Exit { code } => write!(formatter, "exit status {code}"),
            Self::Timeout => formatter.write_str("time-out"),
            Self::Limit { what } => write!(formatter, "limit: {what}"),
        }
    }
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A turn without a tool call: the policy was done.
    Done,
    /// The last turn that is allowed called a tool.
    TurnLimit,
    /// The tokens of the response ran out.
    TokenLimit,
    /// The context of the model is full.
    ContextLimit,
    /// The tool's answer would not have fitted; it was left out.
    ToolAnswerTooLong,
}

/// What the verifier said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its kind.
    pub kind: VerdictKind,
    /// The answer that was found, as it was written.
    pub answer: Option<String>,
    /// Why.
    pub explanation: String,
    /// What a second verifier said; absent where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_opinion: Option<SecondOpinion>,
}

/// What came of asking a second verifier about an answer that the first left undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondOpinion {
    /// It said right or wrong, and that is the verdict.
    Decided,
    /// It could not tell either.
    Undecided,
    /// It failed: the verdict is the first verifier's.
    Failed,
}

/// Kinds of verdicts. Only right and wrong are said of an answer; the others are wrong for the
/// reward, and counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The answer is right.
    Right,
    /// It is wrong.
    Wrong,
    /// There is no final answer, or it can't be read.
    Unparseable,
    /// It was read, and neither equality nor difference could be shown.
    Undecided,
}

/// Where an episode's time went, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// From admission to the end.
    pub total_us: u64,
    /// Waiting for tokens.
    pub generating_us: u64,
    /// Waiting for tools.
    pub tools_us: u64,
    /// What was done when, each turn, call and verification for itself; empty where that was not
    /// written down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<Activity>,
}

/// A time as records have it: whole microseconds.
pub fn micros(time: std::time::Duration) -> u64 {
    time.as_micros().try_into().unwrap_or(u64::MAX)
}

/// Something that was done for an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// What.
    pub what: Doing,
    /// When it began, in microseconds since the step, or the evaluation, began.
    pub from_us: u64,
    /// How long it took, in microseconds.
    pub us: u64,
}

/// What is done for an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// The engine writes a turn.
    Generating,
    /// A call runs, or waits for a place.
    Tool,
    /// The answer is checked.
    Verifying,
}

impl Timing {
    /// Counts from an earlier beginning.
    pub fn begin_earlier(&mut self, by_us: u64) {
        for activity in &mut self.activities {
            activity.from_us = activity.from_us.saturating_add(by_us);
        }
    }
}

impl Episode {
    /// Tokens that the policy sampled.
    pub fn policy_tokens(&self) -> usize {
        let of_policy = self.spans.iter().filter(|span| span.author == Author::Policy);
        total(of_policy.map(|span| span.tokens))
    }

    /// Tokens after the prompt.
    pub fn response_tokens(&self) -> usize {
        let prompt = self.spans.iter().take_while(|span| span.author != Author::Policy);
        self.tokens.len().saturating_sub(total(prompt.map(|span| span.tokens)))
    }

    /// For each token, whether it is trained on. For an episode that [`Self::check`] found good.
    pub fn loss_mask(&self) -> Vec<bool> {
        let spans = self.spans.iter();
        spans
            .flat_map(|span| std::iter::repeat_n(span.author == Author::Policy, span.tokens))
            .collect()
    }

    /// All tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }
}

/// The sum; numbers that were read may be anything, and a sum that overflows fits nothing.
fn total(tokens: impl Iterator<Item = usize>) -> usize {
    tokens.fold(0, usize::saturating_add)
}
