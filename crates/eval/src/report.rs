//! The result of an evaluation, for programs and for people.
//!
//! Invariant: figures stand beside the protocol that they were made under, and a result that lacks an
//! attempt says so.

mod markdown;

use std::collections::{BTreeMap, BTreeSet};

use rocstar_record::attempt::Attempt;
use rocstar_record::episode::TaskId;
use serde::{Deserialize, Serialize};

use crate::arena_hard::{Judgement, WinRate, judgements, win_rate};
use crate::metrics::{self, Figures, Outcome, Prices, Sampled, Spent};
use crate::problem::{Gold, Problem};
use crate::protocol::Protocol;
use crate::store::Saved;
use crate::suite::{Scorer, Suite};

/// Version of the form in which results are written.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalResult {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Whether every attempt is there.
    pub status: Status,
    /// Attempts that are missing.
    pub missing: usize,
    /// Why attempts of the last session came to nothing, with how many of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, usize>,
    /// How the figures were made.
    pub protocol: Protocol,
    /// The figures; `None` before the first attempt.
    pub figures: Option<Figures>,
    /// Where a judge compared answers: the share of battles that were won, by category, as it is
    /// published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub win_rates: BTreeMap<String, WinRate>,
    /// What the attempts took.
    pub spent: Spent,
    /// Each problem that has an attempt, in the suite's order.
    pub problems: Vec<ProblemResult>,
}

/// Whether every attempt is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All are.
    Complete,
    /// Some are missing: figures are of those that are there.
    Partial,
}

/// One problem's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemResult {
    /// The problem.
    pub id: TaskId,
    /// Where the suite sorts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Scores of its attempts, by sample.
    pub values: Vec<f64>,
    /// Mean tokens of a response; `None` where some server doesn't say.
    pub response_tokens_mean: Option<f64>,
}

/// What a result needs beside attempts and scores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Circumstances {
    /// Wall time of all sessions so far.
    pub seconds: f64,
    /// Prices, where they are known.
    pub prices: Option<Prices>,
    /// Why attempts of this session came to nothing.
    pub failures: BTreeMap<String, usize>,
}

impl EvalResult {
    /// The result of what was saved, by the suite's problems that the protocol asks.
    pub fn new(saved: &Saved, suite: &Suite, circumstances: Circumstances) -> Self {
        let protocol = saved.protocol.clone();
        let asked = &suite.problems[..suite.problems.len().min(protocol.suite.problems)];
        let sampled: Vec<Sampled<'_>> =
            asked.iter().map(|problem| sampled(problem, saved)).collect();
        let wanted = asked.len() * protocol.settings.samples as usize;
        let there: usize = sampled.iter().map(|problem| problem.outcomes.len()).sum();
        let votes = matches!(suite.scorer, Scorer::Math | Scorer::Choice);
        let same: Option<&metrics::Same> = if votes { Some(&same_answer) } else { None };
        let figures = metrics::figures(&sampled, same, suite.scorer == Scorer::Calls);
        let ids: BTreeSet<&TaskId> = asked.iter().map(|problem| &problem.task.id).collect();
        let attempts = saved.attempts.iter().filter(|((id, _), _)| ids.contains(id));
        let attempts = attempts.map(|(_, attempt)| attempt);
        let Circumstances { seconds, prices, failures } = circumstances;
        let missing = wanted.saturating_sub(there);
        Self {
            schema: SCHEMA_VERSION,
            status: if missing == 0 { Status::Complete } else { Status::Partial },
            missing,
            failures,
            win_rates: win_rates(&sampled, &protocol),
            protocol,
            figures,
            spent: metrics::spent(attempts, seconds, prices),
            problems: asked.iter().zip(&sampled).filter_map(problem_result).collect(),
        }
    }

    /// The result for people: figures in a table, the protocol below.
    pub fn to_markdown(&self) -> String {
        markdown::result(self)
    }

    /// Rows of a table: what was measured, and the figure.
    pub fn rows(&self) -> Vec<(String, String)> {
        markdown::rows(self)
    }
}

/// Whether two answers are equal, as the verifier sees it.
pub fn same_answer(first: &str, second: &str) -> bool {
    let options = rocstar_verify::Options::default();
    let boxed = format!("\\boxed{{{second}}}");
    rocstar_verify::verify(first, &boxed, &options).verdict == rocstar_verify::Verdict::Right
}

/// The win rates over the problems that were judged, of each category. Those of v2.0 have other
/// baselines and are never one figure.
fn win_rates(sampled: &[Sampled<'_>], protocol: &Protocol) -> BTreeMap<String, WinRate> {
    let mut questions: BTreeMap<&str, Vec<Vec<Judgement>>> = BTreeMap::new();
    for question in sampled {
        let judged = question.outcomes.iter().filter_map(|it| judgements(it.score)).flatten();
        let category = question.category.unwrap_or(&protocol.suite.name);
        questions.entry(category).or_default().push(judged.collect());
    }
    let rate = |(category, questions): (&str, Vec<Vec<Judgement>>)| {
        let settings = &protocol.settings;
        Some((category.to_owned(), win_rate(&questions, settings.arena_hard, settings.seed)?))
    };
    questions.into_iter().filter_map(rate).collect()
}

fn sampled<'a>(problem: &'a Problem, saved: &'a Saved) -> Sampled<'a> {
    let id = &problem.task.id;
    let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
    let outcomes = saved.attempts.range(all).filter_map(|(at, attempt)| {
        let score = saved.scores.get(at)?;
        Some(Outcome { attempt, score })
    });
    let instructions = match &problem.gold {
        Gold::IfEval(gold) => gold.instructions.len(),
        _ => 1,
    };
    Sampled { category: problem.category(), instructions, outcomes: outcomes.collect() }
}

fn problem_result((problem, sampled): (&Problem, &Sampled<'_>)) -> Option<ProblemResult> {
    let values: Vec<f64> = sampled.outcomes.iter().map(|outcome| outcome.score.value).collect();
    let tokens = |attempt: &Attempt| attempt.tokens.response_tokens.map(|tokens| tokens as f64);
    let tokens: Option<f64> = sampled.outcomes.iter().map(|it| tokens(it.attempt)).sum();
    let response_tokens_mean = tokens.map(|tokens| tokens / values.len() as f64);
    let (id, category) = (problem.task.id.clone(), sampled.category.map(str::to_owned));
    (!values.is_empty()).then_some(ProblemResult { id, category, values, response_tokens_mean })
}
