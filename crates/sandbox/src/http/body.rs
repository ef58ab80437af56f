//! Request bodies off the wire: how large, how many at once, how slowly.
//!
//! Invariant: the bytes of bodies held by this server never exceed [`Budget`]'s limit, and no body
//! exceeds its route's; what is too large is read on and thrown away for a while, so that the
//! client sees the refusal rather than a broken connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::http::{HeaderMap, header};
use futures::StreamExt as _;

use super::error::{Code, HttpError};

/// Bodies larger than this are parsed off the runtime's threads: about a millisecond of work.
const PARSE_INLINE_BYTES: usize = 256 << 10;
/// Bytes of a refused body that are read and thrown away before the connection is given up.
const DISCARD_BYTES: usize = 256 << 20;

/// Bytes of request bodies held at once, over all connections.
#[derive(Debug)]
pub(super) struct Budget {
    held: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), limit })
    }

    /// Bytes held now.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// A share of the budget, given back when dropped.
struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    fn grow(&mut self, bytes: usize) -> Result<(), HttpError> {
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.budget.limit {
            return Err(HttpError::busy(self.budget.limit));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Limits of one body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// Reads a whole body and hands it to `parse`; the budget is held until that has returned.
pub(super) async fn read<T, E>(
    body: Body,
    limit: Limit,
    budget: &Arc<Budget>,
    parse: impl FnOnce(&[u8]) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<HttpError> + Send + 'static,
{
    let mut share = Share { budget: Arc::clone(budget), bytes: 0 };
    let bytes = match tokio::time::timeout(limit.time, collect(body, limit.bytes, &mut share)).await
    {
        Ok(collected) => collected?,
        Err(_) => {
            let message = format!("the body did not arrive within {} ms", limit.time.as_millis());
            return Err(HttpError::new(Code::BodyIncomplete, message).into());
        }
    };
    if bytes.len() <= PARSE_INLINE_BYTES {
        return parse(&bytes);
    }
    let parsed = tokio::task::spawn_blocking(move || {
        let parsed = parse(&bytes);
        drop(share);
        parsed
    });
    match parsed.await {
        Ok(parsed) => parsed,
        Err(failed) => Err(HttpError::new(Code::Internal, failed.to_string()).into()),
    }
}

/// The whole body; what can't be kept is read on for a while and thrown away.
async fn collect(body: Body, limit: usize, share: &mut Share) -> Result<Bytes, HttpError> {
    let declared = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let mut chunks = body.into_data_stream();
    let kept = match declared {
        Some(declared) if declared > limit => Err(HttpError::too_large(limit)),
        Some(_) | None => keep(&mut chunks, declared, limit, share).await,
    };
    if kept.is_err() {
        discard(&mut chunks).await;
    }
    kept
}

async fn keep(
    chunks: &mut BodyDataStream,
    declared: Option<usize>,
    limit: usize,
    share: &mut Share,
) -> Result<Bytes, HttpError> {
    let mut first = Bytes::new();
    let mut joined = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            HttpError::new(Code::BodyIncomplete, format!("the body broke off: {error}"))
        })?;
        if share.bytes + chunk.len() > limit {
            return Err(HttpError::too_large(limit));
        }
        share.grow(chunk.len())?;
        // Most bodies come in one chunk and need no copy.
        if first.is_empty() && joined.is_empty() {
            first = chunk;
        } else {
            if joined.is_empty() {
                joined.reserve_exact(declared.unwrap_or_default());
                joined.extend_from_slice(&std::mem::take(&mut first));
            }
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() { first } else { joined.into() })
}

async fn discard(chunks: &mut BodyDataStream) {
    let mut discarded = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        discarded += chunk.len();
        if discarded > DISCARD_BYTES {
            return;
        }
    }
}

/// Refuses what is not declared as JSON. Browsers send other types to any address without asking
/// first, so this also keeps web pages from driving a server on loopback.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), HttpError> {
    let declared = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = declared.unwrap_or_default().split(|&byte| byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let is_json = essence == b"application/json"
        || (essence.starts_with(b"application/") && essence.ends_with(b"+json"));
    if is_json {
        return Ok(());
    }
    let declared = String::from_utf8_lossy(declared.unwrap_or(b"nothing"));
    Err(HttpError::new(
        Code::UnsupportedMediaType,
        format!("the body must be application/json, is declared as {declared}"),
    )
    .hint("send the header `Content-Type: application/json`"))
}
