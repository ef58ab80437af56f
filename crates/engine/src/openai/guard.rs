//! Who may call: the bearer token, and bodies that are declared as JSON.
//!
//! Invariant: without the configured token no model is asked for anything.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rocstar_http::carries_token;

use super::App;
use super::error::{ApiError, Code};

/// Lets a request pass that carries the token, where one is configured.
pub(super) async fn require_token(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    match &app.options.token {
        Some(token) if !carries_token(request.headers(), token) => ApiError::new(
            Code::InvalidApiKey,
            "the bearer token is missing or wrong; send `Authorization: Bearer TOKEN`, which is \
             `api_key` in OpenAI's clients",
        )
        .into_response(),
        Some(_) | None => next.run(request).await,
    }
}

/// Refuses what is not declared as JSON. Browsers send other types to any address without asking
/// first, so this also keeps web pages from driving a server on loopback.
///
/// # Errors
/// The type is missing or another.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let declared = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = declared.unwrap_or_default().split(|byte| *byte == b';').next();
    if essence.unwrap_or_default().trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let declared = String::from_utf8_lossy(declared.unwrap_or(b"nothing"));
    Err(ApiError::new(
        Code::UnsupportedMediaType,
        format!("the body must be `Content-Type: application/json`, is declared as {declared}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_taken() {
        for (value, passes) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(require_json(&headers).is_ok(), passes, "{value:?}");
        }
        assert!(require_json(&HeaderMap::new()).is_err());
    }
}
