//! SandboxFusion's routes, for Python, on the wire as its clients know them.
//!
//! `POST /run_code`, `/run_jupyter`, `/submit`; `GET /v1/ping`. After validation, `/run_code` and
//! `/run_jupyter` answer HTTP 200 with a `status`, as SandboxFusion does, with one exception: where
//! this server is full or going down they answer 504 with `Retry-After`, the status that its clients
//! retry, since a `SandboxError` would be taken for the program's failure. Other differences, each
//! within the same schema:
//!
//! - a file with an absolute path outside `/tmp` is a `SandboxError`, and a fetched path outside it
//!   is left out like a missing one: the program has nothing but its private `/tmp`;
//! - output is kept to the configured size with a marked cut, and is never lost; bytes that are not
//!   UTF-8 are escaped;
//! - `/run_jupyter` keeps to `cell_timeout` and `total_timeout`, and keeps the cells that were done;
//! - languages other than Python are a `SandboxError`, the form that SandboxFusion gives for one
//!   without a runner.
//!
//! Invariant: what this server failed at is never given as a verdict on the program.

mod extract;
mod jupyter;
mod run_code;
mod submit;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rocstar_jail::{FetchedFile, InputFile, Limits, Report, ResolvedLimits};
use serde::{Deserialize, Serialize};

use super::App;
use super::pydantic::Refusal;
use crate::Error;

#[doc(hidden)]
pub use {
    jupyter::planned as planned_cells, run_code::planned as planned_call,
    submit::planned as planned_submission,
};

/// Limits of SandboxFusion's routes where a request names none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxFusionConfig {
    /// Memory of a program whose `memory_limit_MB` is not above 0, in bytes. SandboxFusion's
    /// isolated mode gives every program this much.
    pub memory_bytes: u64,
    /// Bytes kept of stdout and of stderr.
    pub kept_bytes: u64,
    /// Test cases of one submission that run at once.
    pub cases_at_once: usize,
    /// What answers carry as `executor_pod_name`.
    pub pod_name: Option<String>,
}

impl Default for SandboxFusionConfig {
    fn default() -> Self {
        Self { memory_bytes: 4 << 30, kept_bytes: 1 << 20, cases_at_once: 3, pod_name: None }
    }
}

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/ping", get(|| async { Json("pong") }))
        .route("/run_code", post(run_code::handle))
        .route("/run_jupyter", post(jupyter::handle))
        .route("/submit", post(submit::handle))
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum RunStatus {
    Success,
    Failed,
    SandboxError,
}

/// How one process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum CommandStatus {
    Finished,
    Error,
    TimeLimitExceeded,
}

/// One process; the order of the fields is SandboxFusion's.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CommandRunResult {
    status: CommandStatus,
    execution_time: Option<f64>,
    return_code: Option<i32>,
    stdout: Option<String>,
    stderr: Option<String>,
}

/// Limits of one run of `timeout_s` seconds.
fn limits(
    timeout_s: f64,
    memory_limit_mb: i64,
    config: &SandboxFusionConfig,
    maximum: &ResolvedLimits,
) -> Limits {
    // A float-to-integer cast saturates; a time-out of 0 or less ends the program at once.
    let wall_ms = ((timeout_s * 1e3).ceil() as u64).max(1);
    let memory_bytes = match u64::try_from(memory_limit_mb) {
        Ok(mebibytes @ 1..) => mebibytes.saturating_mul(1 << 20),
        Ok(0) | Err(_) => config.memory_bytes.min(maximum.memory_bytes),
    };
    Limits {
        wall_ms: Some(wall_ms),
        // SandboxFusion limits wall time only: this lets two threads run all the time.
        cpu_ms: Some(wall_ms.saturating_mul(2).saturating_add(1_000).min(maximum.cpu_ms)),
        memory_bytes: Some(memory_bytes),
        kept_bytes: Some(config.kept_bytes.min(maximum.kept_bytes)),
        ..Limits::default()
    }
}

/// Files to write, from base64. A file without content, or marked to be ignored, is skipped.
fn input_files(
    files: impl IntoIterator<Item = (String, Option<String>)>,
) -> Result<Vec<InputFile>, String> {
    let wanted = files.into_iter().filter_map(|(path, content)| match content {
        Some(content) if !path.contains("IGNORE_THIS_FILE") => Some((path, content)),
        Some(_) | None => None,
    });
    wanted
        .map(|(path, content)| match STANDARD.decode(content) {
            Ok(content) => Ok(InputFile { path, content }),
            Err(error) => Err(format!("files[{path:?}]: invalid base64: {error}")),
        })
        .collect()
}

/// Paths that can exist inside the private directory; the others can't and are left out, as missing
/// files are.
fn fetchable(paths: Vec<String>) -> Vec<String> {
    let inside = |path: &String| rocstar_jail::inside_private_directory(path).is_ok();
    paths.into_iter().filter(inside).collect()
}

/// Files read back, in base64.
fn fetched_files(files: &[FetchedFile]) -> BTreeMap<String, String> {
    let read = files.iter().filter_map(|file| Some((file, file.content.as_ref()?)));
    read.map(|(file, content)| (file.path.clone(), STANDARD.encode(content))).collect()
}

/// The refusal for an error that passes, which clients should retry; or the error's words.
fn retry_or_words(error: &Error) -> Result<String, Refusal> {
    let retry_after_s = match error {
        Error::Full { retry_after_s, .. } => *retry_after_s,
        Error::SessionsFull { .. }
        | Error::ShuttingDown
        | Error::DeadlinePassed { .. }
        | Error::Jail(rocstar_jail::Error::SessionsFull { .. }) => 1,
        Error::Invalid(_) | Error::NoSession { .. } | Error::Transport { .. } | Error::Jail(_) => {
            return Ok(error.to_string());
        }
    };
    let detail = error.to_string();
    let retry_after_s = Some(retry_after_s.max(1));
    Err(Refusal { retry_after_s, ..Refusal::new(StatusCode::GATEWAY_TIMEOUT, detail) })
}

/// Seconds that a run took.
fn seconds(report: &Report) -> f64 {
    report.wall_us as f64 / 1e6
}
