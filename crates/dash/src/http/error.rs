//! What goes wrong, as the page is told: a status, one sentence, and nothing of the machine's paths
//! that it doesn't know.

use std::path::Path;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::Error;
use crate::run::from_folder;

/// A request that can't be answered.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the dashboard is stopping")
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the dashboard failed; its terminal says more")
    }

    /// Why something in `folder` can't be read, with paths as they are from there.
    pub(super) fn of(error: &Error, folder: &Path) -> Self {
        use rocstar_record::run::Error as OfRun;
        let status = match error {
            Error::Missing { .. } | Error::Name(_) => StatusCode::NOT_FOUND,
            Error::Run(OfRun::NoRun(_) | OfRun::SuiteName(_)) => StatusCode::NOT_FOUND,
            Error::Selection(_) | Error::ReportOf { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Run(OfRun::File { source, .. }) | Error::File { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                StatusCode::NOT_FOUND
            }
            Error::Run(_) | Error::Link(_) | Error::File { .. } | Error::Record { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        Self::new(status, from_folder(&error.to_string(), folder))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.message }))).into_response()
    }
}
