//! What an operator asks of the server: is it alive, does it take work, what has it done; and the
//! agents' protocol, which is the crate's own module, fitted to this server's end.
//!
//! Invariant: `/health` and `/ready` need no token and touch no queue, so a probe is never slow and
//! never refused.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, middleware};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::App;
use super::error::HttpError;
use crate::Sandbox;

pub(super) fn open_routes() -> Router<Arc<App>> {
    Router::new().route("/health", get(health)).route("/ready", get(ready))
}

pub(super) fn guarded_routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(metrics))
}

/// The routes of MCP. Its clients keep a stream of events open by `GET`, which would never end by
/// itself; calls, which come by `POST`, are answered before the server stops.
pub(super) fn mcp_routes(app: &Arc<App>) -> Router {
    let sandbox: Arc<dyn Sandbox> = Arc::clone(&app.local) as Arc<dyn Sandbox>;
    let stop = app.stop.clone();
    crate::mcp::router(sandbox).layer(middleware::from_fn(move |request, next| {
        end_standing_stream(stop.clone(), request, next)
    }))
}

async fn end_standing_stream(stop: CancellationToken, request: Request, next: Next) -> Response {
    let is_standing = request.method() == Method::GET;
    let response = next.run(request).await;
    if !is_standing {
        return response;
    }
    response
        .map(|body| Body::from_stream(body.into_data_stream().take_until(stop.cancelled_owned())))
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
    let text = app.metrics.render(&app.local.state(), app.budget.held())?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
