//! `POST /submit`: a completion, judged by the row that comes with it.
//!
//! CommonOJ runs the program on each case's stdin and compares stdout line by line; AutoEval appends
//! the row's test code to the program and asks whether that ran well. Rows come in
//! `config.provided_data` only: there is no database here, and `custom_extract_logic`, which is
//! Python that SandboxFusion executes in its own process, is refused.

mod row;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::pydantic::{self, Refusal, Word};
use super::super::{App, guard};
use super::run_code::{self, RunCodeRequest, RunCodeResponse};
use super::{RunStatus, extract};
use crate::ClientId;
use row::{AutoTest, Case, Config};

/// Seconds for one run of an interpreted program where the request names none.
const RUN_TIMEOUT_S: f64 = 20.0;

#[derive(Debug, Deserialize)]
struct SubmitRequest {
    dataset: String,
    id: Id,
    completion: String,
    config: Config,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

/// The answer; the order of the fields is SandboxFusion's.
#[derive(Debug, Serialize)]
pub(super) struct EvalResult {
    id: Id,
    accepted: bool,
    extracted_code: String,
    full_code: Option<String>,
    test_code: Option<String>,
    tests: Vec<EvalTestCase>,
    extracted_type: Option<&'static str>,
    extra: Option<Value>,
}

#[derive(Debug, Serialize)]
struct EvalTestCase {
    passed: bool,
    exec_info: RunCodeResponse,
    test_info: Option<Case>,
}

/// How a row is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dataset {
    CommonOj,
    AutoEval,
}

impl Dataset {
    fn of(request: &SubmitRequest) -> Result<Self, Refusal> {
        // The one data set name that SandboxFusion itself gives to CommonOJ.
        if request.dataset == "code_contests" {
            return Ok(Self::CommonOj);
        }
        match request.config.dataset_type.as_deref() {
            Some("CommonOJDataset") => Ok(Self::CommonOj),
            Some("AutoEvalDataset") => Ok(Self::AutoEval),
            Some(other) => Err(bad_request(format!("eval class {other} not found"))),
            None => {
                let dataset = &request.dataset;
                Err(bad_request(format!("no eval class found for dataset {dataset}")))
            }
        }
    }
}

fn bad_request(detail: impl Into<Value>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, detail)
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Json<EvalResult>, Refusal> {
    pydantic::require_json(&parts.headers)?;
    let request: SubmitRequest = app.read_batch(body, pydantic::model).await?;
    let client = guard::client(&parts)?;
    let dataset = Dataset::of(&request)?;
    if request.config.custom_extract_logic.is_some() {
        return Err(bad_request("config.custom_extract_logic is not supported by this server"));
    }
    let result = match dataset {
        Dataset::CommonOj => common_oj(&app, &client, request).await?,
        Dataset::AutoEval => auto_eval(&app, &client, request).await?,
    };
    Ok(Json(result))
}

/// The program that a body's completion holds and the number of its cases; the way in for the fuzz
/// targets.
///
/// # Errors
/// The status of the refusal.
#[doc(hidden)]
pub fn planned(body: &[u8]) -> Result<(String, usize), StatusCode> {
    let read = || {
        let request: SubmitRequest = pydantic::model(body)?;
        let row = request.config.row()?;
        let program = extract::program(&request.completion);
        match Dataset::of(&request)? {
            Dataset::CommonOj => {
                let cases = row.cases()?;
                for case in &cases {
                    case.stdin()?;
                    row::same_lines(&program, case.stdout()?);
                    case.clone().shortened();
                }
                Ok((program, cases.len()))
            }
            Dataset::AutoEval => {
                row.labels()?;
                let code = extract::without_entry_point(&program);
                Ok((row::with_test(&code, &row.auto_test()?.code, true), 1))
            }
        }
    };
    read().map_err(|refusal: Refusal| refusal.status)
}

