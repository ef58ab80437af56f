//! Reads what `/metrics` of another server says, back into the counts that it was made from.
//!
//! Invariant: what this crate wrote comes out as it was; of anything else, what has our names is read,
//! and what is no number is 0.

use std::collections::BTreeMap;

use crate::stats::{HISTOGRAM_BOUNDS_US, Histogram, Now, Stats};

const PREFIX: &str = "rocstar_sandbox_";

/// Numbers by name and label, such as `outcomes_total` and `ok`.
struct Scrape<'t>(BTreeMap<(&'t str, &'t str), f64>);

impl<'t> Scrape<'t> {
    fn read(text: &'t str) -> Self {
        let line = |line: &'t str| {
            let (name, value) = line.strip_prefix(PREFIX)?.rsplit_once(' ')?;
            let (name, label) = name.split_once('{').unwrap_or((name, ""));
            let label = label.split('"').nth(1).unwrap_or_default();
            Some(((name, label), value.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn get(&self, name: &str, label: &str) -> u64 {
        self.0.get(&(name, label)).copied().unwrap_or(0.0) as u64
    }

    fn histogram(&self, name: &str) -> Histogram {
        let mut histogram = Histogram::default();
        let bucket = format!("{name}_bucket");
        // Buckets are cumulative there; their bounds are sorted as numbers, not as text.
        let mut buckets: Vec<(f64, u64)> = self
            .0
            .iter()
            .filter(|((found, _), _)| *found == bucket)
            .filter_map(|((_, bound), count)| Some((bound.parse().ok()?, *count as u64)))
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut before = 0;
        for (bound_s, count) in buckets {
            let bound_us = (bound_s * 1e6).round() as u64;
            let place = HISTOGRAM_BOUNDS_US.partition_point(|known| *known < bound_us);
            histogram.counts[place] += count.saturating_sub(before);
            before = count;
        }
        let sum_s = self.0.get(&(&*format!("{name}_sum"), "")).copied().unwrap_or(0.0);
        histogram.sum_us = (sum_s * 1e6).round() as u64;
        histogram
    }
}

/// The state of the server that gave `text`, but for its isolation.
pub(crate) fn now(text: &str) -> Now {
    let scrape = Scrape::read(text);
    let one = |name: &str| scrape.get(name, "");
    let mut stats = Stats {
        accepted: one("calls_accepted_total"),
        answered: one("calls_answered_total"),
        cancelled: one("calls_cancelled_total"),
        queued: one("calls_queued"),
        running: one("calls_running"),
        queued_bytes: one("queued_bytes"),
        turns: one("turns"),
        clients: one("clients"),
        deadline_passed: one("calls_deadline_passed_total"),
        shared: one("calls_shared_total"),
        queue_wait: scrape.histogram("queue_wait_seconds"),
        run_time: scrape.histogram("run_seconds"),
        ..Stats::default()
    };
    let refused = |reason: &str| scrape.get("calls_refused_total", reason);
    stats.refused.full = refused("full");
    stats.refused.invalid = refused("invalid");
    stats.refused.shutting_down = refused("shutting_down");
    let outcomes = scrape.0.iter().filter(|((name, _), _)| *name == "outcomes_total");
    stats.outcomes = outcomes.map(|((_, name), it)| ((*name).to_owned(), *it as u64)).collect();
    let ended = |cause: &str| scrape.get("sessions_ended_total", cause);
    stats.sessions.open = one("sessions_open");
    stats.sessions.opened = one("sessions_opened_total");
    stats.sessions.forked = one("sessions_forked_total");
    stats.sessions.closed = ended("closed");
    stats.sessions.idle = ended("idle");
    stats.sessions.lifetime = ended("lifetime");
    stats.sessions.died = ended("died");
    stats.sessions.shut_down = ended("shut_down");
    Now { stats, slots: one("slots"), turns: one("turn_limit"), ..Now::default() }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_no_scrape_reads_as_nothing() {
        for text in ["", "<html>", "rocstar_sandbox_calls_running x", "rocstar_sandbox_a{b 1"] {
            assert_eq!(now(text), Now::default(), "{text}");
        }
    }
}
