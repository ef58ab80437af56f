//! Submissions to jail requests, and reports to results: pure functions.
//!
//! Invariant: a result says `success` only for a run that ended well and, where an output is
//! expected, printed it whole.

use rocstar_jail::{Limits, Outcome, Report, Request, ResolvedLimits};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::super::parse::bounded_list;
use super::super::pydantic::{self, Word};
use super::{CodeJudgeConfig, Form};
use crate::{Error, Result};

/// code-judge starts its clock before the interpreter, which takes about this long, in
/// milliseconds: a program that sleeps for the whole limit is stopped there, and must be here.
const INTERPRETER_START_MS: u64 = 20;
/// A busy loop ends by the wall clock, as a time-out, before its CPU time is over.
const CPU_MARGIN_MS: u64 = 1_000;
/// What code-judge's programs print when their time is over; its clients look for it.
const TIMEOUT_NOTICE: &str = "Suicide from timeout.\n";

#[derive(Debug, Deserialize)]
pub(super) struct Submission {
    #[serde(default)]
    sub_id: Option<String>,
    #[serde(rename = "type", deserialize_with = "language")]
    language: Word,
    solution: String,
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    expected_output: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BatchSubmission {
    #[serde(default)]
    pub(super) sub_id: Option<String>,
    #[serde(rename = "type", default, deserialize_with = "batch")]
    _kind: Word,
    #[serde(deserialize_with = "submissions")]
    pub(super) submissions: Vec<Submission>,
}

fn language<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Word, D::Error> {
    pydantic::literal(deserializer, &["python", "cpp", "math"])
}

fn batch<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Word, D::Error> {
    pydantic::literal(deserializer, &["batch"])
}

fn submissions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<Submission>, D::Error> {
    let submissions = bounded_list(deserializer)?;
    if submissions.is_empty() {
        let words = "List should have at least 1 item after validation, not 0";
        return Err(pydantic::error("too_short", words));
    }
    Ok(submissions)
}

/// What is remembered of a submission while it runs.
#[derive(Debug)]
pub(super) struct Ticket {
    sub_id: String,
    expected_output: Option<String>,
}

/// What becomes of a submission.
#[derive(Debug)]
pub(super) enum Work {
    /// It is run.
    Run(Request),
    /// Its result is known without a run.
    Known(Result<Report>),
}

/// Turns a submission into work.
pub(super) fn prepare(
    submission: Submission,
    config: &CodeJudgeConfig,
    maximum: &ResolvedLimits,
) -> (Ticket, Work) {
    let Submission { sub_id, language, solution, input, expected_output } = submission;
    let wall_ms = config.execution_ms.saturating_sub(INTERPRETER_START_MS).max(1);
    let limits = Limits {
        wall_ms: Some(wall_ms),
        cpu_ms: Some(maximum.cpu_ms.min(wall_ms + CPU_MARGIN_MS)),
        memory_bytes: Some(config.memory_bytes),
        // The comparison is with the whole output.
        kept_bytes: expected_output.as_ref().map(|_| maximum.kept_bytes),
        ..Limits::default()
    };
    let stdin = input.filter(|input| !input.is_empty()).map(String::into_bytes);
    let request = Request { program: solution, stdin, limits, ..Request::default() };
    let work = if language.0 == "python" {
        match request.validate() {
            Ok(()) => Work::Run(request),
            Err(invalid) => Work::Known(Err(invalid.into())),
        }
    } else {
        let cause =
            format!("this server runs Python only; there is no executor for `{}`", language.0);
        Work::Known(Ok(Report::without_run(Outcome::Infrastructure { cause })))
    };
    (Ticket { sub_id: name(sub_id), expected_output }, work)
}

/// The given name, or a new one: an empty name counts as none.
pub(super) fn name(sub_id: Option<String>) -> String {
    sub_id.filter(|sub_id| !sub_id.is_empty()).unwrap_or_else(|| Uuid::new_v4().to_string())
}

/// A result as it goes over the wire; the order of the fields is code-judge's.
#[derive(Debug, PartialEq, Serialize)]
struct SubmissionResult<'a> {
    sub_id: &'a str,
    success: bool,
    run_success: bool,
    cost: f64,
    stdout: Option<String>,
    stderr: Option<String>,
    reason: &'static str,
}

