//! What `/metrics` says: the sandbox's own count of calls, and the HTTP layer's.
//!
//! One table, [`Snapshot::encode`], holds every name and its meaning; `docs/metrics.md` is made from
//! it. Invariant: a scrape shows one moment, so `accepted = answered + cancelled + queued + running`
//! holds in it.

use std::fmt;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rocstar_http::metrics::{Responses, Table, scrape};

use super::App;
use super::error::{Code, HttpError};
use crate::stats::{HISTOGRAM_BOUNDS_US, Histogram, Now, Stats};

/// Counters of the HTTP layer. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    responses: Responses,
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
    /// Everything, as OpenMetrics text.
    pub(super) fn render(&self, now: &Now, body_bytes: usize) -> Result<String, HttpError> {
        let snapshot = Snapshot { now: now.clone(), body_bytes };
        let scrape = scrape("rocstar_sandbox", snapshot, &self.responses, |_| ());
        scrape.map_err(|fmt::Error| HttpError::new(Code::Internal, "the metrics did not encode"))
    }
}

/// The counts of one moment.
#[derive(Debug)]
struct Snapshot {
    now: Now,
    body_bytes: usize,
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { now, body_bytes } = self;
        let Now { stats, slots, turns, .. } = now;
        let Stats { refused, sessions, .. } = stats;
        let mut table = Table(encoder);
        table.counter("calls_accepted", "Calls taken into the queue", stats.accepted)?;
        table.counter("calls_answered", "Calls whose caller got an answer", stats.answered)?;
        table.counter("calls_cancelled", "Calls given up before an answer", stats.cancelled)?;
        table.gauge("calls_queued", "Calls waiting now", stats.queued)?;
        table.gauge("calls_running", "Calls running now", stats.running)?;
        table.gauge("queued_bytes", "Programs and input of waiting calls", stats.queued_bytes)?;
        table.gauge("turns", "Running calls that hold a turn at full priority", stats.turns)?;
        table.gauge("turn_limit", "Calls that can hold one", *turns)?;
        table.gauge("slots", "Programs that can be alive at once, sessions included", *slots)?;
        table.gauge("clients", "Clients with a waiting or running call", stats.clients)?;
        table.counters(
            "calls_refused",
            "Requests not accepted, by `reason`",
            "reason",
            [
                ("full", refused.full),
                ("invalid", refused.invalid),
                ("shutting_down", refused.shutting_down),
            ],
        )?;
        table.counters(
            "outcomes",
            "Calls that ran, by `outcome`",
            "outcome",
            stats.outcomes.iter().map(|(name, &count)| (name.as_str(), count)),
        )?;
        table.counter(
            "calls_deadline_passed",
            "Calls answered without a run, since their time to start was over",
            stats.deadline_passed,
        )?;
        table.counter(
            "calls_shared",
            "Calls of a batch that took the report of an identical one",
            stats.shared,
        )?;
        let help = "Time from a call's acceptance to its start";
        histogram(&mut table, "queue_wait_seconds", help, &stats.queue_wait)?;
        histogram(&mut table, "run_seconds", "Time that a call ran", &stats.run_time)?;
        table.gauge("sessions_open", "Sessions alive now", sessions.open)?;
        table.counter("sessions_opened", "Sessions opened, forks included", sessions.opened)?;
        table.counter("sessions_forked", "Sessions branched from another", sessions.forked)?;
        table.counters(
            "sessions_ended",
            "Sessions ended, by `cause`",
            "cause",
            [
                ("closed", sessions.closed),
                ("idle", sessions.idle),
                ("lifetime", sessions.lifetime),
                ("died", sessions.died),
                ("shut_down", sessions.shut_down),
            ],
        )?;
        table.gauge(
            "http_body_bytes",
            "Bytes of request bodies being read or parsed",
            *body_bytes as u64,
        )
    }
}

fn histogram(table: &mut Table<'_>, name: &str, help: &str, counted: &Histogram) -> fmt::Result {
    let bounds_s = HISTOGRAM_BOUNDS_US.iter().map(|&bound_us| bound_us as f64 / 1e6);
    let buckets: Vec<(f64, u64)> = bounds_s.chain([f64::INFINITY]).zip(counted.counts).collect();
    table.histogram(name, help, counted.sum_us as f64 / 1e6, &buckets)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use pretty_assertions::assert_eq;
    use rocstar_http::metrics::markdown;

    use super::*;

    /// `docs/metrics.md`, made from what a scrape says of itself.
    fn document() -> String {
        let metrics = Metrics::default();
        metrics.responses.count(None, StatusCode::OK);
        let rendered = metrics.render(&Now::default(), 0).unwrap();
        let mut document = String::from(
            "# Metrics of `rocstar sandbox serve`\n\n`GET /metrics` answers them as OpenMetrics \
             text, which Prometheus reads. In every scrape `calls_accepted = calls_answered + \
             calls_cancelled + calls_queued + calls_running`.\n\n",
        );
        document.push_str(&markdown(&rendered));
        document
    }

    #[test]
    fn each_metric_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("ROCSTAR_REFRESH").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            committed,
            document(),
            "refresh docs/metrics.md: ROCSTAR_REFRESH=1 cargo test -p rocstar-sandbox metrics"
        );
    }

    #[test]
    fn a_histogram_counts_everything_once() {
        let mut now = Now { slots: 8, turns: 6, ..Now::default() };
        now.stats.run_time.counts[0] = 2;
        now.stats.run_time.counts[HISTOGRAM_BOUNDS_US.len()] = 3;
        now.stats.run_time.sum_us = 1_500_000;
        (now.stats.accepted, now.stats.refused.full, now.stats.sessions.idle) = (5, 4, 3);
        now.stats.outcomes = [("ok".to_owned(), 5), ("exception".to_owned(), 0)].into();
        let text = Metrics::default().render(&now, 0).unwrap();
        assert_eq!(super::super::scrape::now(&text), now, "{text}");
        for line in [
            "rocstar_sandbox_run_seconds_sum 1.5",
            "rocstar_sandbox_run_seconds_count 5",
            "rocstar_sandbox_run_seconds_bucket{le=\"0.00025\"} 2",
            "rocstar_sandbox_run_seconds_bucket{le=\"600.0\"} 2",
            "rocstar_sandbox_run_seconds_bucket{le=\"+Inf\"} 5",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
