//! code-judge's routes, for Python, on the wire as its clients know them.
//!
//! `POST /run`, `/run/batch`, `/run/long-batch` and the same under `/judge`; `GET /status`, `/ping`.
//! After validation every answer is HTTP 200 with a `reason`. Where code-judge loses output or lets
//! a program past its limit, the right answer in the same schema is given instead:
//!
//! - text that is not UTF-8 is escaped, and a marker printed by the program changes nothing;
//! - a limit is the server's, so a program can't take it off;
//! - a call that can't start in time is answered `queue_timeout` then, not after a further wait, and
//!   so is one that finds the queue full;
//! - `cpp` and `math` are answered `internal_error`, with the cause in `stderr`.
//!
//! Invariant: results stand in the order of the submissions, one each, and a submission that can't
//! be run (`invalid_input`) spoils no other one of its batch.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::{StreamExt as _, stream};
use rocstar_jail::{Request, ResolvedLimits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::HttpError;
use super::pydantic::Refusal;
use super::stream::{Ordered, encode};
use super::{App, guard, pydantic};
use crate::{Batch, ClientId, Reports, Schedule};
use wire::{BatchSubmission, Submission, Work};

/// Limits of code-judge's routes; the API has none per request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CodeJudgeConfig {
    /// Wall time of a submission, in milliseconds (`MAX_EXECUTION_TIME`).
    pub execution_ms: u64,
    /// Memory of a submission, in bytes (`MAX_MEMORY`, and the 128 MiB that code-judge adds).
    pub memory_bytes: u64,
    /// Characters kept of stdout and of stderr (`MAX_STDOUT_ERROR_LENGTH`).
    pub output_characters: usize,
    /// Time for a submission to start, in milliseconds (`MAX_QUEUE_WORK_LIFE_TIME`).
    pub start_within_ms: u64,
    /// The same for long batches (`LONG_BATCH_MAX_QUEUE_WAIT_TIME`).
    pub long_start_within_ms: u64,
}

impl Default for CodeJudgeConfig {
    fn default() -> Self {
        Self {
            execution_ms: 10_000,
            memory_bytes: 384 << 20,
            output_characters: 1_000,
            start_within_ms: 4_000,
            long_start_within_ms: 3_600_000,
        }
    }
}

impl CodeJudgeConfig {
    fn schedule(&self, patience: Patience) -> Schedule {
        let wait_ms = match patience {
            Patience::Short => self.start_within_ms,
            Patience::Long => self.long_start_within_ms,
        };
        Schedule { start_within: Some(Duration::from_millis(wait_ms)) }
    }
}

/// Which form of result a route gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With stdout and stderr.
    Run,
    /// Without.
    Judge,
}

/// How long a route lets its submissions wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Short,
    Long,
}

pub(super) fn routes() -> Router<Arc<App>> {
    use Form::{Judge, Run};
    use Patience::{Long, Short};
    Router::new()
        .route("/ping", get(|| async { Json("pong") }))
        .route("/status", get(status))
        .route("/run", post(|app, parts, body| one(app, parts, body, Run)))
        .route("/judge", post(|app, parts, body| one(app, parts, body, Judge)))
        .route("/run/batch", post(|app, parts, body| many(app, parts, body, Run, Short)))
        .route("/judge/batch", post(|app, parts, body| many(app, parts, body, Judge, Short)))
        .route("/run/long-batch", post(|app, parts, body| many(app, parts, body, Run, Long)))
        .route("/judge/long-batch", post(|app, parts, body| many(app, parts, body, Judge, Long)))
}

async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let workers = app.local.config().jail.slots;
    Json(json!({ "queue": app.local.stats().queued, "num_workers": workers }))
}

async fn one(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
    form: Form,
) -> Result<Response, Refusal> {
    pydantic::require_json(&parts.headers)?;
    let submission: Submission = app.read_call(body, pydantic::model).await?;
    let client = guard::client(&parts)?;
    let config = &app.config.code_judge;
    let (ticket, work) = wire::prepare(submission, config, app.maximum_limits());
    let ran = match work {
        Work::Run(request) => {
            let schedule = config.schedule(Patience::Short);
            app.sandbox().execute(&client, request, schedule).await
        }
        Work::Known(known) => known,
    };
    let encoded = ticket.encode(&ran, config, form).map_err(HttpError::from)?;
    Ok(json_response(encoded.into()))
}

async fn many(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
    form: Form,
    patience: Patience,
) -> Result<Response, Refusal> {
    pydantic::require_json(&parts.headers)?;
    let batch: BatchSubmission = app.read_batch(body, pydantic::model).await?;
    let client = guard::client(&parts)?;
    let config = app.config.code_judge.clone();
    let sub_id = serde_json::to_string(&wire::name(batch.sub_id)).map_err(HttpError::from)?;

    let mut tickets = Vec::with_capacity(batch.submissions.len());
    let mut calls = Vec::with_capacity(batch.submissions.len());
    let mut positions = Vec::with_capacity(batch.submissions.len());
    let mut known = Vec::new();
    for (position, submission) in batch.submissions.into_iter().enumerate() {
        let (ticket, work) = wire::prepare(submission, &config, app.maximum_limits());
        tickets.push(ticket);
        match work {
            Work::Run(request) => {
                calls.push(request);
                positions.push(position);
            }
            Work::Known(result) => known.push((position, result)),
        }
    }

    let ran = run(&app, &client, calls, positions, config.schedule(patience)).await;
    let element = {
        let count = tickets.len();
        let before = format!("{{\"sub_id\":{sub_id},\"results\":[");
        let encode = move |position: usize, ran| tickets[position].encode(&ran, &config, form);
        Ordered::new(count, app.config.held_report_bytes, encode, before, "]}")
    };
    Ok(json_response(encode(stream::iter(known).chain(ran).boxed(), element)))
}

/// The calls that a batch's body asks for; the way in for the fuzz targets.
///
/// # Errors
/// The status of the refusal.
#[doc(hidden)]
pub fn planned(body: &[u8]) -> Result<Vec<Request>, StatusCode> {
    let batch: BatchSubmission = pydantic::model(body).map_err(|refusal| refusal.status)?;
    let config = CodeJudgeConfig::default();
    let submissions = batch.submissions.into_iter();
    let work = submissions.map(|it| wire::prepare(it, &config, &ResolvedLimits::MAXIMUM).1);
    let calls = work.filter_map(|work| match work {
        Work::Run(request) => Some(request),
        Work::Known(_) => None,
    });
    Ok(calls.collect())
}

/// Runs the calls of a batch; each result carries its position among the submissions.
async fn run(
    app: &App,
    client: &ClientId,
    calls: Vec<Request>,
    positions: Vec<usize>,
    schedule: Schedule,
) -> Reports {
    if calls.is_empty() {
        return stream::empty().boxed();
    }
    let batch = Batch { calls, share_identical: false };
    match app.sandbox().execute_batch(client, batch, schedule).await {
        Ok(reports) => reports.map(move |(index, ran)| (positions[index], ran)).boxed(),
        Err(error) => {
            // Refused as a whole: each submission gets the cause.
            let error = HttpError::from(error);
            let refused = move |position| (position, Err(error.clone().into_error("")));
            stream::iter(positions.into_iter().map(refused)).boxed()
        }
    }
}

fn json_response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
