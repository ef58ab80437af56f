//! The figures of one benchmark run, from its samples. Pure.
//!
//! Invariant: `calls = ok + wrong + refused + lost`; latencies are those of the `ok` calls only; a
//! figure that can't be known is `null`, never zero.

use std::time::Duration;

use serde::Serialize;

use super::load::{Finished, Sample};
use super::wire::Judged;
use crate::quantity::show_size;

/// What `--json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) case: &'static str,
    pub(crate) api: &'static str,
    /// The server, or nothing where the benchmark ran its own.
    pub(crate) url: Option<String>,
    /// How the load was made, in words.
    pub(crate) load: String,
    /// Calls sent.
    pub(crate) calls: usize,
    /// Calls answered with exactly the expected text.
    pub(crate) ok: usize,
    /// Calls answered with anything else.
    pub(crate) wrong: usize,
    /// Calls turned away by a full queue.
    pub(crate) refused: usize,
    /// Calls without an answer.
    pub(crate) lost: usize,
    pub(crate) wall_s: f64,
    /// `ok` calls a second.
    pub(crate) calls_per_s: f64,
    pub(crate) mean_ms: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
    /// CPU time of the server and all its descendants, per call. Known for the benchmark's own
    /// service and with `--pid`, but not behind infinite loops.
    pub(crate) cpu_ms_per_call: Option<f64>,
    /// CPU time of the benchmark's own client, per call; not part of the above.
    pub(crate) client_cpu_ms_per_call: Option<f64>,
    /// Largest sampled sum of proportional set sizes over the server and all its descendants.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// High-water mark of the server's own process.
    pub(crate) server_peak_rss_bytes: Option<u64>,
    /// `--case loop`: longest time from a program's limit until its slot ran the next program.
    pub(crate) slot_free_ms: Option<f64>,
    /// Isolation layers that held; known for the benchmark's own service.
    pub(crate) isolation: Option<Vec<String>>,
    pub(crate) degraded: Option<bool>,
    /// The first thing that went wrong.
    pub(crate) first_problem: Option<String>,
}

/// What the server's processes used while the load ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) client_cpu_ms: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) server_peak_rss_bytes: Option<u64>,
}

impl Summary {
    /// Puts the figures together; what describes the run is filled in by the caller.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn new(finished: &Finished, used: Used) -> Self {
        let samples = &finished.samples;
        let count = |wanted: fn(&Judged) -> bool| {
            samples.iter().filter(|sample| wanted(&sample.judged)).count()
        };
        let calls = samples.len();
        let ok = count(|judged| *judged == Judged::Ok);
        let per_call = |total: Option<u64>| Some(total? as f64 / calls as f64);
        let wall_s = finished.wall.as_secs_f64();
        let latencies_ms = sorted_latencies_ms(samples);
        let percentile = |share: f64| nearest_rank(&latencies_ms, share);
        Self {
            case: "",
            api: "",
            url: None,
            load: String::new(),
            calls,
            ok,
            wrong: count(|judged| matches!(judged, Judged::Wrong(_))),
            refused: count(|judged| *judged == Judged::Refused),
            lost: count(|judged| matches!(judged, Judged::Lost(_))),
            wall_s,
            calls_per_s: ok as f64 / wall_s,
            mean_ms: (ok > 0).then(|| latencies_ms.iter().sum::<f64>() / ok as f64),
            p50_ms: percentile(0.50),
            p90_ms: percentile(0.90),
            p99_ms: percentile(0.99),
            max_ms: percentile(1.0),
            cpu_ms_per_call: per_call(used.cpu_ms),
            client_cpu_ms_per_call: per_call(used.client_cpu_ms),
            peak_rss_bytes: used.peak_rss_bytes,
            server_peak_rss_bytes: used.server_peak_rss_bytes,
            slot_free_ms: None,
            isolation: None,
            degraded: None,
            first_problem: samples.iter().find_map(|sample| match &sample.judged {
                Judged::Wrong(how) | Judged::Lost(how) => Some(how.clone()),
                Judged::Ok | Judged::Refused => None,
            }),
        }
    }

    /// The figures as rows of a table.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let milliseconds = |value: Option<f64>| {
            value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.2} ms"))
        };
        let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), show_size);
        let mut rows = vec![
            ("calls", self.calls.to_string()),
            ("  ok", self.ok.to_string()),
            ("  wrong", self.wrong.to_string()),
            ("  refused", self.refused.to_string()),
            ("  lost", self.lost.to_string()),
            ("time", format!("{:.2} s", self.wall_s)),
            ("rate", format!("{:.1} calls/s", self.calls_per_s)),
            ("latency, mean", milliseconds(self.mean_ms)),
            ("latency, p50", milliseconds(self.p50_ms)),
            ("latency, p90", milliseconds(self.p90_ms)),
            ("latency, p99", milliseconds(self.p99_ms)),
            ("latency, max", milliseconds(self.max_ms)),
            ("server CPU a call", milliseconds(self.cpu_ms_per_call)),
            ("client CPU a call", milliseconds(self.client_cpu_ms_per_call)),
            ("peak memory, all processes", size(self.peak_rss_bytes)),
            ("peak memory, server process", size(self.server_peak_rss_bytes)),
        ];
        if self.slot_free_ms.is_some() {
            rows.push(("slot free after time-out", milliseconds(self.slot_free_ms)));
        }
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
    }
}

fn sorted_latencies_ms(samples: &[Sample]) -> Vec<f64> {
    let ok = samples.iter().filter(|sample| sample.judged == Judged::Ok);
    let mut latencies: Vec<f64> = ok.map(|sample| to_ms(sample.latency)).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// Milliseconds as a number for people.
pub(crate) fn to_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// The smallest value that at least `share` of the values do not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share from 0 to 1 of a small count"
)]
fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Summary, Used, nearest_rank};
    use crate::commands::sandbox::bench::load::{Finished, Sample};
    use crate::commands::sandbox::bench::wire::Judged;

    #[test]
    fn counts_add_up_and_only_right_answers_are_timed() {
        let sample =
            |judged, milliseconds| Sample { judged, latency: Duration::from_millis(milliseconds) };
        let finished = Finished {
            samples: vec![
                sample(Judged::Ok, 1),
                sample(Judged::Wrong("x".to_owned()), 50),
                sample(Judged::Refused, 60),
                sample(Judged::Lost("y".to_owned()), 70),
                sample(Judged::Ok, 3),
            ],
            wall: Duration::from_secs(2),
        };
        let used = Used { cpu_ms: Some(10), ..Used::default() };
        let summary = Summary::new(&finished, used);
        assert_eq!(
            (summary.calls, summary.ok, summary.wrong, summary.refused, summary.lost),
            (5, 2, 1, 1, 1)
        );
        assert_eq!((summary.mean_ms, summary.max_ms), (Some(2.0), Some(3.0)));
        assert_eq!((summary.calls_per_s, summary.cpu_ms_per_call), (1.0, Some(2.0)));
        assert_eq!(summary.client_cpu_ms_per_call, None);
        assert_eq!(summary.first_problem.as_deref(), Some("x"));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(nearest_rank(&values, 0.50), Some(100.0));
        assert_eq!(nearest_rank(&values, 0.99), Some(198.0));
        assert_eq!(nearest_rank(&values, 1.0), Some(200.0));
        assert_eq!(nearest_rank(&[], 0.5), None);
    }
}
