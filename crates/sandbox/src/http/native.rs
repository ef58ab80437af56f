//! The native API under `/v1/`: jail requests in, reports out, in the crate's own types.
//!
//! Invariant: a handler translates and nothing more; queueing, fairness and limits are the
//! sandbox's. The document of these routes is `docs/openapi.json`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use rocstar_jail::{Effective, Report};
use serde::{Deserialize, Serialize};

use super::error::{Code, HttpError};
use super::{App, body, guard, openapi, parse, stream};
use crate::{Judgement, Schedule, SessionId};

/// Type of an answer with one JSON value a line.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// A session's name, as opening and forking answer it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) id: SessionId,
}

/// How a call is scheduled and answered.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    start_within_ms: Option<u64>,
    #[serde(default)]
    stream: bool,
}

impl Options {
    fn from(parts: &Parts) -> Result<Self, HttpError> {
        if parts.uri.query().is_none() {
            return Ok(Self::default());
        }
        let Query(options) = Query::try_from_uri(&parts.uri).map_err(|rejection| {
            HttpError::new(Code::InvalidField, rejection.body_text())
                .field("query")
                .hint("known are `start_within_ms` and, for batches, `stream`")
        })?;
        Ok(options)
    }

    fn schedule(&self) -> Schedule {
        Schedule { start_within: self.start_within_ms.map(Duration::from_millis) }
    }
}

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/execute", post(execute))
        .route("/v1/execute/batch", post(execute_batch))
        .route("/v1/sessions", post(open_session))
        .route("/v1/sessions/{id}", delete(close_session))
        .route("/v1/sessions/{id}/execute", post(execute_in_session))
        .route("/v1/sessions/{id}/fork", post(fork_session))
        .route("/v1/judge", post(judge))
        .route("/v1/effective", get(effective))
        .route("/v1/openapi.json", get(openapi::document))
}

async fn execute(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Json<Report>, HttpError> {
    body::require_json(&parts.headers)?;
    let options = Options::from(&parts)?;
    let request = app.read_call(body, parse::execute).await?;
    let client = guard::client(&parts)?;
    Ok(Json(app.sandbox().execute(&client, request, options.schedule()).await?))
}

async fn execute_batch(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Response, HttpError> {
    body::require_json(&parts.headers)?;
    let options = Options::from(&parts)?;
    let batch = app.read_batch(body, parse::batch).await?;
    let client = guard::client(&parts)?;
    let calls = batch.calls.len();
    let reports = app.sandbox().execute_batch(&client, batch, options.schedule()).await?;
    Ok(if options.stream || accepts_ndjson(&parts.headers) {
        ([(header::CONTENT_TYPE, NDJSON)], stream::as_they_finish(reports)).into_response()
    } else {
        let body = stream::in_order(reports, calls, app.config.held_report_bytes);
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    })
}

fn accepts_ndjson(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains(NDJSON))
}

async fn open_session(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<(StatusCode, Json<Opened>), HttpError> {
    body::require_json(&parts.headers)?;
    let options = app.read_call(body, parse::session).await?;
    let client = guard::client(&parts)?;
    let id = app.sandbox().open_session(&client, options).await?;
    Ok((StatusCode::CREATED, Json(Opened { id })))
}

async fn execute_in_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parts: Parts,
    body: Body,
) -> Result<Json<Report>, HttpError> {
    body::require_json(&parts.headers)?;
    let request = app.read_call(body, parse::execute).await?;
    let client = guard::client(&parts)?;
    Ok(Json(app.sandbox().execute_in_session(&client, &SessionId(id), request).await?))
}

async fn fork_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<(StatusCode, Json<Opened>), HttpError> {
    let client = guard::client(&parts)?;
    let id = app.sandbox().fork_session(&client, &SessionId(id)).await?;
    Ok((StatusCode::CREATED, Json(Opened { id })))
}

async fn close_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<StatusCode, HttpError> {
    let client = guard::client(&parts)?;
    app.sandbox().close_session(&client, &SessionId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn judge(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: Body,
) -> Result<Json<Judgement>, HttpError> {
    body::require_json(&parts.headers)?;
    let request = app.read_batch(body, parse::judge).await?;
    let client = guard::client(&parts)?;
    Ok(Json(app.sandbox().judge(&client, request).await?))
}

async fn effective(State(app): State<Arc<App>>) -> Result<Json<Effective>, HttpError> {
    Ok(Json(app.sandbox().effective().await?))
}
