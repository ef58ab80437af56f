//! `POST /run_code`: one program, answered with its exit status and output.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use rocstar_jail::{Outcome, Report, Request, ResolvedLimits};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::pydantic::{self, Refusal, Word};
use super::super::{App, guard};
use super::{
    CommandRunResult, CommandStatus, RunStatus, SandboxFusionConfig, fetchable, fetched_files,
    input_files, limits, retry_or_words, seconds,
};
use crate::{ClientId, Error, Schedule};

/// What SandboxFusion knows; this server runs the first.
const LANGUAGES: &[&str] = &[
    "python",
    "cpp",
    "nodejs",
    "go",
    "go_test",
    "java",
    "php",
    "csharp",
    "bash",
    "typescript",
    "sql",
    "rust",
    "cuda",
    "lua",
    "R",
    "perl",
    "D_ut",
    "ruby",
    "scala",
    "julia",
    "pytest",
    "junit",
    "kotlin_script",
    "jest",
    "verilog",
    "python_gpu",
    "lean",
    "swift",
    "racket",
];

#[derive(Debug, Deserialize)]
pub(super) struct RunCodeRequest {
    #[serde(default = "ten_seconds", deserialize_with = "pydantic::float")]
    pub(super) run_timeout: f64,
    #[serde(rename = "memory_limit_MB", default, deserialize_with = "pydantic::integer")]
    pub(super) memory_limit_mb: i64,
    pub(super) code: String,
    #[serde(default)]
    pub(super) stdin: Option<String>,
    #[serde(deserialize_with = "language")]
    pub(super) language: Word,
    #[serde(default)]
    pub(super) files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub(super) fetch_files: Vec<String>,
}

fn ten_seconds() -> f64 {
    10.0
}

pub(super) fn language<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    pydantic::literal(deserializer, LANGUAGES)
}

/// The answer; the order of the fields is SandboxFusion's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RunCodeResponse {
    pub(super) status: RunStatus,
    pub(super) message: String,
    compile_result: Option<CommandRunResult>,
    pub(super) run_result: Option<CommandRunResult>,
    executor_pod_name: Option<String>,
    files: BTreeMap<String, String>,
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Json<RunCodeResponse>, Refusal> {
    pydantic::require_json(&parts.headers)?;
    let request: RunCodeRequest = app.read_call(body, pydantic::model).await?;
    let client = guard::client(&parts)?;
    run(&app, &client, request).await.map(Json)
}

/// Runs one request; what passes by itself is a refusal that clients retry.
pub(super) async fn run(
    app: &App,
    client: &ClientId,
    request: RunCodeRequest,
) -> Result<RunCodeResponse, Refusal> {
    let config = &app.config.sandbox_fusion;
    let request = match plan(request, config, app.maximum_limits()) {
        Ok(request) => request,
        Err(problem) => return Ok(RunCodeResponse::sandbox_error(problem, config)),
    };
    match app.sandbox().execute(client, request, Schedule::default()).await {
        Ok(report) => Ok(RunCodeResponse::from_report(&report, config)),
        Err(Error::Invalid(invalid)) if invalid.field == "program" => {
            Ok(RunCodeResponse::from_report(&unfit(&invalid.problem), config))
        }
        Err(error) => {
            retry_or_words(&error).map(|words| RunCodeResponse::sandbox_error(words, config))
        }
    }
}

/// The call that a body asks for, if it can be run; the way in for the fuzz targets.
///
/// # Errors
/// The status of the refusal.
#[doc(hidden)]
pub fn planned(body: &[u8]) -> Result<Option<Request>, StatusCode> {
    let request = pydantic::model(body).map_err(|refusal| refusal.status)?;
    Ok(plan(request, &SandboxFusionConfig::default(), &ResolvedLimits::MAXIMUM).ok())
}

fn plan(
    request: RunCodeRequest,
    config: &SandboxFusionConfig,
    maximum: &ResolvedLimits,
) -> Result<Request, String> {
    if request.language.0 != "python" {
        return Err(format!("this server runs Python only, not `{}`", request.language.0));
    }
    Ok(Request {
        program: request.code,
        stdin: request.stdin.map(String::into_bytes),
        files: input_files(request.files)?,
        fetch: fetchable(request.fetch_files),
        limits: limits(request.run_timeout, request.memory_limit_mb, config, maximum),
        ..Request::default()
    })
}

/// What Python would have said of a text that is no program, such as one with a NUL byte.
fn unfit(problem: &str) -> Report {
    let (name, message) = ("SyntaxError".to_owned(), problem.to_owned());
    let text = format!("{name}: {message}\n");
    let mut report = Report::without_run(Outcome::Exception { name, line: None, message });
    report.stderr.total_bytes = text.len() as u64;
    report.stderr.text = text;
    report
}

