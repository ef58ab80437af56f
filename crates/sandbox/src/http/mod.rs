//! The code environment on one HTTP port: the native API, the routes of two peers, operations.
//!
//! | routes | file |
//! |---|---|
//! | `/v1/execute`, `/v1/sessions`, `/v1/judge`, … | `native.rs` |
//! | `/run`, `/judge` and their batches, `/status`, `/ping`: code-judge | `code_judge.rs` |
//! | `/run_code`, `/run_jupyter`, `/submit`, `/v1/ping`: SandboxFusion | `sandbox_fusion/` |
//! | `/health`, `/ready`, `/metrics` | `operations.rs` |
//! | `/mcp` | the crate's `mcp` module |
//!
//! Invariant: a handler lives only as long as its connection, so a client that goes away drops its
//! future and thereby frees its work; nothing is spawned but connections and the parsing of large
//! bodies.

mod body;
mod code_judge;
mod config;
mod error;
mod guard;
mod metrics;
mod native;
mod openapi;
mod operations;
#[doc(hidden)]
pub mod parse;
mod pydantic;
mod sandbox_fusion;
pub(crate) mod scrape;
mod stream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Uri};
use axum::{Router, middleware};
use rocstar_http::Bounds;
use rocstar_jail::ResolvedLimits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use code_judge::CodeJudgeConfig;
pub use config::HttpConfig;
pub(crate) use error::Envelope;
#[doc(hidden)]
pub use error::{Code, HttpError};
pub(crate) use guard::CLIENT_HEADER;
pub(crate) use native::{NDJSON, Opened};
pub use sandbox_fusion::SandboxFusionConfig;

use crate::{LocalSandbox, Sandbox};
use body::{Budget, Limit};
use metrics::Metrics;

/// What the peers' bodies ask to run, without running it: the ways in for the fuzz targets.
#[doc(hidden)]
pub mod planned {
    pub use super::code_judge::planned as code_judge;
    pub use super::sandbox_fusion::{
        planned_call as run_code, planned_cells as run_jupyter, planned_submission as submit,
    };
}

/// What every handler sees.
#[derive(Debug)]
struct App {
    local: Arc<LocalSandbox>,
    config: HttpConfig,
    budget: Arc<Budget>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl App {
    fn sandbox(&self) -> &dyn Sandbox {
        self.local.as_ref()
    }

    /// The most that a request may ask for.
    fn maximum_limits(&self) -> &ResolvedLimits {
        &self.local.config().jail.maximum_limits
    }

    /// Reads the body of a single call.
    async fn read_call<T, E>(&self, body: Body, parse: Parser<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<HttpError> + Send + 'static,
    {
        self.read(body, self.config.call_body_bytes, parse).await
    }

    /// Reads the body of many calls.
    async fn read_batch<T, E>(&self, body: Body, parse: Parser<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<HttpError> + Send + 'static,
    {
        self.read(body, self.config.batch_body_bytes, parse).await
    }

    async fn read<T, E>(&self, body: Body, bytes: usize, parse: Parser<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<HttpError> + Send + 'static,
    {
        let time = Duration::from_millis(self.config.body_ms);
        body::read(body, Limit { bytes, time }, &self.budget, parse).await
    }
}

/// A pure function from a body's bytes.
type Parser<T, E> = fn(&[u8]) -> Result<T, E>;

/// Serves until `stop` is cancelled and the requests that are open by then are answered.
///
/// Shutting the sandbox down is the caller's: its `shutdown` bounds how long the open requests take.
///
/// # Errors
/// The configuration can't be accepted.
pub async fn serve(
    listener: TcpListener,
    sandbox: Arc<LocalSandbox>,
    config: HttpConfig,
    stop: CancellationToken,
) -> io::Result<()> {
    config.validate().map_err(|invalid| io::Error::new(io::ErrorKind::InvalidInput, invalid))?;
    let bounds = Bounds {
        connections: match config.connections {
            0 => rocstar_http::half_of_open_files(),
            given => given,
        },
        idle: Duration::from_millis(config.idle_connection_ms),
    };
    let app = Arc::new(App {
        budget: Budget::new(config.held_body_bytes),
        metrics: Metrics::default(),
        stop: stop.clone(),
        local: sandbox,
        config,
    });
    rocstar_http::serve(listener, router(app), bounds, stop, None).await;
    Ok(())
}

fn router(app: Arc<App>) -> Router {
    let guarded = Router::new()
        .merge(native::routes())
        .merge(code_judge::routes())
        .merge(sandbox_fusion::routes())
        .merge(operations::guarded_routes())
        .with_state(Arc::clone(&app))
        .merge(operations::mcp_routes(&app))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::require_token));
    Router::new()
        .merge(operations::open_routes())
        .with_state(Arc::clone(&app))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(app, metrics::count))
}

async fn no_route(uri: Uri) -> HttpError {
    HttpError::new(Code::NotFound, format!("there is no route `{}`", uri.path()))
        .hint("`GET /v1/openapi.json` lists the native API")
}

async fn no_method(method: Method, uri: Uri) -> HttpError {
    HttpError::new(Code::MethodNotAllowed, format!("`{}` does not take {method}", uri.path()))
}