/// The same without the output.
#[derive(Debug, Serialize)]
struct JudgeResult<'a> {
    sub_id: &'a str,
    success: bool,
    run_success: bool,
    cost: f64,
    reason: &'static str,
}

impl Ticket {
    /// The result in JSON.
    pub(super) fn encode(
        &self,
        ran: &Result<Report>,
        config: &CodeJudgeConfig,
        form: Form,
    ) -> serde_json::Result<Vec<u8>> {
        let result = self.result(ran, config);
        match form {
            Form::Run => serde_json::to_vec(&result),
            Form::Judge => {
                let SubmissionResult { sub_id, success, run_success, cost, reason, .. } = result;
                serde_json::to_vec(&JudgeResult { sub_id, success, run_success, cost, reason })
            }
        }
    }

    fn result(&self, ran: &Result<Report>, config: &CodeJudgeConfig) -> SubmissionResult<'_> {
        match ran {
            Ok(report) => self.ran(report, config),
            Err(Error::DeadlinePassed { waited_ms }) => {
                self.not_run("queue_timeout", *waited_ms as f64 / 1e3, None)
            }
            // Never started: the clients send such a submission again.
            Err(
                error @ (Error::Full { .. } | Error::ShuttingDown | Error::SessionsFull { .. }),
            ) => self.not_run("queue_timeout", 0.0, Some(error.to_string())),
            Err(Error::Invalid(invalid)) => {
                self.not_run("invalid_input", 0.0, Some(invalid.to_string()))
            }
            Err(error @ (Error::NoSession { .. } | Error::Transport { .. } | Error::Jail(_))) => {
                self.not_run("internal_error", 0.0, Some(error.to_string()))
            }
        }
    }

    fn not_run(
        &self,
        reason: &'static str,
        cost: f64,
        stderr: Option<String>,
    ) -> SubmissionResult<'_> {
        SubmissionResult {
            sub_id: &self.sub_id,
            success: false,
            run_success: false,
            cost,
            stdout: None,
            stderr,
            reason,
        }
    }

    fn ran(&self, report: &Report, config: &CodeJudgeConfig) -> SubmissionResult<'_> {
        let limit_s = config.execution_ms as f64 / 1e3;
        let mut stdout = report.stdout.text.clone();
        let mut stderr = report.stderr.text.clone();
        let mut cost = report.wall_us as f64 / 1e6;
        let mut reason = "";
        match &report.outcome {
            Outcome::Ok | Outcome::Exit { .. } | Outcome::Exception { .. } => {}
            Outcome::Timeout => {
                stdout.push_str(TIMEOUT_NOTICE);
                cost = cost.max(limit_s);
                reason = "worker_timeout";
            }
            Outcome::Infrastructure { cause } => {
                return self.not_run("internal_error", 0.0, Some(cause.clone()));
            }
            Outcome::Cancelled => {
                return self.not_run("internal_error", 0.0, Some("the call was cancelled".into()));
            }
            stopped @ (Outcome::Signal { .. }
            | Outcome::CpuLimit
            | Outcome::MemoryLimit
            | Outcome::OutputLimit { .. }
            | Outcome::ProcessLimit
            | Outcome::FileLimit
            | Outcome::TmpLimit
            | Outcome::Denied { .. }) => {
                // The schema has no field for it, and the clients show stderr.
                stderr.insert_str(0, &format!("[stopped: {}]\n", stopped.name()));
                if cost >= limit_s {
                    reason = "worker_timeout";
                }
            }
        }
        let run_success = report.outcome.is_success();
        SubmissionResult {
            sub_id: &self.sub_id,
            success: run_success && self.is_expected(report),
            run_success,
            cost,
            stdout: Some(first_characters(stdout, config.output_characters)),
            stderr: Some(first_characters(stderr, config.output_characters)),
            reason,
        }
    }

    fn is_expected(&self, report: &Report) -> bool {
        self.expected_output.as_ref().is_none_or(|expected| {
            let whole = report.stdout.cut_bytes == 0 && report.stdout.base64.is_none();
            whole && strip(&report.stdout.text) == strip(expected)
        })
    }
}

