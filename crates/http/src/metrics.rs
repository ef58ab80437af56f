//! Metrics as OpenMetrics text, which Prometheus reads.
//!
//! Invariants: every metric has a meaning in a scrape, from which the documents are made; the label
//! of a route is always one that exists, so that a scanner can't fill the registry.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use axum::extract::MatchedPath;
use axum::http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// How many answers were given, by route and status. Cloning shares the counts.
#[derive(Debug, Clone, Default)]
pub struct Responses(Family<Answered, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    status: u16,
}

impl Responses {
    /// Counts an answer; of a route that does not exist as `other`.
    pub fn count(&self, route: Option<&MatchedPath>, status: StatusCode) {
        self.add(route.map_or("other", MatchedPath::as_str), status);
    }

    fn add(&self, route: &str, status: StatusCode) {
        let answered = Answered { route: route.to_owned(), status: status.as_u16() };
        self.0.get_or_create(&answered).inc();
    }
}

/// A scrape: what `collector` gives, the responses, and what `more` registers, with `prefix` before
/// every name.
///
/// # Errors
/// A value does not encode, which those of this crate always do.
pub fn scrape(
    prefix: &str,
    collector: impl Collector,
    responses: &Responses,
    more: impl FnOnce(&mut Registry),
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(collector));
    let counts = responses.0.clone();
    registry.register("http_responses", "HTTP responses, by `route` and `status`", counts);
    more(&mut registry);
    let mut rendered = String::new();
    text::encode(&mut rendered, &registry)?;
    Ok(rendered)
}

/// Writes the metrics of one moment, one by one.
#[derive(Debug)]
pub struct Table<'a>(pub DescriptorEncoder<'a>);

/// What the histograms here don't have.
type Exemplars = HashMap<usize, Exemplar<[(&'static str, &'static str); 0], f64>>;

/// Each method writes one metric, and fails where the encoder does.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Table<'_> {
    fn describe<'s>(
        &'s mut self,
        name: &'s str,
        help: &'s str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    /// What only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.describe(name, help, MetricType::Counter)?)
    }

    /// A time that only grows.
    pub fn seconds(&mut self, name: &str, help: &str, value: Duration) -> fmt::Result {
        let seconds = value.as_secs_f64();
        ConstCounter::new(seconds).encode(self.describe(name, help, MetricType::Counter)?)
    }

    /// What rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        // The format's gauges are signed.
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(self.describe(name, help, MetricType::Gauge)?)
    }

    /// Counters of one kind, each with its value of the label.
    pub fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.describe(name, help, MetricType::Counter)?;
        for (value, count) in values {
            ConstCounter::new(count).encode(encoder.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }

    /// How many values lie in each bucket, the last up to infinity; and their sum.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sum: f64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.describe(name, help, MetricType::Histogram)?;
        encoder.encode_histogram(sum, count, buckets, None::<&Exemplars>)
    }
}

/// The metrics of a scrape as a table in Markdown, for the documents.
pub fn markdown(scrape: &str) -> String {
    let mut table = String::from("| name | type | meaning |\n|---|---|---|\n");
    let mut help = "";
    for line in scrape.lines() {
        if let Some((_, rest)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')) {
            help = rest.trim_end_matches('.');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let _ = writeln!(table, "| `{name}{suffix}` | {kind} | {help} |");
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[derive(Debug)]
    struct Values;

    impl Collector for Values {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut table = Table(encoder);
            table.counter("calls", "Calls", 3)?;
            table.seconds("busy_seconds", "Time at work", Duration::from_millis(1_500))?;
            table.gauge("held", "Held now", u64::MAX)?;
            table.counters("ends", "Ends, by `cause`", "cause", [("good", 1), ("bad", 2)])?;
            let buckets = [(0.5, 2), (f64::INFINITY, 3)];
            table.histogram("wait_seconds", "Time waited", 4.25, &buckets)
        }
    }

    #[test]
    fn a_scrape_has_every_value_once() {
        let responses = Responses::default();
        responses.add("/run", StatusCode::OK);
        responses.count(None, StatusCode::NOT_FOUND);
        let scrape = scrape("p", Values, &responses, |_| ()).unwrap();
        for line in [
            "p_calls_total 3",
            "p_busy_seconds_total 1.5",
            "p_held 9223372036854775807",
            "p_ends_total{cause=\"good\"} 1",
            "p_ends_total{cause=\"bad\"} 2",
            "p_wait_seconds_sum 4.25",
            "p_wait_seconds_count 5",
            "p_wait_seconds_bucket{le=\"0.5\"} 2",
            "p_wait_seconds_bucket{le=\"+Inf\"} 5",
            "p_http_responses_total{route=\"/run\",status=\"200\"} 1",
            "p_http_responses_total{route=\"other\",status=\"404\"} 1",
        ] {
            assert_eq!(scrape.lines().filter(|it| *it == line).count(), 1, "{line} in:\n{scrape}");
        }
        assert!(scrape.ends_with("# EOF\n"), "{scrape}");
    }

    #[test]
    fn the_table_has_a_row_a_metric() {
        let responses = Responses::default();
        responses.count(None, StatusCode::OK);
        let scrape = scrape("p", Values, &responses, |_| ()).unwrap();
        let table = markdown(&scrape);
        assert_eq!(table.lines().count(), 2 + 6, "{table}");
        assert!(table.contains("| `p_ends_total` | counter | Ends, by `cause` |\n"), "{table}");
        assert!(table.contains("| `p_held` | gauge | Held now |\n"), "{table}");
    }
}
