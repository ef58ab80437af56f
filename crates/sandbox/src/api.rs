//! The one trait that the rest of rocstar sees of the code environment, and its values.
//!
//! Invariant: whatever stands behind the trait, a call that was accepted is answered exactly once
//! or counted as cancelled; the program's doing is in the [`Report`], ours in [`Error`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use rocstar_jail::{Effective, InvalidRequest, Kind, Limits, Report, Request};
use rocstar_verify::Rule;
use serde::{Deserialize, Serialize};

use crate::stats::Now;

/// Whom the work is for. Fairness is between clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// A client by name. An empty name is the anonymous client.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A session's name, unguessable (128 random bits as 32 hexadecimal digits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

/// How a call is scheduled, beside what it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Give up when the call has not *started* after this long: [`Error::DeadlinePassed`].
    pub start_within: Option<Duration>,
}

/// Many calls in one go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The calls, 1 to 45,000.
    pub calls: Vec<Request>,
    /// Run calls that are equal in every field once, and give the one report to each.
    #[serde(default)]
    pub share_identical: bool,
}

/// Most calls in one batch.
pub const MAX_BATCH_CALLS: usize = 45_000;

/// What a session is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionOptions {
    /// Which interpreter; scientific where left out and available.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Limits of the whole session (memory, processes, file and tmp size) and the defaults of its
    /// cells (wall and CPU time, output).
    #[serde(default)]
    pub limits: Limits,
    /// Ends after this long without a cell, in milliseconds.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// Ends after this long, whatever happens, in milliseconds.
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
}

/// Code and the cases that it must pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeRequest {
    /// The program under judgement.
    pub program: String,
    /// The cases, 1 to 45,000.
    pub cases: Vec<JudgeCase>,
    /// Stop at the first case that does not pass; the later ones are `skipped`.
    #[serde(default)]
    pub stop_early: bool,
    /// Limits of each case.
    #[serde(default)]
    pub limits: Limits,
}

/// One case: standard input with the expected output or answer, or assertions that run after the
/// program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum JudgeCase {
    /// Compares standard output. The expected text never enters the sandbox.
    Output {
        /// Standard input.
        #[serde(default)]
        stdin: String,
        /// Expected standard output; surrounding white space does not count.
        expected_stdout: String,
    },
    /// Looks for an answer in standard output and compares it as mathematics.
    Answer(AnswerCase),
    /// Appends statements to the program; passes when they run to their end. The statements share
    /// the program's interpreter, so a hostile program can defeat them: use `Output` for rewards
    /// where it matters.
    Asserts {
        /// Python statements.
        asserts: String,
    },
}

/// A case whose output is an answer: a number, an expression, a set. `1/2` is `0.5`, whole numbers
/// are equal exactly or not at all; the crate `rocstar-verify` has the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerCase {
    /// Standard input.
    #[serde(default)]
    pub stdin: String,
    /// The answer that is right. Never enters the sandbox.
    pub expected_answer: String,
    /// Digits after the decimal point that count where a side is a decimal, at most
    /// [`MAX_PRECISION`].
    #[serde(default = "default_precision")]
    pub precision: u32,
    /// Names of variables matter: f(x) is not f(y).
    #[serde(default = "default_strict")]
    pub strict: bool,
    /// A relation may be given where a set is asked for.
    #[serde(default)]
    pub allow_set_relation_comp: bool,
}

/// Most digits after the decimal point that may count.
pub const MAX_PRECISION: u32 = 1_000;

impl AnswerCase {
    /// A case without input, compared as usual.
    pub fn new(expected_answer: &str) -> Self {
        Self {
            stdin: String::new(),
            expected_answer: expected_answer.to_owned(),
            precision: default_precision(),
            strict: default_strict(),
            allow_set_relation_comp: false,
        }
    }
}

pub(crate) fn default_precision() -> u32 {
    rocstar_verify::Options::default().precision
}

pub(crate) fn default_strict() -> bool {
    rocstar_verify::Options::default().strict
}

/// Verdict on one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Ran well and gave the expected result.
    Passed,
    /// Ran to its end with another output or answer.
    WrongOutput,
    /// Ran to its end, and whether its answer is right could not be shown. Not a verdict on the
    /// program.
    Undecided,
    /// An assertion failed.
    AssertionFailed,
    /// Ended by an exception, an exit status, a signal or a limit: see the report.
    Failed,
    /// Not run, since an earlier case failed.
    Skipped,
    /// We failed. Not a verdict on the program.
    Infrastructure,
}