impl RunCodeResponse {
    fn sandbox_error(message: String, config: &SandboxFusionConfig) -> Self {
        Self {
            status: RunStatus::SandboxError,
            message,
            compile_result: None,
            run_result: None,
            executor_pod_name: config.pod_name.clone(),
            files: BTreeMap::new(),
        }
    }

    fn from_report(report: &Report, config: &SandboxFusionConfig) -> Self {
        let run_result = command(report);
        let (status, message) = match run_result.status {
            CommandStatus::Error => {
                (RunStatus::SandboxError, run_result.stderr.clone().unwrap_or_default())
            }
            CommandStatus::TimeLimitExceeded => (RunStatus::Failed, String::new()),
            CommandStatus::Finished if run_result.return_code == Some(0) => {
                (RunStatus::Success, String::new())
            }
            CommandStatus::Finished => (RunStatus::Failed, String::new()),
        };
        Self {
            status,
            message,
            compile_result: None,
            run_result: Some(run_result),
            executor_pod_name: config.pod_name.clone(),
            files: fetched_files(&report.files),
        }
    }
}

/// A report as the process that SandboxFusion would have seen.
fn command(report: &Report) -> CommandRunResult {
    let finished = |return_code| (CommandStatus::Finished, Some(return_code));
    let (status, return_code) = match &report.outcome {
        Outcome::Ok => finished(0),
        Outcome::Exit { code } => finished(*code),
        // Python's status after an exception that nobody caught; the limits that a program meets
        // as an error of a call end it in the same way.
        Outcome::Exception { .. }
        | Outcome::MemoryLimit
        | Outcome::ProcessLimit
        | Outcome::FileLimit
        | Outcome::TmpLimit => finished(1),
        Outcome::Signal { number, .. } => finished(-number),
        // Stopped from outside: SIGKILL, and SIGSYS for a system call that is never allowed.
        Outcome::OutputLimit { .. } => finished(-9),
        Outcome::Denied { .. } => finished(-31),
        Outcome::Timeout | Outcome::CpuLimit => (CommandStatus::TimeLimitExceeded, None),
        Outcome::Infrastructure { cause } => return not_run(cause.clone()),
        Outcome::Cancelled => return not_run("the call was cancelled".to_owned()),
    };
    CommandRunResult {
        status,
        execution_time: Some(seconds(report)),
        return_code,
        stdout: Some(report.stdout.text.clone()),
        stderr: Some(stderr(report)),
    }
}

fn not_run(cause: String) -> CommandRunResult {
    CommandRunResult {
        status: CommandStatus::Error,
        execution_time: None,
        return_code: None,
        stdout: None,
        stderr: Some(cause),
    }
}

