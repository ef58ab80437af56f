//! Every refusal of the native API: one JSON form, one table of codes.
//!
//! Invariant: a response that is not a success has the body `{"error": {"code", "field", "message",
//! "hint", "details"}}` and the status of its code; what a program did is never an error.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use rocstar_jail::InvalidRequest;

/// Seconds after which a client may try again when only this server's memory for request bodies
/// is short, or it is going down: both pass quickly, or another server answers.
const RETRY_SOON_S: u64 = 1;

/// The kind of refusal, stable for programs to branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[doc(hidden)]
pub enum Code {
    /// The body is not JSON.
    MalformedJson,
    /// The body is JSON, but a field can't be accepted.
    InvalidField,
    /// The body is larger than the limit of its route.
    BodyTooLarge,
    /// The body did not arrive in time, or broke off.
    BodyIncomplete,
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// The bearer token is missing or wrong.
    Unauthorized,
    /// No such route.
    NotFound,
    /// The route exists for other methods.
    MethodNotAllowed,
    /// No such session, or it has ended.
    UnknownSession,
    /// The queue has no room.
    QueueFull,
    /// All session places are taken.
    SessionsFull,
    /// Too many bytes of request bodies are held at once.
    Busy,
    /// The call did not start within the time that the caller gave.
    DeadlinePassed,
    /// The server takes no more calls.
    ShuttingDown,
    /// The server itself failed.
    Internal,
    /// The server that this one forwards to failed.
    Upstream,
}

impl Code {
    /// The status line that goes with the code.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::MalformedJson => StatusCode::BAD_REQUEST,
            Self::InvalidField => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyIncomplete => StatusCode::REQUEST_TIMEOUT,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::UnknownSession => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::QueueFull | Self::SessionsFull | Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::DeadlinePassed => StatusCode::GATEWAY_TIMEOUT,
            Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Upstream => StatusCode::BAD_GATEWAY,
        }
    }

    /// Every code, for the API document and its test.
    pub const ALL: [Self; 16] = [
        Self::MalformedJson,
        Self::InvalidField,
        Self::BodyTooLarge,
        Self::BodyIncomplete,
        Self::UnsupportedMediaType,
        Self::Unauthorized,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::UnknownSession,
        Self::QueueFull,
        Self::SessionsFull,
        Self::Busy,
        Self::DeadlinePassed,
        Self::ShuttingDown,
        Self::Internal,
        Self::Upstream,
    ];
}

/// A refusal, as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct HttpError {
    /// The kind.
    pub code: Code,
    /// Path of the field at fault, for example `calls[17].limits.wall_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong, for a person.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Numbers that belong to the code, such as `queued` and `capacity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Value>>,
    /// Seconds to wait before the next try; sent as the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

/// The body of a refusal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) error: HttpError,
}

impl HttpError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, field: None, message, hint: None, details: None, retry_after_s: None }
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        Self::new(Code::BodyTooLarge, format!("the body is larger than {limit_bytes} bytes"))
            .details(json!({ "limit_bytes": limit_bytes }))
            .hint("send fewer calls in one request, or smaller files")
    }

    pub(crate) fn busy(limit_bytes: usize) -> Self {
        let message = format!("request bodies of more than {limit_bytes} bytes are being read");
        Self::new(Code::Busy, message).retry_after(RETRY_SOON_S)
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(Code::ShuttingDown, Error::ShuttingDown.to_string()).retry_after(RETRY_SOON_S)
    }
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Invalid(invalid) | Error::Jail(rocstar_jail::Error::Invalid(invalid)) => {
                Self::new(Code::InvalidField, invalid.problem).field(invalid.field)
            }
            Error::Full { queued, capacity, retry_after_s } => Self::new(Code::QueueFull, message)
                .details(json!({ "queued": queued, "capacity": capacity }))
                .retry_after(retry_after_s.max(1)),
            Error::DeadlinePassed { waited_ms } => {
                Self::new(Code::DeadlinePassed, message).details(json!({ "waited_ms": waited_ms }))
            }
            Error::NoSession { id, cause } => Self::new(Code::UnknownSession, message)
                .details(json!({ "id": id, "cause": cause }))
                .hint("open a new session"),
            Error::SessionsFull { limit }
            | Error::Jail(rocstar_jail::Error::SessionsFull { limit }) => {
                Self::new(Code::SessionsFull, message)
                    .details(json!({ "limit": limit }))
                    .hint("delete sessions that are no longer needed")
                    .retry_after(RETRY_SOON_S)
            }
            Error::ShuttingDown => Self::shutting_down(),
            Error::Transport { .. } => Self::new(Code::Upstream, message),
            Error::Jail(_) => Self::new(Code::Internal, message),
        }
    }
}

/// Our own values always encode; should one not, it is our failure.
impl From<serde_json::Error> for HttpError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Code::Internal, format!("an answer did not encode: {error}"))
    }
}

impl HttpError {
    /// The error that the in-process interface would have given; `url` is where it came from.
    pub(crate) fn into_error(self, url: &str) -> Error {
        let number = |name: &str| {
            self.details.as_ref().and_then(|details| details[name].as_u64()).unwrap_or_default()
        };
        let text = |name: &str| {
            let details = self.details.as_ref();
            details.and_then(|details| details[name].as_str()).unwrap_or_default().to_owned()
        };
        let as_size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        match self.code {
            Code::InvalidField => Error::Invalid(InvalidRequest {
                field: self.field.unwrap_or_default(),
                problem: self.message,
            }),
            Code::QueueFull | Code::Busy => Error::Full {
                queued: as_size(number("queued")),
                capacity: as_size(number("capacity")),
                retry_after_s: self.retry_after_s.unwrap_or(RETRY_SOON_S),
            },
            Code::DeadlinePassed => Error::DeadlinePassed { waited_ms: number("waited_ms") },
            Code::UnknownSession => Error::NoSession { id: text("id"), cause: text("cause") },
            Code::SessionsFull => Error::SessionsFull { limit: as_size(number("limit")) },
            Code::ShuttingDown => Error::ShuttingDown,
            Code::MalformedJson
            | Code::BodyTooLarge
            | Code::BodyIncomplete
            | Code::UnsupportedMediaType
            | Code::Unauthorized
            | Code::NotFound
            | Code::MethodNotAllowed
            | Code::Internal
            | Code::Upstream => Error::Transport { url: url.to_owned(), cause: self.message },
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let retry_after_s = self.retry_after_s;
        let mut response = (status, axum::Json(Envelope { error: self })).into_response();
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"rocstar\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn errors_come_through_the_wire_unchanged() {
        let errors = [
            Error::Invalid(InvalidRequest {
                field: "calls[3].limits.wall_ms".into(),
                problem: "must be between 1 and 9, is 0".into(),
            }),
            Error::Full { queued: 7, capacity: 9, retry_after_s: 3 },
            Error::DeadlinePassed { waited_ms: 4_000 },
            Error::NoSession { id: "ab".into(), cause: "deleted".into() },
            Error::SessionsFull { limit: 64 },
            Error::ShuttingDown,
        ];
        for error in errors {
            let text = error.to_string();
            let wire = serde_json::to_string(&HttpError::from(error)).unwrap();
            let read: HttpError = serde_json::from_str(&wire).unwrap();
            assert_eq!(read.into_error("http://host").to_string(), text);
        }
    }
}
