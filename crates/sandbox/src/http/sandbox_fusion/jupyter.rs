//! `POST /run_jupyter`: cells in one fresh session, which ends with the request.
//!
//! A cell that fails does not stop the later ones. A client that goes away cancels the running cell;
//! the session then ends by its idle limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use rocstar_jail::{InputFile, Outcome, Report, Request};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::pydantic::{self, Refusal, Word};
use super::super::{App, guard};
use super::{
    CommandRunResult, CommandStatus, RunStatus, fetchable, fetched_files, input_files, limits,
    retry_or_words, seconds,
};
use crate::{ClientId, Error, SessionId, SessionOptions};

/// A session left behind by a client that went away ends after this long.
const IDLE_MS: u64 = 1_000;
/// Where Python's text of an uncaught exception begins.
const TRACEBACK: &str = "Traceback (most recent call last):";

#[derive(Debug, Deserialize)]
struct RunJupyterRequest {
    cells: Vec<String>,
    #[serde(default, deserialize_with = "pydantic::float")]
    cell_timeout: f64,
    #[serde(default = "forty_five_seconds", deserialize_with = "pydantic::float")]
    total_timeout: f64,
    #[serde(rename = "memory_limit_MB", default, deserialize_with = "pydantic::integer")]
    memory_limit_mb: i64,
    #[serde(rename = "kernel", default, deserialize_with = "kernel")]
    _kernel: Word,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    fetch_files: Vec<String>,
}

fn forty_five_seconds() -> f64 {
    45.0
}

fn kernel<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    pydantic::literal(deserializer, &["python3"])
}

/// The answer; the order of the fields is SandboxFusion's.
#[derive(Debug, Serialize)]
pub(super) struct RunJupyterResponse {
    status: RunStatus,
    message: String,
    driver: Option<CommandRunResult>,
    cells: Vec<CellResult>,
    executor_pod_name: Option<String>,
    files: BTreeMap<String, String>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
struct CellResult {
    stdout: String,
    stderr: String,
    display: Vec<BTreeMap<&'static str, String>>,
    error: Vec<CellError>,
}

#[derive(Debug, PartialEq, Serialize)]
struct CellError {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

/// How the cells ended, beside their results.
#[derive(Debug, PartialEq)]
enum End {
    /// All were run.
    Finished,
    /// The total time was over.
    OutOfTime,
    /// A cell ended the interpreter.
    Died(String),
    /// This server failed.
    Broken(String),
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Json<RunJupyterResponse>, Refusal> {
    pydantic::require_json(&parts.headers)?;
    let request: RunJupyterRequest = app.read_call(body, pydantic::model).await?;
    let client = guard::client(&parts)?;
    let mut notebook =
        Notebook { app: &app, client: &client, cells: Vec::new(), files: BTreeMap::new() };
    let started = Instant::now();
    let end = notebook.run(request).await?;
    Ok(Json(notebook.answer(end, started.elapsed())))
}

/// The cells of a body; the way in for the fuzz targets.
///
/// # Errors
/// The status of the refusal.
#[doc(hidden)]
pub fn planned(body: &[u8]) -> Result<Vec<String>, StatusCode> {
    let request: RunJupyterRequest = pydantic::model(body).map_err(|refusal| refusal.status)?;
    Ok(request.cells)
}

/// One request in the course of being answered.
struct Notebook<'a> {
    app: &'a App,
    client: &'a ClientId,
    cells: Vec<CellResult>,
    files: BTreeMap<String, String>,
}

impl Notebook<'_> {
    async fn run(&mut self, request: RunJupyterRequest) -> Result<End, Refusal> {
        let files = request.files.iter().map(|(path, text)| (path.clone(), Some(text.clone())));
        let files = match input_files(files) {
            Ok(files) => files,
            Err(problem) => return Ok(End::Broken(problem)),
        };
        let session = match self.open(&request).await {
            Ok(session) => session,
            Err(error) => return retry_or_words(&error).map(End::Broken),
        };
        let end = self.run_in(&session, &request, files).await;
        // Whether it was there to be closed says nothing new: the cells have told how it ended.
        let _ = self.app.sandbox().close_session(self.client, &session).await;
        end
    }

