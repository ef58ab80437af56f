//! The latest metrics of a run over HTTP, for Prometheus to fetch while it trains.
//!
//! Invariant: serving changes nothing of the run. The address is bound before anything slow starts, and
//! is given back when the run ends; what is told there is what the run has written down.

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use clap::Args;
use rocstar_record::sink::Prometheus;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::service;
use crate::terminal::Terminal;

/// The text format that is served.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where metrics are served.
#[derive(Debug, Args)]
pub(crate) struct MetricsOptions {
    /// Serve the latest metrics at `/metrics` of this address, for Prometheus; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT")]
    metrics_address: Option<String>,
    /// Serve metrics on an address that other machines reach: everybody there can read them
    #[arg(long, requires = "metrics_address")]
    allow_public_metrics: bool,
}

impl MetricsOptions {
    /// Listens, where that is wanted.
    ///
    /// # Errors
    /// The address is none, is taken, or is open to other machines and that was not allowed.
    pub(crate) fn bind(&self, runtime: &Runtime) -> anyhow::Result<Option<Listening>> {
        let Some(address) = self.metrics_address.as_deref() else { return Ok(None) };
        let bound = runtime.block_on(service::bind_for(
            address,
            self.allow_public_metrics,
            "serve everybody there with `--allow-public-metrics`, or on 127.0.0.1",
        ));
        let listener = bound.context("metrics can't be served")?;
        Ok(Some(Listening { listener }))
    }
}

/// An address that is bound and not served yet.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
}

impl Listening {
    /// Serves the values until the runtime ends, and says where.
    pub(crate) fn serve(self, runtime: &Runtime, prometheus: Prometheus, terminal: Terminal) {
        if let Ok(address) = self.listener.local_addr() {
            terminal.note(format_args!("metrics:   http://{address}/metrics"));
        }
        let router = Router::new().route("/metrics", get(latest)).with_state(prometheus);
        runtime.spawn(async move {
            // Errors of single connections end those; the listener itself never gives one.
            let _ = axum::serve(self.listener, router).await;
        });
    }
}

async fn latest(State(prometheus): State<Prometheus>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], prometheus.render()).into_response()
}