/// `str.strip()`: Python also counts the four separators below the space as white space.
fn strip(text: &str) -> &str {
    text.trim_matches(|character: char| {
        character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
    })
}

fn first_characters(mut text: String, count: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(count) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::Captured;
    use serde_json::{Value, json};

    use super::*;

    fn prepared(body: &Value) -> (Ticket, Work) {
        let submission = pydantic::model(body.to_string().as_bytes()).unwrap();
        prepare(submission, &CodeJudgeConfig::default(), &ResolvedLimits::MAXIMUM)
    }

    fn result(ticket: &Ticket, ran: &Result<Report>) -> Value {
        let encoded = ticket.encode(ran, &CodeJudgeConfig::default(), Form::Run).unwrap();
        serde_json::from_slice(&encoded).unwrap()
    }

    fn printed(outcome: Outcome, stdout: &str) -> Report {
        let stdout = Captured { text: stdout.into(), ..Captured::default() };
        Report { stdout, wall_us: 4_300, ..Report::without_run(outcome) }
    }

    #[test]
    fn a_submission_becomes_a_request() {
        let (ticket, work) = prepared(&json!({
            "type": "python", "solution": "print(input())", "input": "a", "sub_id": "s",
            "expected_output": "a", "options": {"ignored": "1"}, "unknown": [1],
        }));
        assert_eq!(ticket.sub_id, "s");
        let Work::Run(request) = work else { panic!("not run: {work:?}") };
        let limits = Limits {
            wall_ms: Some(9_980),
            cpu_ms: Some(10_980),
            memory_bytes: Some(384 << 20),
            kept_bytes: Some(ResolvedLimits::MAXIMUM.kept_bytes),
            ..Limits::default()
        };
        let expected =
            Request { stdin: Some(b"a".into()), limits, ..Request::new("print(input())") };
        assert_eq!(request, expected);
    }

    #[test]
    fn an_empty_input_is_none_and_a_missing_name_is_made() {
        let (ticket, work) =
            prepared(&json!({"type": "python", "solution": "", "input": "", "sub_id": ""}));
        assert_eq!(ticket.sub_id.len(), 36);
        let Work::Run(request) = work else { panic!("not run: {work:?}") };
        assert_eq!(request.stdin, None);
    }

    #[test]
    fn the_answer_is_byte_for_byte_code_judges() {
        let (ticket, _) = prepared(&json!({"type": "python", "solution": "", "sub_id": "0a83"}));
        let ran = Ok(printed(Outcome::Ok, "2\n"));
        let config = CodeJudgeConfig::default();
        let encoded =
            |form| String::from_utf8(ticket.encode(&ran, &config, form).unwrap()).unwrap();
        assert_eq!(
            encoded(Form::Run),
            r#"{"sub_id":"0a83","success":true,"run_success":true,"cost":0.0043,"stdout":"2\n","stderr":"","reason":""}"#
        );
        assert_eq!(
            encoded(Form::Judge),
            r#"{"sub_id":"0a83","success":true,"run_success":true,"cost":0.0043,"reason":""}"#
        );
    }

    #[test]
    fn success_compares_the_whole_stripped_output() {
        let (ticket, _) = prepared(&json!({
            "type": "python", "solution": "", "sub_id": "s", "expected_output": "  a\n",
        }));
        for (report, expected) in [
            (printed(Outcome::Ok, "a\n\n"), (true, true)),
            (printed(Outcome::Exit { code: 0 }, "a"), (true, true)),
            (printed(Outcome::Ok, "b"), (true, false)),
            (printed(Outcome::Exit { code: 1 }, "a"), (false, false)),
        ] {
            let result = result(&ticket, &Ok(report));
            assert_eq!((result["run_success"] == true, result["success"] == true), expected);
        }
        let mut cut = printed(Outcome::Ok, "a");
        cut.stdout.cut_bytes = 1;
        assert_eq!(result(&ticket, &Ok(cut))["success"], false);
    }

    #[test]
    fn what_went_wrong_has_its_reason() {
        let (ticket, _) = prepared(&json!({"type": "python", "solution": "", "sub_id": "s"}));
        let of = |ran| {
            let result = result(&ticket, &ran);
            (result["reason"].clone(), result["cost"].clone(), result["stdout"].clone())
        };
        let time_out = of(Ok(printed(Outcome::Timeout, "so far\n")));
        assert_eq!(
            time_out,
            (json!("worker_timeout"), json!(10.0), json!("so far\nSuicide from timeout.\n"))
        );
        let infrastructure = Outcome::Infrastructure { cause: "gone".into() };
        assert_eq!(
            of(Ok(printed(infrastructure, ""))),
            (json!("internal_error"), json!(0.0), json!(null))
        );
        assert_eq!(
            of(Err(Error::DeadlinePassed { waited_ms: 4_000 })),
            (json!("queue_timeout"), json!(4.0), json!(null))
        );
        let full = Error::Full { queued: 1, capacity: 1, retry_after_s: 1 };
        assert_eq!(of(Err(full)), (json!("queue_timeout"), json!(0.0), json!(null)));
        assert_eq!(
            of(Ok(printed(Outcome::MemoryLimit, ""))),
            (json!(""), json!(0.0043), json!(""))
        );
    }

    #[test]
    fn what_cannot_run_is_answered_without_a_run() {
        let (ticket, work) = prepared(&json!({"type": "cpp", "solution": "int main(){}"}));
        let Work::Known(known) = work else { panic!("run: {work:?}") };
        assert_eq!(result(&ticket, &known)["reason"], "internal_error");
        let (ticket, work) = prepared(&json!({"type": "python", "solution": "a\u{0}b"}));
        let Work::Known(known) = work else { panic!("run: {work:?}") };
        assert_eq!(result(&ticket, &known)["reason"], "invalid_input");
    }

    #[test]
    fn output_is_cut_to_the_first_characters() {
        let (ticket, _) = prepared(&json!({"type": "python", "solution": ""}));
        let long = "é".repeat(1_001);
        let result = result(&ticket, &Ok(printed(Outcome::Ok, &long)));
        assert_eq!(result["stdout"].as_str().unwrap(), "é".repeat(1_000));
    }

    #[test]
    fn refusals_are_pydantics() {
        let refused =
            |body: &str| pydantic::model::<BatchSubmission>(body.as_bytes()).unwrap_err().detail;
        assert_eq!(
            refused(r#"{"submissions":[{"type":"python"}]}"#),
            json!([{
                "type": "missing", "loc": ["body", "submissions", 0, "solution"],
                "msg": "Field required", "input": {"type": "python"},
            }])
        );
        assert_eq!(
            refused(r#"{"submissions":[{"type":"rust","solution":""}]}"#),
            json!([{
                "type": "literal_error", "loc": ["body", "submissions", 0, "type"],
                "msg": "Input should be 'python', 'cpp' or 'math'", "input": "rust",
                "ctx": {"expected": "'python', 'cpp' or 'math'"},
            }])
        );
        assert_eq!(
            refused(r#"{"submissions":[]}"#),
            json!([{
                "type": "too_short", "loc": ["body", "submissions"],
                "msg": "List should have at least 1 item after validation, not 0", "input": [],
            }])
        );
        assert_eq!(
            refused(r#"{"submissions":[{"type":"python","solution":7}]}"#),
            json!([{
                "type": "string_type", "loc": ["body", "submissions", 0, "solution"],
                "msg": "Input should be a valid string", "input": 7,
            }])
        );
        assert_eq!(refused("{")[0]["type"], "json_invalid");
        assert_eq!(refused("")[0]["type"], "missing");
    }
}