    async fn open(&self, request: &RunJupyterRequest) -> crate::Result<SessionId> {
        let options = SessionOptions {
            idle_ms: Some(IDLE_MS),
            limits: self.limits(request, request.total_timeout),
            ..SessionOptions::default()
        };
        self.app.sandbox().open_session(self.client, options).await
    }

    async fn run_in(
        &mut self,
        session: &SessionId,
        request: &RunJupyterRequest,
        files: Vec<InputFile>,
    ) -> Result<End, Refusal> {
        if !files.is_empty() {
            let setup = Request { files, ..Request::default() };
            if let Err(error) = self.execute(session, setup).await {
                return retry_or_words(&error).map(End::Broken);
            }
        }
        let end = self.run_cells(session, request).await?;
        let fetch = fetchable(request.fetch_files.clone());
        if end != End::Finished || fetch.is_empty() {
            return Ok(end);
        }
        let fetching = Request { fetch, ..Request::default() };
        match self.execute(session, fetching).await {
            Ok(report) => self.files = fetched_files(&report.files),
            Err(Error::NoSession { cause, .. }) => return Ok(End::Died(cause)),
            Err(error) => return retry_or_words(&error).map(End::Broken),
        }
        Ok(End::Finished)
    }

    /// Only the time that cells run counts: waiting for a turn is not the program's doing.
    async fn run_cells(
        &mut self,
        session: &SessionId,
        request: &RunJupyterRequest,
    ) -> Result<End, Refusal> {
        let mut left_s = request.total_timeout;
        for cell in &request.cells {
            if left_s <= 0.0 {
                return Ok(End::OutOfTime);
            }
            let own_limit = request.cell_timeout > 0.0 && request.cell_timeout < left_s;
            let limit_s = if own_limit { request.cell_timeout } else { left_s };
            let run = Request {
                last_expression: true,
                limits: self.limits(request, limit_s),
                ..Request::new(cell.as_str())
            };
            let report = match self.execute(session, run).await {
                Ok(report) => report,
                Err(Error::Invalid(invalid)) if invalid.field == "program" => {
                    self.cells.push(CellResult::unfit(invalid.problem));
                    continue;
                }
                Err(Error::NoSession { cause, .. }) if !self.cells.is_empty() => {
                    return Ok(End::Died(cause));
                }
                Err(error) => return retry_or_words(&error).map(End::Broken),
            };
            if let Outcome::Infrastructure { cause } = &report.outcome {
                return Ok(End::Broken(cause.clone()));
            }
            if report.outcome == Outcome::Cancelled {
                return Ok(End::Broken("the cell was cancelled".to_owned()));
            }
            self.cells.push(CellResult::from_report(&report));
            if report.outcome == Outcome::Timeout && !own_limit {
                return Ok(End::OutOfTime);
            }
            left_s -= seconds(&report);
        }
        Ok(End::Finished)
    }

    async fn execute(&self, session: &SessionId, request: Request) -> crate::Result<Report> {
        self.app.sandbox().execute_in_session(self.client, session, request).await
    }

    fn limits(&self, request: &RunJupyterRequest, timeout_s: f64) -> rocstar_jail::Limits {
        let config = &self.app.config.sandbox_fusion;
        limits(timeout_s, request.memory_limit_mb, config, self.app.maximum_limits())
    }

    fn answer(self, end: End, took: Duration) -> RunJupyterResponse {
        let driver = |status, return_code| {
            Some(CommandRunResult {
                status,
                execution_time: Some(took.as_secs_f64()),
                return_code,
                stdout: Some(String::new()),
                stderr: Some(String::new()),
            })
        };
        let (status, message, driver) = match end {
            End::Finished => {
                (RunStatus::Success, String::new(), driver(CommandStatus::Finished, Some(0)))
            }
            End::OutOfTime => {
                (RunStatus::Failed, String::new(), driver(CommandStatus::TimeLimitExceeded, None))
            }
            End::Died(cause) => {
                (RunStatus::Failed, cause, driver(CommandStatus::Finished, Some(1)))
            }
            End::Broken(cause) => (RunStatus::SandboxError, cause, None),
        };
        RunJupyterResponse {
            status,
            message,
            driver,
            cells: self.cells,
            executor_pod_name: self.app.config.sandbox_fusion.pod_name.clone(),
            files: self.files,
        }
    }
}

impl CellResult {
    fn from_report(report: &Report) -> Self {
        let (stderr, error) = match &report.outcome {
            Outcome::Ok => (report.stderr.text.clone(), None),
            Outcome::Exception { name, message, .. } => {
                let (stderr, traceback) = split_traceback(&report.stderr.text);
                // Jupyter names a class without its module.
                let ename = name.rsplit('.').next().unwrap_or_default().to_owned();
                let error = CellError { ename, evalue: message.clone(), traceback };
                (stderr.to_owned(), Some(error))
            }
            other => (report.stderr.text.clone(), Some(CellError::stopped(other))),
        };
        let display = report.value.clone().map(|value| BTreeMap::from([("text/plain", value)]));
        Self {
            stdout: report.stdout.text.clone(),
            stderr,
            display: display.into_iter().collect(),
            error: error.into_iter().collect(),
        }
    }

