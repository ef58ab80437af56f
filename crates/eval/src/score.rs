//! What an attempt is worth: one scorer a kind of gold, behind one function.
//!
//! Invariants: a score depends on problem, attempt and, where a model judges, its answers alone, so
//! saved attempts can be scored again; only the policy's own text of its last turn is looked at,
//! never what a tool said; what we fail at is an error and no score.
//!
//! An attempt that a limit cut off has no final answer: for values and choices it is unparseable,
//! whatever its text holds, which is the paper's rule. The other kinds are scored on what is there,
//! as their published scorers do.

use std::borrow::Cow;

use futures::future::{BoxFuture, try_join};
use rocstar_record::attempt::{Attempt, Score};
use rocstar_record::episode::{Finish, Verdict, VerdictKind};
use rocstar_record::message::{Message, Role};
use rocstar_verify::{Extraction, Options};
use serde_json::Map;

use crate::arena_hard::{Game, JudgePrompts, Judgement, parts};
use crate::gpqa::letter_in;
use crate::ifeval::{IfEvalGold, IfEvalReport};
use crate::problem::{Gold, Problem};

/// A model that is asked which of two answers is better.
pub trait Judge: Send + Sync + std::fmt::Debug {
    /// Its answer to `messages`, or why it could not be had.
    fn ask<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Result<String, String>>;

    /// What it is told; ours where nothing else is set.
    fn prompts(&self) -> Cow<'_, JudgePrompts> {
        Cow::Owned(JudgePrompts::default())
    }
}

/// Why there is no score. It says nothing of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// A model must judge, and there is none.
    #[error("problem {problem} is scored by a judging model, and none is set")]
    NoJudge {
        /// The problem.
        problem: String,
    },
    /// The judging model did not answer, or gave no verdict.
    #[error("the judging model failed on problem {problem}: {cause}")]
    Judge {
        /// The problem.
        problem: String,
        /// What happened.
        cause: String,
    },
    /// A fault of the scorer.
    #[error("the scorer failed on problem {problem}: {cause}")]
    Fault {
        /// The problem.
        problem: String,
        /// What happened.
        cause: String,
    },
}

/// Scores `attempt` at `problem`. Work that takes the processor runs beside the runtime's threads,
/// so a tokio runtime is needed.
///
/// # Errors
/// There is no judge where one is needed, it fails, or the scorer has a fault.
pub async fn score(
    problem: &Problem,
    attempt: &Attempt,
    judge: Option<&dyn Judge>,
) -> Result<Score, ScoreError> {
    let text = || attempt.answer_text().to_owned();
    match &problem.gold {
        Gold::Math { .. } | Gold::Choice { .. } if attempt.finish != Finish::Done => {
            Ok(cut_off(attempt.finish))
        }
        Gold::Math { answer, extraction } => {
            let (gold, text, extraction) = (answer.clone(), text(), *extraction);
            beside(problem, move || value(&gold, &text, extraction)).await
        }
        Gold::Choice { letter, choices } => {
            let (gold, choices, text) = (*letter, *choices, text());
            beside(problem, move || choice(gold, choices, &text)).await
        }
        Gold::IfEval(gold) => {
            let (gold, text) = (gold.clone(), text());
            beside(problem, move || instructions(&gold, &text)).await
        }
        Gold::Bfcl(gold) => Ok(gold.check(attempt)),
        Gold::Judged { baseline } => {
            let judge = judge.ok_or_else(|| ScoreError::NoJudge { problem: name(problem) })?;
            judged(problem, attempt.answer_text(), baseline, judge).await
        }
    }
}

fn name(problem: &Problem) -> String {
    problem.task.id.0.clone()
}

/// Runs `work` on a thread that may be busy for long.
async fn beside(
    problem: &Problem,
    work: impl FnOnce() -> Score + Send + 'static,
) -> Result<Score, ScoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ScoreError::Fault { problem: name(problem), cause: error.to_string() })
}

fn scored(value: f64, kind: VerdictKind, answer: Option<String>, explanation: String) -> Score {
    let verdict = Verdict { kind, answer, explanation, second_opinion: None };
    Score { value, verdict, parts: Map::new() }
}

fn cut_off(finish: Finish) -> Score {
    let limit = match finish {
        Finish::Done => "nothing",
        Finish::TurnLimit => "the limit of turns",
        Finish::TokenLimit => "the limit of tokens",
        Finish::ContextLimit => "the model's context",
        Finish::ToolAnswerTooLong => "a tool's answer that would not have fitted",
    };
    let explanation = format!("cut off by {limit}, so there is no final answer");
    scored(0.0, VerdictKind::Unparseable, None, explanation)
}