/// Verdicts on all cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// All cases passed.
    pub passed: bool,
    /// In the order of the cases; the report is missing for skipped ones.
    pub cases: Vec<CaseResult>,
}

/// Verdict and report of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseResult {
    /// The verdict.
    pub verdict: Verdict,
    /// What happened.
    pub report: Option<Report>,
    /// How the answer was compared; of a case with an expected answer whose program ended well.
    #[serde(default)]
    pub comparison: Option<Comparison>,
}

/// How an answer compares with the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// What was found.
    pub verdict: AnswerVerdict,
    /// The rule of equality that made it right.
    pub rule: Option<Rule>,
    /// Where the two differ, or what can't be read or decided.
    pub explanation: Option<String>,
}

/// Is the answer the expected one?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// The same.
    Right,
    /// Another one.
    Wrong,
    /// One side is no answer that can be read.
    Unparseable,
    /// Neither equality nor difference could be shown.
    Undecided,
}

/// Why there is no report. Never the program's doing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request can't be accepted; names the field.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The queue is full, or this client has its share of it waiting (by calls or by bytes).
    #[error(
        "the queue has no room: {queued} calls wait of {capacity} that may, and one client can't \
         fill it alone; retry after {retry_after_s} s"
    )]
    Full {
        /// Calls waiting now.
        queued: usize,
        /// Calls that may wait.
        capacity: usize,
        /// Estimated from the queue's length and the recent rate.
        retry_after_s: u64,
    },
    /// The call did not start in the time that `Schedule::start_within` gave.
    #[error("the call did not start within {waited_ms} ms")]
    DeadlinePassed {
        /// How long it waited.
        waited_ms: u64,
    },
    /// No such session, or it has ended.
    #[error("no session `{id}`: {cause}")]
    NoSession {
        /// The name that was asked for.
        id: String,
        /// Never opened, ended by its idle limit, deleted, …
        cause: String,
    },
    /// All session places are taken.
    #[error("all {limit} session places are taken")]
    SessionsFull {
        /// The configured number.
        limit: usize,
    },
    /// The service is shutting down; the call was not started.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The server could not be reached or did not speak our language (HTTP client only).
    #[error("{url}: {cause}")]
    Transport {
        /// Where.
        url: String,
        /// What went wrong.
        cause: String,
    },
    /// The jail failed.
    #[error(transparent)]
    Jail(#[from] rocstar_jail::Error),
}

/// The result of one call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reports of a batch as its calls end, each with its call's index.
pub type Reports = BoxStream<'static, (usize, Result<Report>)>;

/// A code environment: in this process, or behind HTTP.
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// Runs one program. Dropping the future frees its work: a waiting call leaves the queue, a
    /// running one is killed.
    fn execute(
        &self,
        client: &ClientId,
        request: Request,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Report>>;

    /// Runs many, yielding `(index, report)` as they finish. The batch is accepted or refused as a
    /// whole. Dropping the stream frees what is left.
    fn execute_batch(
        &self,
        client: &ClientId,
        batch: Batch,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Reports>>;

    /// Opens a session.
    fn open_session(
        &self,
        client: &ClientId,
        options: SessionOptions,
    ) -> BoxFuture<'_, Result<SessionId>>;

    /// Runs one cell in a session. Cells of one session run one after another.
    fn execute_in_session(
        &self,
        client: &ClientId,
        session: &SessionId,
        request: Request,
    ) -> BoxFuture<'_, Result<Report>>;

    /// Branches a session.
    fn fork_session(
        &self,
        client: &ClientId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<SessionId>>;

    /// Ends a session.
    fn close_session(&self, client: &ClientId, session: &SessionId) -> BoxFuture<'_, Result<()>>;

    /// Judges a program by its cases.
    fn judge(&self, client: &ClientId, request: JudgeRequest) -> BoxFuture<'_, Result<Judgement>>;

    /// What isolation the environment gives.
    fn effective(&self) -> BoxFuture<'_, Result<Effective>>;

    /// What it does at this moment; `None` where that is another process's to tell.
    fn now(&self) -> Option<Now> {
        None
    }
}
