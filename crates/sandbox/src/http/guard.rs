//! Who may speak, and for whom: the bearer token, and the name that fairness counts by.
//!
//! Invariant: the client's name is what the client says it is: it shares the machine between honest
//! clients, it is no secret and grants nothing. (A session's id is the secret that grants the session.)

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rocstar_http::carries_token;

use super::App;
use super::error::{Code, HttpError};
use crate::ClientId;

/// Names the client for fairness; without it, the peer's address does.
pub(crate) const CLIENT_HEADER: &str = "x-rocstar-client";
/// Longest client name, in bytes.
const MAX_CLIENT_BYTES: usize = 128;

/// Lets a request pass that carries the token, where one is configured.
pub(super) async fn require_token(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    match &app.config.token {
        Some(token) if !carries_token(request.headers(), token) => {
            HttpError::new(Code::Unauthorized, "the bearer token is missing or wrong")
                .hint("send the header `Authorization: Bearer TOKEN`")
                .into_response()
        }
        Some(_) | None => next.run(request).await,
    }
}

/// The client that a request is for.
pub(super) fn client(parts: &Parts) -> Result<ClientId, HttpError> {
    if let Some(name) = parts.headers.get(CLIENT_HEADER) {
        return match name.to_str() {
            Ok(name) if name.len() <= MAX_CLIENT_BYTES => Ok(ClientId::new(name)),
            Ok(_) | Err(_) => Err(HttpError::new(
                Code::InvalidField,
                format!("must be at most {MAX_CLIENT_BYTES} bytes of ASCII text"),
            )
            .field(CLIENT_HEADER)),
        };
    }
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    Ok(peer.map_or_else(|| ClientId::new(""), |peer| ClientId::new(&peer.0.ip().to_string())))
}
