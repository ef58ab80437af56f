//! Function calls as data: is a model's call one of those that answer the question?
//!
//! The rules are those of the Berkeley Function-Calling Leaderboard, version 3 (ShishirPatil/gorilla),
//! for the categories whose calls are compared and not run. Invariants: a call is compared by value
//! and by type, never by its text; every refusal is a [`Refusal`] that names call and parameter,
//! what was expected and what was there; whatever the published checker accepts is accepted.
//!
//! Three differences, all in a model's favour, are meant:
//!
//! - Parallel calls are assigned to answers by a full matching. The published checker takes the first
//!   call that fits each answer, and so can refuse calls that do fit in another order.
//! - Where a question contradicts its own answer, the answer counts: a parameter that the function's
//!   description doesn't know is compared by value alone, and one that it requires but the answer
//!   doesn't know is not required. The published checker accepts no call at all in four questions for
//!   this (`live_multiple_862-181-3`, `live_multiple_964-207-0`, `live_simple_106-63-0`,
//!   `live_simple_112-68-0`).
//! - A tuple is a list. Calls arrive as JSON, which has none.
//!
//! One is not: in a text, the published reader takes bare names, sums and expressions for strings or
//! evaluates them; here arguments are literals, and anything else can't be read.

mod category;
mod check;
mod python;
mod refusal;
mod row;
mod schema;
mod text;

use rocstar_record::attempt::{Attempt, AttemptCall, Score};
use rocstar_record::episode::{Verdict, VerdictKind};
use rocstar_record::message::{Arguments, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use category::Category;
pub use refusal::{CallRefusal, Refusal};
pub use row::{BadRow, Question};
pub use schema::FunctionDoc;

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
pub struct BfclGold {
    /// The kind of question.
    pub category: Category,
    /// Where calls are looked for.
    pub calls_in: CallsIn,
    /// The functions that the model is told of.
    pub functions: Vec<FunctionDoc>,
    /// The calls that answer the question; none where calls aren't compared.
    pub answers: Vec<Answer>,
}

/// One call that must be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The function.
    pub function: String,
    /// Each parameter with the values that are right; the empty string among them says that it may be
    /// left out.
    pub parameters: Vec<(String, Vec<Value>)>,
}

impl BfclGold {
    /// Scores an attempt: 1 or 0. Calls of all its turns count.
    pub fn check(&self, attempt: &Attempt) -> Score {
        match self.calls_of(attempt) {
            Ok(calls) => self.score(&calls, self.check_calls(&calls)),
            // What can't be read is no call: right only where none should be made.
            Err(unreadable) if self.category.compares_calls() || self.category.wants_a_call() => {
                let (kind, explanation) = (VerdictKind::Unparseable, unreadable.to_string());
                let verdict = Verdict { kind, answer: None, explanation, second_opinion: None };
                Score { value: 0.0, verdict, parts: Map::new() }
            }
            Err(_) => self.score(&[], Ok(())),
        }
    }

    /// Whether these calls answer the question.
    ///
    /// # Errors
    /// Why they don't.
    pub fn check_calls(&self, calls: &[ToolCall]) -> Result<(), Refusal> {
        match self.category {
            Category::Irrelevance | Category::LiveIrrelevance => {
                calls.first().map_or(Ok(()), |call| {
                    let calls = calls.iter().map(|call| call.name.clone()).collect();
                    Err(Refusal::NoneWanted { first: call.name.clone(), calls })
                })
            }
            Category::LiveRelevance if calls.is_empty() => Err(Refusal::NoCall),
            Category::LiveRelevance => Ok(()),
            Category::Simple
            | Category::Multiple
            | Category::Parallel
            | Category::ParallelMultiple
            | Category::LiveSimple
            | Category::LiveMultiple
            | Category::LiveParallel
            | Category::LiveParallelMultiple => check::all(self, calls),
        }
    }

    fn score(&self, calls: &[ToolCall], checked: Result<(), Refusal>) -> Score {
        let (value, kind, explanation) = match checked {
            Ok(()) => (1.0, VerdictKind::Right, self.category.right().to_owned()),
            Err(refusal) => (0.0, VerdictKind::Wrong, refusal.to_string()),
        };
        let answer = (!calls.is_empty()).then(|| written(calls));
        let verdict = Verdict { kind, answer, explanation, second_opinion: None };
        Score { value, verdict, parts: Map::new() }
    }

    /// The model's calls.
    fn calls_of(&self, attempt: &Attempt) -> Result<Vec<ToolCall>, Unreadable> {
        if self.calls_in == CallsIn::Text {
            return text::calls(attempt.answer_text());
        }
        let read = |(index, call): (usize, &AttemptCall)| {
            let unreadable = || Unreadable { problem: format!("call {} can't be read", index + 1) };
            call.call.clone().ok_or_else(unreadable)
        };
        attempt.calls().enumerate().map(read).collect()
    }
}

/// Calls that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Unreadable {
    /// What is wrong.
    pub problem: String,
}

/// Calls as one line for people.
fn written(calls: &[ToolCall]) -> String {
    let argument = |(name, value): (&String, &Value)| format!("{name}={value}");
    let call = |call: &ToolCall| match &call.arguments {
        Arguments::Object(map) => {
            let arguments: Vec<String> = map.iter().map(argument).collect();
            format!("{}({})", call.name, arguments.join(", "))
        }
        Arguments::Text(text) => format!("{}({text})", call.name),
    };
    format!("[{}]", calls.iter().map(call).collect::<Vec<_>>().join(", "))
}
