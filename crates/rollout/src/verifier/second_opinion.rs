//! A second opinion on answers that the first verifier left undecided: Math-Verify, in the sandbox.
//!
//! Invariant: it is asked of undecided answers only, and can't take back a verdict. What it said, or
//! that it failed, stands in the verdict, so how often it was asked can be counted from episodes; a
//! failure leaves the answer undecided. Not hidden: Math-Verify evaluates what it reads, in the
//! interpreter that prints the opinion, so an answer that is made to attack it can forge one. It is
//! off unless the recipe turns it on.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_record::episode::{SecondOpinion, Verdict, VerdictKind};
use rocstar_sandbox::jail::{Kind, Limits, Outcome, Report, Request};
use rocstar_sandbox::{ClientId, Sandbox, Schedule};
use rocstar_verify::Options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Verifier, VerifierError};
use crate::task::Task;

/// The program that asks it.
const PROGRAM: &str = include_str!("ask_math_verify.py");
/// Most wall and CPU time of one question: what Math-Verify gives itself for reading and comparing.
const MOST_MS: u64 = 10_000;
/// Most memory of one question: sympy takes about a quarter of it before it begins.
const MEMORY_BYTES: u64 = 1 << 30;

/// How answers are verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierOptions {
    /// Who is asked about answers that are neither shown right nor wrong.
    pub second_opinion: SecondVerifier,
}

/// A verifier that may be asked where the first can't decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecondVerifier {
    /// Nobody: undecided stays undecided.
    #[default]
    None,
    /// The Python package Math-Verify, which runs in the sandbox.
    MathVerify,
}

impl VerifierOptions {
    /// Whether programs have to run for it.
    pub const fn needs_sandbox(self) -> bool {
        matches!(self.second_opinion, SecondVerifier::MathVerify)
    }

    /// `first`, with the second verifier behind it that the options want.
    ///
    /// # Errors
    /// A second one is wanted and there is no sandbox, or it does not work there.
    pub async fn around(
        self,
        first: Arc<dyn Verifier>,
        sandbox: Option<&Arc<dyn Sandbox>>,
    ) -> Result<Arc<dyn Verifier>, VerifierError> {
        match (self.second_opinion, sandbox) {
            (SecondVerifier::None, _) => Ok(first),
            (SecondVerifier::MathVerify, None) => {
                let cause = "Math-Verify needs a sandbox to run in".to_owned();
                Err(VerifierError { cause })
            }
            (SecondVerifier::MathVerify, Some(sandbox)) => {
                let second = MathVerify::new(Arc::clone(sandbox));
                second.check().await?;
                Ok(Arc::new(WithSecondOpinion { first, second }))
            }
        }
    }
}

/// A verifier with another one behind it, which is asked where the first can't decide.
#[derive(Debug, Clone)]
pub struct WithSecondOpinion {
    first: Arc<dyn Verifier>,
    second: MathVerify,
}

impl WithSecondOpinion {
    /// `first`, with Math-Verify behind it.
    pub fn new(first: Arc<dyn Verifier>, second: MathVerify) -> Self {
        Self { first, second }
    }
}

impl Verifier for WithSecondOpinion {
    fn verify(
        &self,
        task: &Task,
        answer_text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let first = self.first.verify(task, answer_text);
        let (second, gold) = (self.second.clone(), task.answer.clone());
        let verdict = async move {
            let verdict = first.await?;
            let Some(answer) = &verdict.answer else { return Ok(verdict) };
            if verdict.kind != VerdictKind::Undecided {
                return Ok(verdict);
            }
            let opinion = second.ask(&gold, answer, &Options::default()).await;
            Ok(with(verdict, &opinion))
        };
        verdict.boxed()
    }
}

/// An undecided verdict after a second opinion.
fn with(first: Verdict, opinion: &Opinion) -> Verdict {
    let (kind, second_opinion) = match opinion {
        Opinion::Right => (VerdictKind::Right, SecondOpinion::Decided),
        Opinion::Wrong => (VerdictKind::Wrong, SecondOpinion::Decided),
        Opinion::Undecided { .. } => (first.kind, SecondOpinion::Undecided),
        Opinion::Failed { .. } => (first.kind, SecondOpinion::Failed),
    };
    let explanation = format!("{}; {opinion}", first.explanation);
    Verdict { kind, explanation, second_opinion: Some(second_opinion), ..first }
}

/// What Math-Verify says of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// The same as the gold answer.
    Right,
    /// Not the same, as far as it can see.
    Wrong,
    /// It can't tell.
    Undecided {
        /// Why.
        why: String,
    },
    /// It, or what runs it, failed: nothing is said of the answer.
    Failed {
        /// What happened.
        cause: String,
    },
}

impl std::fmt::Display for Opinion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Right => write!(formatter, "Math-Verify: right"),
            Self::Wrong => write!(formatter, "Math-Verify: wrong"),
            Self::Undecided { why } => write!(formatter, "Math-Verify can't tell: {why}"),
            Self::Failed { cause } => write!(formatter, "Math-Verify failed: {cause}"),
        }
    }
}

