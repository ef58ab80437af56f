//! Is the final answer right? Behind a trait, and off the thread that moves the episodes.
//!
//! Invariant: a verifier sees the policy's own text after the last tool's answer and the task;
//! never what a tool said, never an earlier turn. What it can't decide it says; a failure of ours
//! is an error, and no verdict.

mod second_opinion;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_record::episode::{Verdict, VerdictKind};
use rocstar_verify::{Extraction, Options, Report};

pub use second_opinion::{MathVerify, Opinion, SecondVerifier, VerifierOptions, WithSecondOpinion};

use crate::task::Task;

/// Says whether answers are right.
pub trait Verifier: Send + Sync + fmt::Debug {
    /// Judges `answer_text`, the policy's own text of its last turn.
    fn verify(
        &self,
        task: &Task,
        answer_text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>>;
}

/// A verifier that failed: no verdict on the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the verifier failed: {cause}")]
pub struct VerifierError {
    /// What happened.
    pub cause: String,
}

/// Mathematics: the `\boxed{}` inside `<answer>`, compared exactly and within a budget of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct MathVerifier;

impl Verifier for MathVerifier {
    fn verify(
        &self,
        task: &Task,
        answer_text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let (gold, text) = (task.answer.clone(), answer_text.to_owned());
        let work = tokio::task::spawn_blocking(move || {
            let options = Options { extraction: Extraction::Strict, ..Options::default() };
            catch_unwind(AssertUnwindSafe(|| rocstar_verify::verify(&gold, &text, &options)))
        });
        let verdict = async {
            match work.await {
                Ok(Ok(report)) => Ok(verdict(&report, Extraction::Strict)),
                Ok(Err(_)) => Err(failed("a fault in the comparison")),
                Err(error) => Err(failed(&error.to_string())),
            }
        };
        verdict.boxed()
    }
}

fn failed(cause: &str) -> VerifierError {
    VerifierError { cause: cause.to_owned() }
}

/// What rocstar-verify found, as it is written down.
pub fn verdict(report: &Report, extraction: Extraction) -> Verdict {
    let found = report.answer.extraction.is_some();
    let (kind, explanation) = match &report.verdict {
        rocstar_verify::Verdict::Right => {
            let rule = report.rule.map_or_else(String::new, |rule| format!("{rule:?}"));
            (VerdictKind::Right, format!("equal by rule {rule}"))
        }
        rocstar_verify::Verdict::Wrong => {
            let why = report.difference.clone().unwrap_or_else(|| "another answer".to_owned());
            (VerdictKind::Wrong, why)
        }
        rocstar_verify::Verdict::Unparseable { side, position, message } => {
            let explanation = match extraction {
                _ if found => format!("{side:?}, byte {position}: {message}"),
                Extraction::Strict => "no \\boxed{} inside <answer>".to_owned(),
                Extraction::Lenient => "no answer was found".to_owned(),
            };
            (VerdictKind::Unparseable, explanation)
        }
        rocstar_verify::Verdict::Undecided { why } => (VerdictKind::Undecided, why.clone()),
    };
    let answer = found.then(|| report.answer.text.clone());
    Verdict { kind, answer, explanation, second_opinion: None }
}