/// A value, compared by `rocstar-verify`.
fn value(gold: &str, text: &str, extraction: Extraction) -> Score {
    let options = Options { extraction, ..Options::default() };
    let report = rocstar_verify::verify(gold, text, &options);
    let verdict = rocstar_rollout::verdict(&report, extraction);
    let value = if verdict.kind == VerdictKind::Right { 1.0 } else { 0.0 };
    Score { value, verdict, parts: Map::new() }
}

/// The letter in the piece of the text that `rocstar-verify` takes for the answer.
fn choice(gold: char, choices: usize, text: &str) -> Score {
    // Bold print is no part of a letter.
    let report = rocstar_verify::verify(
        &gold.to_string(),
        &text.replace('*', ""),
        &Options { extraction: Extraction::Lenient, ..Options::default() },
    );
    let Some(found) = letter_in(&report.answer.text, choices) else {
        let explanation = format!("no letter from A on is given, of {choices} choices");
        return scored(0.0, VerdictKind::Unparseable, None, explanation);
    };
    let (value, kind) =
        if found == gold { (1.0, VerdictKind::Right) } else { (0.0, VerdictKind::Wrong) };
    scored(value, kind, Some(found.to_string()), format!("{found} is given, {gold} is right"))
}

/// 1 where every instruction was followed strictly. Parts: `prompt_loose`, and the shares of
/// instructions that were followed, `instruction_strict` and `instruction_loose`.
fn instructions(gold: &IfEvalGold, text: &str) -> Score {
    let report = gold.check(text);
    let all = report.prompt_strict();
    let kind = if all { VerdictKind::Right } else { VerdictKind::Wrong };
    let mut score = scored(f64::from(u8::from(all)), kind, None, unfollowed(&report));
    let share = |followed: usize| followed as f64 / report.instructions.len() as f64;
    let parts = [
        ("prompt_loose", f64::from(u8::from(report.prompt_loose()))),
        ("instruction_strict", share(report.followed_strictly())),
        ("instruction_loose", share(report.followed_loosely())),
    ];
    score.parts = parts.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    score
}

fn unfollowed(report: &IfEvalReport) -> String {
    let unfollowed: Vec<String> = report
        .instructions
        .iter()
        .filter(|it| !it.strict)
        .map(|it| {
            let loosely = if it.loose { " (followed loosely)" } else { "" };
            format!("{}: {}{loosely}", it.id, it.explanation)
        })
        .collect();
    if unfollowed.is_empty() {
        format!("all {} instructions are followed", report.instructions.len())
    } else {
        format!("not followed: {}", unfollowed.join("; "))
    }
}

/// Two games, one for each order of the answers. The value is the share of battles that are won;
/// the parts are both games, from which [`crate::arena_hard::win_rate`] makes the suite's figure.
async fn judged(
    problem: &Problem,
    answer: &str,
    baseline: &str,
    judge: &dyn Judge,
) -> Result<Score, ScoreError> {
    let failed = |cause| ScoreError::Judge { problem: name(problem), cause };
    let category = problem.task.meta.get("category").and_then(|it| it.as_str()).unwrap_or_default();
    let asked = problem.task.messages.iter().rev().find(|it| it.role == Role::User);
    let question = asked.map_or("", |it| it.content.as_str());
    let prompts = judge.prompts();
    let play = async |game: Game| {
        let messages = prompts.messages(category, question, answer, baseline, game);
        let text = judge.ask(&messages).await.map_err(failed)?;
        Judgement::parse(&text, game).ok_or_else(|| failed(no_verdict(&text)))
    };
    let games = try_join(play(Game::BaselineFirst), play(Game::ModelFirst)).await?;
    let share = crate::arena_hard::share(&[games.0, games.1]);
    let kind = match share.total_cmp(&0.5) {
        std::cmp::Ordering::Greater => VerdictKind::Right,
        std::cmp::Ordering::Less => VerdictKind::Wrong,
        std::cmp::Ordering::Equal => VerdictKind::Undecided,
    };
    let explanation = format!("{:?} as the second answer, {:?} as the first", games.0, games.1);
    let mut score = scored(share, kind, None, explanation);
    score.parts = parts(games.0, games.1);
    Ok(score)
}

fn no_verdict(text: &str) -> String {
    let mut end: Vec<char> = text.trim_end().chars().rev().take(80).collect();
    end.reverse();
    format!("no verdict such as [[A>B]] in its answer, which ends `{}`", String::from_iter(end))
}