/// Math-Verify in a sandbox whose Python has the package.
#[derive(Debug, Clone)]
pub struct MathVerify {
    sandbox: Arc<dyn Sandbox>,
}

/// What the program prints.
#[derive(Debug, Deserialize)]
struct Said {
    opinion: Word,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Right,
    Wrong,
    Undecided,
    Absent,
}

impl MathVerify {
    /// In this sandbox.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox }
    }

    /// Asks something whose answer is known, so that a missing package is told before work begins.
    ///
    /// # Errors
    /// It does not work in this sandbox.
    pub async fn check(&self) -> Result<(), VerifierError> {
        match self.ask("\\frac{1}{2}", "0.5", &Options::default()).await {
            Opinion::Right => Ok(()),
            other => Err(VerifierError { cause: other.to_string() }),
        }
    }

    /// Whether `answer` is `gold`; both are answers without text around them.
    pub async fn ask(&self, gold: &str, answer: &str, options: &Options) -> Opinion {
        let question = json!({
            "gold": gold,
            "answer": answer,
            "precision": options.precision,
            "strict": options.strict,
            "allow_set_relation_comp": options.allow_set_relation_comp,
        });
        let limits = Limits {
            wall_ms: Some(MOST_MS),
            cpu_ms: Some(MOST_MS),
            memory_bytes: Some(MEMORY_BYTES),
            ..Limits::default()
        };
        let request = Request {
            stdin: Some(question.to_string().into_bytes()),
            kind: Some(Kind::Scientific),
            limits,
            ..Request::new(PROGRAM)
        };
        let client = ClientId::new("verifier");
        match self.sandbox.execute(&client, request, Schedule::default()).await {
            Ok(report) => opinion(&report),
            Err(error) => Opinion::Failed { cause: error.to_string() },
        }
    }
}

/// What the report of the program says.
fn opinion(report: &Report) -> Opinion {
    let failed = |cause: String| Opinion::Failed { cause };
    match &report.outcome {
        outcome if outcome.is_success() => {}
        Outcome::Exception { name, message, .. } => return failed(format!("{name}: {message}")),
        Outcome::Infrastructure { cause } => return failed(cause.clone()),
        other => return failed(format!("ended by {}", other.name())),
    }
    match report.stdout.text.lines().last().map(serde_json::from_str::<Said>) {
        Some(Ok(Said { opinion: Word::Right, .. })) => Opinion::Right,
        Some(Ok(Said { opinion: Word::Wrong, .. })) => Opinion::Wrong,
        Some(Ok(Said { opinion: Word::Undecided, why })) => Opinion::Undecided { why },
        Some(Ok(Said { opinion: Word::Absent, why })) => failed(format!(
            "{why}; `rocstar sandbox setup` builds an environment that has the package"
        )),
        Some(Err(error)) => failed(format!("it answered something else: {error}")),
        None => failed("it answered nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_sandbox::jail::Captured;

    use super::*;

    fn undecided() -> Verdict {
        Verdict {
            kind: VerdictKind::Undecided,
            answer: Some("1/0".to_owned()),
            explanation: "no value".to_owned(),
            second_opinion: None,
        }
    }

    #[test]
    fn what_it_says_stands_in_the_verdict() {
        let why = || "x".to_owned();
        for (opinion, kind, second, explanation) in [
            (
                Opinion::Right,
                VerdictKind::Right,
                SecondOpinion::Decided,
                "no value; Math-Verify: right",
            ),
            (
                Opinion::Wrong,
                VerdictKind::Wrong,
                SecondOpinion::Decided,
                "no value; Math-Verify: wrong",
            ),
            (
                Opinion::Undecided { why: why() },
                VerdictKind::Undecided,
                SecondOpinion::Undecided,
                "no value; Math-Verify can't tell: x",
            ),
            (
                Opinion::Failed { cause: why() },
                VerdictKind::Undecided,
                SecondOpinion::Failed,
                "no value; Math-Verify failed: x",
            ),
        ] {
            let expected = Verdict {
                kind,
                explanation: explanation.to_owned(),
                second_opinion: Some(second),
                ..undecided()
            };
            assert_eq!(with(undecided(), &opinion), expected);
        }
    }

    #[test]
    fn only_a_program_that_ended_well_has_an_opinion() {
        let report = |outcome, text: &str| Report {
            stdout: Captured { text: text.to_owned(), ..Captured::default() },
            ..Report::without_run(outcome)
        };
        let right = "{\"opinion\": \"right\", \"why\": \"equal\"}\n";
        assert_eq!(opinion(&report(Outcome::Ok, right)), Opinion::Right);
        let failed =
            |outcome, text| matches!(opinion(&report(outcome, text)), Opinion::Failed { .. });
        assert!(failed(Outcome::Timeout, right));
        assert!(failed(Outcome::MemoryLimit, right));
        assert!(failed(Outcome::Ok, ""));
        assert!(failed(Outcome::Ok, "maybe"));
        assert!(failed(Outcome::Ok, "{\"opinion\": \"absent\", \"why\": \"no module\"}"));
    }
}