    /// A cell that is no Python source.
    fn unfit(problem: String) -> Self {
        let error =
            CellError { ename: "SyntaxError".to_owned(), evalue: problem, traceback: Vec::new() };
        Self { error: vec![error], ..Self::default() }
    }
}

impl CellError {
    fn stopped(outcome: &Outcome) -> Self {
        let (ename, evalue) = match outcome {
            Outcome::Exit { code } => ("SystemExit", code.to_string()),
            Outcome::Timeout => ("KeyboardInterrupt", "the time for this cell is over".to_owned()),
            Outcome::MemoryLimit => ("MemoryError", outcome.name().to_owned()),
            Outcome::Ok
            | Outcome::Exception { .. }
            | Outcome::Signal { .. }
            | Outcome::CpuLimit
            | Outcome::OutputLimit { .. }
            | Outcome::ProcessLimit
            | Outcome::FileLimit
            | Outcome::TmpLimit
            | Outcome::Denied { .. }
            | Outcome::Cancelled
            | Outcome::Infrastructure { .. } => ("Stopped", outcome.name().to_owned()),
        };
        Self { ename: ename.to_owned(), evalue, traceback: Vec::new() }
    }
}

/// What the cell wrote itself, and the interpreter's account of the exception behind it.
fn split_traceback(stderr: &str) -> (&str, Vec<String>) {
    let at_line_start =
        |&(position, _): &(usize, &str)| position == 0 || stderr[..position].ends_with('\n');
    let start = stderr.match_indices(TRACEBACK).find(at_line_start);
    let (own, traceback) = stderr.split_at(start.map_or(0, |(position, _)| position));
    (own, traceback.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::Captured;
    use serde_json::json;

    use super::*;

    fn cell(outcome: Outcome, stderr: &str) -> serde_json::Value {
        let stderr = Captured { text: stderr.into(), ..Captured::default() };
        let report = Report { stderr, ..Report::without_run(outcome) };
        serde_json::to_value(CellResult::from_report(&report)).unwrap()
    }

    #[test]
    fn a_value_is_displayed() {
        let report = Report { value: Some("'hello'".into()), ..Report::without_run(Outcome::Ok) };
        assert_eq!(
            serde_json::to_string(&CellResult::from_report(&report)).unwrap(),
            r#"{"stdout":"","stderr":"","display":[{"text/plain":"'hello'"}],"error":[]}"#
        );
    }

    #[test]
    fn an_exception_is_taken_out_of_stderr() {
        let outcome = Outcome::Exception {
            name: "json.decoder.JSONDecodeError".into(),
            line: Some(1),
            message: "Expecting value".into(),
        };
        let stderr =
            "own\nTraceback (most recent call last):\n  File\nJSONDecodeError: Expecting value\n";
        assert_eq!(
            cell(outcome, stderr),
            json!({
                "stdout": "", "stderr": "own\n", "display": [],
                "error": [{
                    "ename": "JSONDecodeError", "evalue": "Expecting value",
                    "traceback": [
                        "Traceback (most recent call last):", "  File",
                        "JSONDecodeError: Expecting value",
                    ],
                }],
            })
        );
    }

    #[test]
    fn a_stopped_cell_says_so() {
        let error = |outcome| cell(outcome, "")["error"][0]["ename"].clone();
        assert_eq!(error(Outcome::Timeout), "KeyboardInterrupt");
        assert_eq!(error(Outcome::Exit { code: 1 }), "SystemExit");
        assert_eq!(error(Outcome::Denied { what: "ptrace".into() }), "Stopped");
    }
}
