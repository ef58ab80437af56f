//! Every refusal, in the one form that OpenAI's clients read.
//!
//! Invariant: a response that is not a success has the body `{"error": {"message", "type", "param",
//! "code"}}` and the status of its [`Code`]; `param` names the field that is wrong, as a path such
//! as `messages[2].content`. What the model writes is never an error.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Seconds after which a client may try again when the queue was full or the server goes down.
const RETRY_AFTER_S: u64 = 1;

/// The kind of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// The body is not JSON.
    InvalidJson,
    /// A field has a wrong type or a value out of range, or is missing.
    InvalidValue,
    /// No such field.
    UnknownField,
    /// The field exists in OpenAI's API, but this server can't do what it asks for.
    Unsupported,
    /// The prompt leaves no room in the model's context.
    ContextLengthExceeded,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// The bearer token is missing or wrong.
    InvalidApiKey,
    /// This server has no such model.
    ModelNotFound,
    /// There is no such route.
    UnknownRoute,
    /// The route exists for other methods.
    MethodNotAllowed,
    /// The engine's queue has no room.
    QueueFull,
    /// The server takes no more requests.
    ShuttingDown,
    /// We failed.
    Internal,
}

impl Code {
    /// Status, OpenAI's `type` and `code`.
    const fn form(self) -> (StatusCode, &'static str, &'static str) {
        const BAD: &str = "invalid_request_error";
        match self {
            Self::InvalidJson => (StatusCode::BAD_REQUEST, BAD, "invalid_json"),
            Self::InvalidValue => (StatusCode::BAD_REQUEST, BAD, "invalid_value"),
            Self::UnknownField => (StatusCode::BAD_REQUEST, BAD, "unknown_parameter"),
            Self::Unsupported => (StatusCode::BAD_REQUEST, BAD, "unsupported_parameter"),
            Self::ContextLengthExceeded => {
                (StatusCode::BAD_REQUEST, BAD, "context_length_exceeded")
            }
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, BAD, "body_too_large"),
            Self::UnsupportedMediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, BAD, "unsupported_media_type")
            }
            Self::InvalidApiKey => (StatusCode::UNAUTHORIZED, BAD, "invalid_api_key"),
            Self::ModelNotFound => (StatusCode::NOT_FOUND, BAD, "model_not_found"),
            Self::UnknownRoute => (StatusCode::NOT_FOUND, BAD, "unknown_url"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, BAD, "method_not_allowed"),
            Self::QueueFull => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "rate_limit_exceeded")
            }
            Self::ShuttingDown => {
                (StatusCode::SERVICE_UNAVAILABLE, "server_error", "shutting_down")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "server_error"),
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct ApiError {
    /// Its kind.
    pub(super) code: Code,
    /// What is wrong and what to do.
    pub(super) message: String,
    /// The field, where one is to blame.
    pub(super) param: Option<String>,
}

impl ApiError {
    /// Without a field.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None }
    }

    /// A field whose value can't be accepted.
    pub(super) fn invalid(param: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self {
            code: Code::InvalidValue,
            message: format!("`{param}` {problem}"),
            param: Some(param),
        }
    }

    /// A field whose meaning is known and not implemented.
    pub(super) fn unsupported(param: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self { code: Code::Unsupported, ..Self::invalid(param, problem) }
    }

    /// The JSON body.
    pub(super) fn body(&self) -> Value {
        let (_, kind, code) = self.code.form();
        let Self { message, param, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, ..) = self.code.form();
        let mut response = (status, axum::Json(self.body())).into_response();
        if matches!(self.code, Code::QueueFull | Code::ShuttingDown) {
            let seconds = HeaderValue::from(RETRY_AFTER_S);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