/// Standard error, with a line for a limit that the exit status can't express.
fn stderr(report: &Report) -> String {
    let text = &report.stderr.text;
    match &report.outcome {
        Outcome::CpuLimit
        | Outcome::MemoryLimit
        | Outcome::ProcessLimit
        | Outcome::FileLimit
        | Outcome::TmpLimit
        | Outcome::OutputLimit { .. }
        | Outcome::Denied { .. } => format!("{text}[stopped: {}]\n", report.outcome.name()),
        Outcome::Ok
        | Outcome::Exit { .. }
        | Outcome::Exception { .. }
        | Outcome::Signal { .. }
        | Outcome::Timeout
        | Outcome::Cancelled
        | Outcome::Infrastructure { .. } => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::{Captured, FetchedFile, InputFile, Limits};
    use serde_json::{Value, json};

    use super::*;

    fn planned(body: &Value) -> Result<Request, String> {
        let request = pydantic::model(body.to_string().as_bytes()).unwrap();
        plan(request, &SandboxFusionConfig::default(), &ResolvedLimits::MAXIMUM)
    }

    fn answered(report: &Report) -> Value {
        let response = RunCodeResponse::from_report(report, &SandboxFusionConfig::default());
        serde_json::to_value(response).unwrap()
    }

    fn printed(outcome: Outcome, stdout: &str) -> Report {
        let stdout = Captured { text: stdout.into(), ..Captured::default() };
        Report { stdout, wall_us: 33_000, ..Report::without_run(outcome) }
    }

    #[test]
    fn verls_request_becomes_a_jail_request() {
        let request = planned(&json!({
            "compile_timeout": 10, "run_timeout": 10, "code": "print(1)", "stdin": "None",
            "memory_limit_MB": 1024, "language": "python", "files": {}, "fetch_files": [],
        }));
        let limits = Limits {
            wall_ms: Some(10_000),
            cpu_ms: Some(21_000),
            memory_bytes: Some(1 << 30),
            kept_bytes: Some(1 << 20),
            ..Limits::default()
        };
        let expected = Request { stdin: Some(b"None".into()), limits, ..Request::new("print(1)") };
        assert_eq!(request.unwrap(), expected);
    }

    #[test]
    fn numbers_are_taken_as_pydantic_takes_them() {
        let request = planned(&json!({
            "run_timeout": "0.1", "memory_limit_MB": 5.0, "code": "", "language": "python",
        }));
        let limits = request.unwrap().limits;
        assert_eq!((limits.wall_ms, limits.memory_bytes), (Some(100), Some(5 << 20)));
        let unlimited = planned(&json!({"code": "", "language": "python", "run_timeout": -1}));
        let limits = unlimited.unwrap().limits;
        assert_eq!((limits.wall_ms, limits.memory_bytes), (Some(1), Some(4 << 30)));
        let refused = |body: Value| {
            let refusal =
                pydantic::model::<RunCodeRequest>(body.to_string().as_bytes()).unwrap_err();
            (refusal.detail[0]["type"].clone(), refusal.detail[0]["loc"].clone())
        };
        assert_eq!(
            refused(json!({"code": "", "language": "python", "run_timeout": "soon"})),
            (json!("float_parsing"), json!(["body", "run_timeout"]))
        );
        assert_eq!(
            refused(json!({"code": "", "language": "python", "memory_limit_MB": 1.5})),
            (json!("int_from_float"), json!(["body", "memory_limit_MB"]))
        );
        assert_eq!(
            refused(json!({"code": "", "language": "cobol"})),
            (json!("literal_error"), json!(["body", "language"]))
        );
        assert_eq!(
            refused(json!({"code": "", "language": "python", "files": {"a": 1}})),
            (json!("string_type"), json!(["body", "files", "a"]))
        );
        assert_eq!(
            refused(json!({"code": "", "language": "python", "run_timeout": null})),
            (json!("float_type"), json!(["body", "run_timeout"]))
        );
    }

    #[test]
    fn files_go_in_and_out_in_base64() {
        let request = planned(&json!({
            "code": "", "language": "python",
            "files": {"d/a": "aGk=", "skipped": null, "IGNORE_THIS_FILE_1": "aGk="},
            "fetch_files": ["a.txt", "/mnt/b", "../c", "/tmp/d"],
        }))
        .unwrap();
        assert_eq!(request.files, [InputFile { path: "d/a".into(), content: b"hi".into() }]);
        assert_eq!(request.fetch, ["a.txt", "/tmp/d"]);
        assert!(planned(&json!({"code": "", "language": "python", "files": {"a": "?"}})).is_err());

        let mut report = printed(Outcome::Ok, "");
        let missing =
            FetchedFile { path: "b".into(), content: None, problem: Some("missing".into()) };
        let read = FetchedFile { path: "a".into(), content: Some(b"hi".into()), problem: None };
        report.files = vec![missing, read];
        assert_eq!(answered(&report)["files"], json!({"a": "aGk="}));
    }

    #[test]
    fn the_answer_is_byte_for_byte_sandbox_fusions() {
        let report = printed(Outcome::Ok, "2\n");
        let response = RunCodeResponse::from_report(&report, &SandboxFusionConfig::default());
        assert_eq!(
            serde_json::to_string(&response).unwrap(),
            r#"{"status":"Success","message":"","compile_result":null,"run_result":{"status":"Finished","execution_time":0.033,"return_code":0,"stdout":"2\n","stderr":""},"executor_pod_name":null,"files":{}}"#
        );
    }

    #[test]
    fn each_outcome_has_its_status() {
        let of = |outcome| {
            let answer = answered(&printed(outcome, "so far"));
            let run = &answer["run_result"];
            (
                answer["status"].clone(),
                answer["message"].clone(),
                run["status"].clone(),
                run["return_code"].clone(),
                run["stdout"].clone(),
            )
        };
        let finished = |status: &str, code: i32| {
            (json!(status), json!(""), json!("Finished"), json!(code), json!("so far"))
        };
        assert_eq!(of(Outcome::Exit { code: 0 }), finished("Success", 0));
        assert_eq!(of(Outcome::Exit { code: 3 }), finished("Failed", 3));
        let segfault = Outcome::Signal { number: 11, name: "SIGSEGV".into() };
        assert_eq!(of(segfault), finished("Failed", -11));
        assert_eq!(of(Outcome::MemoryLimit), finished("Failed", 1));
        let time_out =
            (json!("Failed"), json!(""), json!("TimeLimitExceeded"), Value::Null, json!("so far"));
        assert_eq!(of(Outcome::Timeout), time_out);
        let gone = Outcome::Infrastructure { cause: "gone".into() };
        let error =
            (json!("SandboxError"), json!("gone"), json!("Error"), Value::Null, Value::Null);
        assert_eq!(of(gone), error);
    }

    #[test]
    fn other_languages_have_no_runner() {
        let problem = planned(&json!({"code": "", "language": "rust"})).unwrap_err();
        assert!(problem.contains("`rust`"), "{problem}");
    }
}