async fn common_oj(
    app: &App,
    client: &ClientId,
    request: SubmitRequest,
) -> Result<EvalResult, Refusal> {
    let SubmitRequest { id, completion, config, .. } = request;
    let Some(language) = config.language else {
        return Err(bad_request("config.language field must exist for CommonOJDataset, got None"));
    };
    require_python(language.0)?;
    let cases = config.row()?.cases()?;
    let code = extract::program(&completion);
    let run_timeout = config.run_timeout_or(RUN_TIMEOUT_S);
    let keep_all = config.extra.return_full_case;

    let at_once = app.config.sandbox_fusion.cases_at_once;
    let mut running = stream::iter(cases)
        .map(|case| judge(app, client, &code, case, run_timeout, keep_all))
        .buffered(at_once);
    let mut tests = Vec::new();
    // Dropping what still runs cancels it.
    while let Some(test) = running.next().await {
        let test = test?;
        let passed = test.passed;
        tests.push(test);
        if !passed && !config.extra.run_all_cases {
            break;
        }
    }
    drop(running);
    Ok(EvalResult {
        id,
        accepted: tests.iter().all(|test| test.passed),
        extracted_code: code,
        full_code: None,
        test_code: None,
        tests,
        extracted_type: None,
        extra: None,
    })
}

async fn judge(
    app: &App,
    client: &ClientId,
    code: &str,
    case: Case,
    run_timeout: f64,
    keep_all: bool,
) -> Result<EvalTestCase, Refusal> {
    let stdin = case.stdin()?.to_owned();
    let request = RunCodeRequest { stdin: Some(stdin), ..python(code.to_owned(), run_timeout) };
    let response = run(app, client, request).await?;
    let printed = response.run_result.as_ref().and_then(|run| run.stdout.as_deref());
    let passed = response.status == RunStatus::Success
        && row::same_lines(printed.unwrap_or_default(), case.stdout()?);
    let test_info = if passed && !keep_all { case.shortened() } else { case };
    Ok(EvalTestCase { passed, exec_info: response, test_info: Some(test_info) })
}

async fn auto_eval(
    app: &App,
    client: &ClientId,
    request: SubmitRequest,
) -> Result<EvalResult, Refusal> {
    let SubmitRequest { id, completion, config, .. } = request;
    let row = config.row()?;
    let labels = row.labels()?;
    require_python(&labels.programming_language)?;
    require_python(labels.execution_language.as_deref().unwrap_or("python"))?;
    let AutoTest { code: test_code, asset } = row.auto_test()?;

    let code = extract::without_entry_point(&extract::program(&completion));
    let mut full_code = row::with_test(&code, &test_code, config.extra.repr_code);
    // A program that ends early, with status 0, has not passed: the last line must be reached.
    let flag = config.extra.append_flag.then(|| Uuid::new_v4().simple().to_string());
    if let Some(flag) = &flag {
        full_code.push_str(&format!("\n\nprint(\"{flag}\")"));
    }
    let run_timeout = config.run_timeout_or(RUN_TIMEOUT_S);
    let request = RunCodeRequest { files: asset, ..python(full_code.clone(), run_timeout) };
    let response = run(app, client, request).await?;
    let printed = response.run_result.as_ref().and_then(|run| run.stdout.as_deref());
    let reached = flag.is_none_or(|flag| printed.is_some_and(|text| text.contains(&flag)));
    let accepted = response.status == RunStatus::Success && reached;
    Ok(EvalResult {
        id,
        accepted,
        extracted_code: code,
        full_code: Some(full_code),
        test_code: None,
        tests: vec![EvalTestCase { passed: accepted, exec_info: response, test_info: None }],
        extracted_type: None,
        extra: Some(json!({})),
    })
}

fn python(code: String, run_timeout: f64) -> RunCodeRequest {
    RunCodeRequest {
        run_timeout,
        memory_limit_mb: 0,
        code,
        stdin: None,
        language: Word("python"),
        files: Default::default(),
        fetch_files: Vec::new(),
    }
}

/// Runs one program of a submission. That this server failed is no verdict on it.
async fn run(
    app: &App,
    client: &ClientId,
    request: RunCodeRequest,
) -> Result<RunCodeResponse, Refusal> {
    let response = run_code::run(app, client, request).await?;
    if response.status == RunStatus::SandboxError {
        let detail = format!("Failed to check stdio test case: {}", response.message);
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, detail));
    }
    Ok(response)
}

fn require_python(language: &str) -> Result<(), Refusal> {
    if language == "python" {
        return Ok(());
    }
    Err(bad_request(format!("this server runs Python only, not `{language}`")))
}
