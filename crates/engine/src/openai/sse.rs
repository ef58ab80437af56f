//! Server-sent events, as OpenAI's clients read them: one JSON text an event, `[DONE]` at the end.
//!
//! Invariant: a stream ends with `[DONE]` or with an event that holds an error, never with neither.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};

use super::error::{ApiError, Code};

/// Makes a response of JSON texts. The first error ends it.
pub(super) fn respond(
    pieces: impl Stream<Item = Result<String, ApiError>> + Send + 'static,
) -> Response {
    let done = futures::stream::once(std::future::ready(Ok("[DONE]".to_owned())));
    // An error is followed by the end, which doesn't wait for another piece.
    let texts = pieces.chain(done).flat_map(|piece| {
        futures::stream::iter(match piece {
            Ok(text) => vec![Some(text)],
            Err(error) => vec![Some(error.body().to_string()), None],
        })
    });
    let events = texts
        .take_while(|text| std::future::ready(text.is_some()))
        .filter_map(std::future::ready)
        .map(|text| Ok::<_, Infallible>(Event::default().data(text)));
    // A comment now and then: proxies give up on connections that say nothing.
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// A piece as text.
///
/// # Errors
/// It can't be written as JSON, which none of ours does.
pub(super) fn json(piece: &impl serde::Serialize) -> Result<String, ApiError> {
    serde_json::to_string(piece).map_err(|error| ApiError::new(Code::Internal, error.to_string()))
}
