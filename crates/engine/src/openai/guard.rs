//! Who may call: the bearer token, and bodies that are declared as JSON.
//!
//! Invariant: the comparison of tokens takes the same time wherever they differ.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::App;
use super::error::{ApiError, Code};

/// Lets a request pass that carries the token, where one is configured.
pub(super) async fn require_token(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    match &app.options.token {
        Some(token) if !carries(request.headers(), token) => ApiError::new(
            Code::InvalidApiKey,
            "the bearer token is missing or wrong; send `Authorization: Bearer TOKEN`, which is \
             `api_key` in OpenAI's clients",
        )
        .into_response(),
        Some(_) | None => next.run(request).await,
    }
}

fn carries(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some((scheme, given)) = value.and_then(|value| value.split_at_checked("Bearer ".len()))
    else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ")
        && constant_time_eq::constant_time_eq(given.trim_ascii(), token.as_bytes())
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
    fn only_the_whole_token_passes() {
        for (value, passes) in [
            ("Bearer secret", true),
            ("bearer secret", true),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("Bearer ", false),
            ("Basic secret", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(carries(&headers, "secret"), passes, "{value:?}");
        }
        assert!(!carries(&HeaderMap::new(), "secret"));
    }

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
