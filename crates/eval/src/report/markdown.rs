//! A result as text.

use crate::metrics::{AtK, Estimate};

use super::{EvalResult, Status};

/// The result with its protocol.
pub(super) fn result(result: &EvalResult) -> String {
    let protocol = &result.protocol;
    let mut text = format!("# {} on {}\n\n", protocol.model.name, protocol.suite.name);
    if result.status == Status::Partial {
        text += &format!("**Partial: {} attempts are missing.**\n\n", result.missing);
    }
    for (cause, count) in &result.failures {
        text += &format!("- {count} × failed: {}\n", one_line(cause));
    }
    text += if result.failures.is_empty() { "" } else { "\n" };
    text += "| | |\n|---|---:|\n";
    for (name, value) in rows(result) {
        text += &format!("| {} | {value} |\n", one_line(&name).replace('|', "\\|"));
    }
    text += &format!("\nProtocol: {}\n\n", protocol.settings.summary());
    let json = serde_json::to_string_pretty(protocol).unwrap_or_default();
    text += &format!("```json\n{json}\n```\n");
    text
}

/// What was measured, and the figures.
pub(super) fn rows(result: &EvalResult) -> Vec<(String, String)> {
    let mut rows = Rows(Vec::new());
    let Some(figures) = &result.figures else {
        rows.add("attempts", "0");
        return rows.0;
    };
    rows.add("problems", figures.problems.to_string());
    rows.add("attempts", figures.attempts.to_string());
    rows.add(format!("avg@{}", figures.samples), estimate(figures.score));
    for (category, rate) in &result.win_rates {
        let (lower, upper) = (percent(rate.interval.lower), percent(rate.interval.upper));
        let value = format!("{} ({lower} to {upper})", percent(rate.value));
        rows.add(format!("win rate, {category}"), value);
    }
    for at in chosen(&figures.pass) {
        rows.add(format!("pass@{}", at.k), estimate(at.estimate));
    }
    for at in chosen(&figures.consensus) {
        rows.add(format!("cons@{}", at.k), estimate(at.estimate));
    }
    for (name, value) in &figures.parts {
        rows.add(name.replace('_', " "), percent(*value));
    }
    for (name, category) in &figures.categories {
        rows.add(format!("{name} ({} problems)", category.problems), estimate(category.score));
    }
    if let Some(tokens) = figures.response_tokens_mean {
        rows.add("tokens of a response", format!("{tokens:.1}"));
    }
    rows.add("turns", format!("{:.2}", figures.turns_mean));
    rows.add("calls", format!("{:.2}", figures.calls_mean));
    if let Some(share) = figures.tool_error_share {
        rows.add("failed calls", percent(share));
    }
    rows.add("cut off", percent(figures.truncated_share));
    rows.add("unparseable", percent(figures.unparseable_share));
    rows.add("undecided", percent(figures.undecided_share));
    rows.add("time", time(result.spent.seconds));
    if let Some(rate) = result.spent.tokens_per_second {
        rows.add("tokens a second", format!("{rate:.1}"));
    }
    if let Some(cost) = result.spent.cost {
        rows.add("cost", format!("{cost:.4}"));
    }
    rows.0
}

struct Rows(Vec<(String, String)>);

impl Rows {
    fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }
}

/// Powers of two above one, and the last.
fn chosen(all: &[AtK]) -> impl Iterator<Item = &AtK> {
    let last = all.len();
    all.iter().filter(move |at| at.k > 1 && (at.k.is_power_of_two() || at.k == last))
}

/// `61.2 % ± 1.4`.
pub(crate) fn estimate(estimate: Estimate) -> String {
    let error = estimate.standard_error.map(|error| format!(" ± {:.1}", error * 100.0));
    percent(estimate.value) + &error.unwrap_or_default()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!("{seconds:.1} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
