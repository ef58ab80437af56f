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

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// From admission to the end.
    pub total_us: u64,
    /// Waiting for tokens.
    pub generating_us: u64,
    /// Waiting for tools.
    pub tools_us: u64,
}

/// Why a rollout is not learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum DropCause {
    /// The selection dropped it, for its cause.
    Selection {
        /// The cause's name.
        why: String,
    },
    /// The tool or the engine failed, more often than it is tried again.
    Infrastructure {
        /// What failed.
        what: String,
    },
}

/// All rollouts of one task in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The training step.
    pub step: u64,
    /// Episodes that are learned from, with their advantages.
    pub kept: Vec<Kept>,
    /// Episodes that are not, each with its cause.
    pub dropped: Vec<Dropped>,
    /// Rollouts that came to no episode.
    pub lost: Vec<Lost>,
}

/// An episode that is learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The episode.
    pub episode: Episode,
    /// What each of its tokens is worth.
    pub advantage: f64,
}

/// An episode that is not learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// The episode.
    pub episode: Episode,
    /// Why.
    pub cause: DropCause,
}

/// A rollout that came to no episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its number within the task.
    pub sample: u32,
    /// Why.
    pub cause: DropCause,
}

/// Parts of an episode that don't fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// The writer's schema is newer than this reader.
    NewerSchema {
        /// The writer's.
        found: u32,
    },
    /// Lengths of spans and tokens differ.
    Spans {
        /// Tokens that the spans cover.
        covered: usize,
        /// Tokens that are there.
        tokens: usize,
    },
    /// There is not one log-probability for each token of the policy.
    LogProbs {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Log-probabilities under the sampling transform.
        sampled: usize,
        /// Log-probabilities at temperature 1.
        model: usize,
    },
    /// Versions of the weights cover another number of tokens.
    WeightVersions {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Tokens that the versions cover.
        covered: usize,
    },
    /// Turns hold another number of tokens of the policy, or lie beyond the tokens.
    Turns {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Tokens that the turns hold.
        covered: usize,
    },
    /// A value is no finite number, which JSON can't hold: what is written could not be read.
    NotFinite {
        /// Where it stands.
        field: &'static str,
    },
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NewerSchema { found } => write!(
                formatter,
                "`schema` is {found}, newer than {SCHEMA_VERSION}: read it with a newer rocstar"
            ),
            Self::Spans { covered, tokens } => {
                write!(formatter, "`spans` cover {covered} tokens, `tokens` has {tokens}")
            }
            Self::LogProbs { policy_tokens, sampled, model } => write!(
                formatter,
                "{policy_tokens} tokens of the policy have {sampled} `log_probs` and {model} \
                 `model_log_probs`"
            ),
            Self::WeightVersions { policy_tokens, covered } => write!(
                formatter,
                "{policy_tokens} tokens of the policy, `weight_versions` cover {covered}"
            ),
            Self::Turns { policy_tokens, covered } => write!(
                formatter,
                "{policy_tokens} tokens of the policy, `turns` hold {covered} or lie beyond the \
                 tokens"
            ),
            Self::NotFinite { field } => {
                write!(formatter, "`{field}` has a value that is no finite number")
            }
        }
    }
}

impl std::error::Error for Misfit {}

impl Group {
    /// Whether its episodes' parts fit, and what is written can be read again.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.schema > SCHEMA_VERSION {
            return Err(Misfit::NewerSchema { found: self.schema });
        }
        if self.kept.iter().any(|kept| !kept.advantage.is_finite()) {
            return Err(Misfit::NotFinite { field: "advantage" });
        }
        let kept = self.kept.iter().map(|kept| &kept.episode);
        let dropped = self.dropped.iter().map(|dropped| &dropped.episode);
        kept.chain(dropped).try_for_each(Episode::check)
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

    /// Whether the parts fit each other.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.schema > SCHEMA_VERSION {
            return Err(Misfit::NewerSchema { found: self.schema });
        }
        let covered = total(self.spans.iter().map(|span| span.tokens));
        if covered != self.tokens.len() {
            return Err(Misfit::Spans { covered, tokens: self.tokens.len() });
        }
        let policy_tokens = self.policy_tokens();
        let (sampled, model) = (self.log_probs.len(), self.model_log_probs.len());
        if sampled != policy_tokens || model != policy_tokens {
            return Err(Misfit::LogProbs { policy_tokens, sampled, model });
        }
        let covered = total(self.weight_versions.iter().map(|(_, tokens)| *tokens));
        if covered != policy_tokens {
            return Err(Misfit::WeightVersions { policy_tokens, covered });
        }
        let covered = total(self.turns.iter().map(|turn| turn.policy_tokens));
        let end = |turn: &Turn| turn.start_token.saturating_add(turn.policy_tokens);
        if covered != policy_tokens || self.turns.iter().any(|turn| end(turn) > self.tokens.len()) {
            return Err(Misfit::Turns { policy_tokens, covered });
        }
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let fields = [
            ("log_probs", finite(&self.log_probs)),
            ("model_log_probs", finite(&self.model_log_probs)),
            ("reward", self.reward.is_finite()),
        ];
        match fields.into_iter().find(|(_, is_finite)| !is_finite) {
            Some((field, _)) => Err(Misfit::NotFinite { field }),
            None => Ok(()),
        }
    }
}

/// The sum; numbers that were read may be anything, and a sum that overflows fits nothing.
fn total(tokens: impl Iterator<Item = usize>) -> usize {
    tokens.fold(0, usize::saturating_add)
}
