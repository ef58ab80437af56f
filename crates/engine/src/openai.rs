//! The engine on an HTTP port, in the form of OpenAI's API, so that unmodified clients work.
//!
//! | route | file |
//! |---|---|
//! | `/v1/chat/completions` | `openai/chat.rs` |
//! | `/v1/completions`, text or token ids in, token ids out | `openai/completions.rs` |
//! | `/v1/models`, `/health`, `/metrics` | `openai/operations.rs` |
//! | `/tokenize`, `/detokenize` | `openai/tokens.rs` |
//!
//! The wire types are written by hand: OpenAI's API is wide and moves, and only what is honoured here
//! may be accepted. Invariant: a field that would change the answer is honoured or refused by name;
//! the same request with the same seed gives the same answer, whatever else is served; a handler
//! lives only as long as its connection, so a client that goes away frees its place in the engine.

mod ask;
mod chat;
mod choice;
mod completions;
mod error;
mod extension;
mod fields;
mod guard;
mod head;
mod metrics;
mod model;
mod operations;
mod sse;
mod text;
mod tokens;
mod usage;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use futures::StreamExt as _;
use rocstar_http::{Bounds, Grace};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use error::{ApiError, Code};
use metrics::Metrics;
pub use model::{Model, PromptProblem, TokenizerDoesNotFit};
pub use text::{GrowingText, ModelText};

/// Requests whose bodies are read and turned into tokens at once; more wait.
const PREPARED_AT_ONCE: usize = 64;

/// Set-up of the server.
#[derive(Clone, PartialEq)]
pub struct ServerOptions {
    /// Bearer token that every request but `/health` must carry. `None`: open to all who reach the
    /// port.
    pub token: Option<String>,
    /// Most connections at once; more wait to be accepted.
    pub connections: usize,
    /// A connection is closed when this long passes without a request's head, in milliseconds.
    pub idle_connection_ms: u64,
    /// Largest request body, in bytes.
    pub body_bytes: usize,
    /// Time for a body to arrive, in milliseconds.
    pub body_ms: u64,
    /// Time for open requests to be answered once the server is told to stop, in milliseconds.
    pub grace_ms: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            token: None,
            connections: 4096,
            idle_connection_ms: 120_000,
            body_bytes: 32 << 20,
            body_ms: 60_000,
            grace_ms: 10_000,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, connections, idle_connection_ms, body_bytes, body_ms, grace_ms } = self;
        formatter
            .debug_struct("ServerOptions")
            .field("token", &token.as_ref().map(|_| "…"))
            .field("connections", connections)
            .field("idle_connection_ms", idle_connection_ms)
            .field("body_bytes", body_bytes)
            .field("body_ms", body_ms)
            .field("grace_ms", grace_ms)
            .finish()
    }
}

/// What every handler sees.
#[derive(Debug)]
struct App {
    model: Arc<Model>,
    options: ServerOptions,
    metrics: Metrics,
    /// When serving began, in seconds since 1970.
    created: u64,
    /// No new requests.
    stop: CancellationToken,
    /// Open requests end now.
    cut_off: CancellationToken,
    preparing: Semaphore,
}

/// Serves until `stop` is cancelled and the requests that are open by then are answered, or the grace
/// is over.
pub async fn serve(
    listener: TcpListener,
    model: Model,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let bounds = Bounds {
        connections: options.connections,
        idle: Duration::from_millis(options.idle_connection_ms),
    };
    let cut_off = CancellationToken::new();
    let time = Duration::from_millis(options.grace_ms);
    let grace = Grace { time, cut_off: cut_off.clone() };
    let app = Arc::new(App {
        model: Arc::new(model),
        options,
        metrics: Metrics::default(),
        created: seconds_since_1970(),
        stop: stop.clone(),
        cut_off,
        preparing: Semaphore::new(PREPARED_AT_ONCE),
    });
    rocstar_http::serve(listener, router(app), bounds, stop, Some(grace)).await;
}

fn router(app: Arc<App>) -> Router {
    let guarded = Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/models", get(operations::models))
        .route("/v1/models/{*id}", get(operations::model))
        .route("/metrics", get(operations::metrics))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::require_token));
    Router::new()
        .route("/health", get(operations::health))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), metrics::count))
        .with_state(app)
}

async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(Code::UnknownRoute, format!("there is no route `{}`", uri.path()))
}

async fn no_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("`{}` does not take {method}", uri.path()))
}

impl App {
    /// Reads a body and makes a request of it, off the runtime's threads: rendering and tokenising a
    /// long prompt takes milliseconds.
    ///
    /// # Errors
    /// The body can't be read, or `plan` refuses it.
    async fn prepare<T: Send + 'static>(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Body,
        plan: fn(&Model, &[u8]) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if self.stop.is_cancelled() {
            return Err(ApiError::new(Code::ShuttingDown, "the server is shutting down"));
        }
        guard::require_json(headers)?;
        let closed = |error| ApiError::new(Code::Internal, format!("{error}"));
        let _place = self.preparing.acquire().await.map_err(closed)?;
        let bytes = self.read(body).await?;
        let model = Arc::clone(&self.model);
        let planned = tokio::task::spawn_blocking(move || plan(&model, &bytes)).await;
        planned.unwrap_or_else(|failed| Err(ApiError::new(Code::Internal, failed.to_string())))
    }

    async fn read(&self, body: Body) -> Result<Vec<u8>, ApiError> {
        let limit = self.options.body_bytes;
        let whole = async {
            let mut bytes = Vec::new();
            let mut chunks = body.into_data_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| {
                    ApiError::new(Code::InvalidJson, format!("the body broke off: {error}"))
                })?;
                if bytes.len() + chunk.len() > limit {
                    let message = format!("the body has more than {limit} bytes");
                    return Err(ApiError::new(Code::BodyTooLarge, message));
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        let time = Duration::from_millis(self.options.body_ms);
        tokio::time::timeout(time, whole).await.unwrap_or_else(|_| {
            let message = format!("the body did not arrive within {} ms", time.as_millis());
            Err(ApiError::new(Code::InvalidJson, message))
        })
    }
}

/// Writes a whole answer off the runtime's threads: with log-probabilities of thousands of tokens it
/// takes milliseconds.
async fn answer_json(
    write: impl FnOnce() -> Result<String, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let written = tokio::task::spawn_blocking(write).await;
    let text = written.map_err(|failed| ApiError::new(Code::Internal, failed.to_string()))??;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn seconds_since_1970() -> u64 {
    // A clock before 1970 is as good as none.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
