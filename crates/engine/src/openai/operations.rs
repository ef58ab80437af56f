//! What an operator asks of the server: is it alive, what does it serve, what has it done.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, Code};

/// The process answers and takes requests.
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    if app.stop.is_cancelled() {
        return Err(ApiError::new(Code::ShuttingDown, "the server is shutting down"));
    }
    Ok("ok\n")
}

/// All models: the one.
pub(super) async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [card(&app)]}))
}

/// One model. Its id may hold slashes, as names of the hub do.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    app.model.require(Some(&id))?;
    Ok(Json(card(&app)))
}

fn card(app: &App) -> Value {
    let model = &app.model;
    json!({
        "id": model.id,
        "object": "model",
        "created": app.created,
        "owned_by": "rocstar",
        "max_model_len": model.engine.longest_tokens(),
        "rocstar": {
            "weight_version": model.engine.stats().version,
            "vocabulary_size": model.engine.config().vocabulary_size,
            "end_tokens": model.end_tokens,
            "chat": model.template.is_some(),
            "call_format": model.calls.to_string(),
        },
    })
}

/// Counters and gauges.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let text = app.metrics.render(&app.model.engine.stats())?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
