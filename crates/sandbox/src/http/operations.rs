//! What an operator asks of the server: is it alive, does it take work, what has it done.
//!
//! Invariant: `/health` and `/ready` need no token and touch no queue, so a probe is never slow and
//! never refused.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::App;
use super::error::HttpError;

pub(super) fn open_routes() -> Router<Arc<App>> {
    Router::new().route("/health", get(health)).route("/ready", get(ready))
}

pub(super) fn guarded_routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(metrics))
}

/// The process answers.
async fn health() -> &'static str {
    "ok\n"
}

/// The sandbox takes calls. It was started before the port was opened, so only shutting down
/// makes it unready.
async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, HttpError> {
    if app.stop.is_cancelled() { Err(HttpError::shutting_down()) } else { Ok("ready\n") }
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let text = app.metrics.render(&app.local.stats(), app.budget.held())?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
