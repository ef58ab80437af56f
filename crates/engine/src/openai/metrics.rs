//! What `/metrics` says: the engine's own figures and the HTTP layer's.
//!
//! One table, [`Snapshot::encode`], holds the engine's names and their meaning; with the histograms
//! below it, `docs/metrics-serve.md` is made from what a scrape says of itself.

use std::fmt;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use rocstar_http::metrics::{Responses, Table, scrape};

use super::App;
use super::error::{ApiError, Code};
use crate::generation::Usage;
use crate::stats::Stats;

/// Upper bounds of the histograms' buckets, in seconds.
const BOUNDS_S: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
    600.0,
];

/// Figures of the HTTP layer.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    responses: Responses,
    waited: Histogram,
    first_token: Histogram,
    total: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram = || Histogram::new(BOUNDS_S);
        Self {
            responses: Responses::default(),
            waited: histogram(),
            first_token: histogram(),
            total: histogram(),
        }
    }
}

/// Counts each response by its route and status.
pub(super) async fn count(
    State(app): State<Arc<App>>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    app.metrics.responses.count(path.as_ref(), response.status());
    response
}

impl Metrics {
    /// Takes the times of an answer that ended.
    pub(super) fn observe(&self, usage: &Usage) {
        self.waited.observe(usage.waited.as_secs_f64());
        if usage.new_tokens > 0 {
            self.first_token.observe(usage.first_token.as_secs_f64());
        }
        self.total.observe(usage.total.as_secs_f64());
    }

    /// Everything, as OpenMetrics text.
    ///
    /// # Errors
    /// It can't be written, which does not happen.
    pub(super) fn render(&self, stats: &Stats) -> Result<String, ApiError> {
        let times = [
            ("queue_wait_seconds", "Time from an answer's request until it ran", &self.waited),
            (
                "first_token_seconds",
                "Time from an answer's request to its first token",
                &self.first_token,
            ),
            ("answer_seconds", "Time from an answer's request to its end", &self.total),
        ];
        let scrape = scrape("rocstar_engine", Snapshot(*stats), &self.responses, |registry| {
            for (name, help, histogram) in times {
                registry.register(name, help, histogram.clone());
            }
        });
        scrape.map_err(|fmt::Error| ApiError::new(Code::Internal, "the metrics did not encode"))
    }
}

/// The engine's figures at one moment.
#[derive(Debug)]
struct Snapshot(Stats);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.0;
        let mut table = Table(encoder);
        table.gauge("weight_version", "Version of the weights in use", stats.version.0)?;
        table.gauge("weight_bytes", "Bytes of the weights in memory", stats.weight_bytes as u64)?;
        table.gauge("kv_bytes", "Bytes of the key and value cache", stats.kv_bytes as u64)?;
        table.gauge("running", "Answers being generated now", stats.running as u64)?;
        table.gauge("waiting", "Answers waiting now", stats.waiting as u64)?;
        table.gauge("kv_blocks", "Blocks of the cache", stats.kv_blocks as u64)?;
        table.gauge("kv_blocks_free", "Blocks that hold nothing", stats.kv_blocks_free as u64)?;
        table.gauge(
            "kv_blocks_cached",
            "Blocks that hold only a prefix for later prompts",
            stats.kv_blocks_cached as u64,
        )?;
        table.counter("requests", "Answers asked for and accepted", stats.requests)?;
        table.counter("refused", "Answers refused since too many waited", stats.refused)?;
        table.counter("finished", "Answers ended, in whichever way", stats.finished)?;
        table.counter("cancelled", "Answers given up by their clients", stats.cancelled)?;
        table.counter("failed", "Answers that the engine failed", stats.failed)?;
        table.counter("prompt_tokens", "Tokens of prompts", stats.prompt_tokens)?;
        table.counter(
            "cached_tokens",
            "Tokens of prompts that were computed before",
            stats.cached_tokens,
        )?;
        table.counter(
            "prefilled_tokens",
            "Tokens computed before sampling, again after a pre-emption",
            stats.prefilled_tokens,
        )?;
        table.counter("new_tokens", "Tokens sampled", stats.new_tokens)?;
        table.counter(
            "pre_emptions",
            "Answers that lost their place for a while",
            stats.pre_emptions,
        )?;
        table.counter("weight_loads", "Weights loaded after the first", stats.weight_loads)?;
        table.counter("steps", "Steps of the engine", stats.steps)?;
        table.seconds("busy_seconds", "Time in steps", stats.busy)?;
        table.seconds("forward_seconds", "Time in the model's arithmetic", stats.forward)?;
        table.seconds("sampling_seconds", "Time in the sampler", stats.sampling)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use pretty_assertions::assert_eq;
    use rocstar_http::metrics::markdown;

    use super::*;

    /// `docs/metrics-serve.md`, made from what a scrape says of itself.
    fn document() -> String {
        let metrics = Metrics::default();
        metrics.responses.count(None, StatusCode::OK);
        let rendered = metrics.render(&Stats::default()).unwrap();
        let mut document = String::from(
            "# Metrics of `rocstar serve`\n\n`GET /metrics` answers them as OpenMetrics text, which \
             Prometheus reads. An answer is one choice of a request; a request for `n` choices \
             counts `n` times.\n\n",
        );
        document.push_str(&markdown(&rendered));
        document
    }

    #[test]
    fn each_metric_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics-serve.md");
        if std::env::var_os("ROCSTAR_REFRESH").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            committed,
            document(),
            "refresh docs/metrics-serve.md: ROCSTAR_REFRESH=1 cargo test -p rocstar-engine metrics"
        );
    }
}
