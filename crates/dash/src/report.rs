//! A report of one run or several: one file that shows curves, the best and the worst episodes, the
//! settings and the environment, to attach to a paper or an issue.
//!
//! Invariant: the HTML is whole in itself and has no script; whatever comes from a run is escaped. The
//! same content is given as Markdown.

mod html;
mod markdown;
mod pick;
mod svg;

use serde::Serialize;
use serde_json::Value;

use crate::curves::Rows;
use crate::{Error, Run};

pub(crate) use pick::Shown;

/// Runs of one report.
const MOST_RUNS: usize = 12;
/// Points of a curve.
const POINTS: usize = 400;

/// What is told of some runs.
#[derive(Debug)]
pub struct Report {
    runs: Vec<OfRun>,
    panels: Vec<Panel>,
}

/// What is told of a run.
#[derive(Debug)]
struct OfRun {
    name: String,
    state: &'static str,
    step: u64,
    steps: Option<u64>,
    notes: String,
    tags: Vec<String>,
    results: Results,
    episodes: Vec<Shown>,
    config: String,
    environment: Option<Value>,
    notices: Vec<String>,
}

/// The numbers that runs are compared by.
#[derive(Debug, Clone, Default, Serialize)]
struct Results {
    /// Accuracy on held-out tasks at the first and the last evaluation, with the standard error.
    before: Option<(f64, f64)>,
    after: Option<(f64, f64)>,
    accuracy: Option<f64>,
    tool_errors_right: Option<f64>,
    response_tokens: Option<f64>,
    seconds: f64,
    selection: String,
    seed: u64,
}

impl Results {
    /// As a row of the table of runs, behind what names the run.
    fn cells(&self) -> [String; 8] {
        [
            self.selection.clone(),
            self.seed.to_string(),
            with_error(self.before),
            with_error(self.after),
            percent(self.accuracy),
            percent(self.tool_errors_right),
            self.response_tokens.map_or_else(|| "–".to_owned(), number),
            format!("{} s", number(self.seconds)),
        ]
    }
}

/// A chart: one number of all runs.
#[derive(Debug)]
struct Panel {
    name: String,
    unit: &'static str,
    meaning: &'static str,
    lines: Vec<Line>,
}

/// A run's course of a number.
#[derive(Debug)]
struct Line {
    run: usize,
    points: Vec<(f64, f64)>,
}

/// The numbers that are drawn, in order, with the kind of line that has them.
const DRAWN: [(&str, &str); 13] = [
    ("rl_step", "accuracy"),
    ("rl_evaluation", "accuracy"),
    ("rl_step", "tool_error_share"),
    ("rl_step", "tool_error_share_right"),
    ("rl_step", "tool_error_share_kept"),
    ("rl_step", "response_tokens_mean"),
    ("rl_step", "turns_mean"),
    ("rl_step", "entropy_mean"),
    ("rl_step", "gradient_norm"),
    ("rl_step", "mismatch_kl"),
    ("rl_step", "tokens_per_s"),
    ("sft_step", "loss"),
    ("sft_evaluation", "loss"),
];

impl Report {
    /// The report of these runs.
    ///
    /// # Errors
    /// There are none, too many, or one's metrics can't be opened. What else can't be read is told in
    /// the report.
    pub fn of(runs: &[&Run]) -> Result<Self, Error> {
        if runs.is_empty() || runs.len() > MOST_RUNS {
            return Err(Error::ReportOf { runs: runs.len(), most: MOST_RUNS });
        }
        let mut panels = Vec::new();
        for (kind, name) in DRAWN {
            let mut lines = Vec::new();
            for (number, run) in runs.iter().enumerate() {
                let curves = run.curves()?;
                let points = curves.rows(kind).map(|rows| points(rows, name)).unwrap_or_default();
                if !points.is_empty() {
                    lines.push(Line { run: number, points });
                }
            }
            let metric = rocstar_record::metric::find(name);
            if !lines.is_empty() {
                panels.push(Panel {
                    name: title(kind, name),
                    unit: metric.map_or("", |metric| metric.unit),
                    meaning: metric.map_or("", |metric| metric.meaning),
                    lines,
                });
            }
        }
        let runs = runs.iter().map(|run| OfRun::read(run)).collect::<Result<_, _>>()?;
        Ok(Self { runs, panels })
    }

    /// One self-contained page.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// The same as Markdown, its curves as tables of a few points.
    pub fn to_markdown(&self) -> String {
        markdown::text(self)
    }
}

fn title(kind: &str, name: &str) -> String {
    match kind {
        "rl_evaluation" => format!("held-out {}", name.replace('_', " ")),
        "sft_evaluation" => format!("evaluation {}", name.replace('_', " ")),
        _ => name.replace('_', " "),
    }
}

/// Step and number, thinned out by leaving rows out.
fn points(rows: &Rows, name: &str) -> Vec<(f64, f64)> {
    let Some(column) = rows.columns.get(name) else { return Vec::new() };
    let all: Vec<(f64, f64)> = rows
        .steps
        .iter()
        .zip(column)
        .filter(|(_, value)| value.is_finite())
        .map(|(step, value)| (*step as f64, *value))
        .collect();
    let each = all.len().div_ceil(POINTS).max(1);
    let last = all.last().copied();
    let mut thin: Vec<(f64, f64)> = all.into_iter().step_by(each).collect();
    if thin.last() != last.as_ref() {
        thin.extend(last);
    }
    thin
}

impl OfRun {
    fn read(run: &Run) -> Result<Self, Error> {
        let overview = run.overview(None);
        let mut notices = overview.notices;
        let mut told = |error: rocstar_record::run::Error| {
            notices.push(run.without_path(&error.to_string()));
        };
        let config = run.reader().config().map_err(&mut told).unwrap_or_default();
        let environment = run.reader().environment().map_err(&mut told).unwrap_or_default();
        let results = Results::of(run)?;
        let (episodes, more) = pick::best_and_worst(run);
        notices.extend(more);
        Ok(Self {
            name: run.name().to_owned(),
            state: overview.state,
            step: overview.step,
            steps: overview.steps,
            notes: overview.notes.text,
            tags: overview.notes.tags,
            results,
            episodes,
            config,
            environment,
            notices,
        })
    }
}

impl Results {
    fn of(run: &Run) -> Result<Self, Error> {
        let curves = run.curves()?;
        let recipe = run.recipe();
        let mut results = Self { seed: recipe.seed, ..Self::default() };
        if let Some(rows) = curves.rows("rl_evaluation") {
            results.before = accuracy(rows, 0);
            results.after = rows.steps.len().checked_sub(1).and_then(|row| accuracy(rows, row));
        }
        if let Some(rows) = curves.rows("rl_step") {
            results.accuracy = rows.last("accuracy");
            results.tool_errors_right = rows.last("tool_error_share_right");
            results.response_tokens = rows.last("response_tokens_mean");
        }
        let seconds = curves.kinds().filter_map(|(_, rows)| rows.columns.get("seconds"));
        results.seconds = seconds.flatten().filter(|it| it.is_finite()).sum();
        let stage = recipe.stages.iter().rev().find(|stage| stage.kind == "rl");
        let chosen = stage.and_then(|stage| Some((stage, stage.selection.as_ref()?)));
        results.selection = chosen.map_or_else(
            || "–".to_owned(),
            |(stage, selection)| {
                let rocstar_grpo::RocConfig { mode, keep, epsilon, .. } = selection;
                let samples = stage.samples.map_or_else(String::new, |it| format!(" of {it}"));
                match mode {
                    rocstar_grpo::Mode::Off => format!("off, {keep}{samples}"),
                    rocstar_grpo::Mode::Paper => format!("paper, {keep}{samples}, ε {epsilon}"),
                    rocstar_grpo::Mode::Released => format!("released, {keep}{samples}"),
                }
            },
        );
        Ok(results)
    }
}

/// Accuracy of an evaluation with its standard error.
fn accuracy(rows: &Rows, row: usize) -> Option<(f64, f64)> {
    let error = rows.value("accuracy_standard_error", row).unwrap_or(0.0);
    Some((rows.value("accuracy", row)?, error))
}

/// As a person reads it.
fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

/// A share with 95 % of what chance could make of it.
fn with_error(value: Option<(f64, f64)>) -> String {
    value.map_or_else(
        || "–".to_owned(),
        |(value, error)| format!("{:.1} ± {:.1} %", 100.0 * value, 196.0 * error),
    )
}

/// A number with four digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        size => {
            let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
            let text = format!("{value:.digits$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        let shown = [0.0, 1.0, 0.123_456, 31.491, 15_530.4, 0.000_012, -2.5].map(number);
        assert_eq!(shown, ["0", "1", "0.1235", "31.49", "15530", "1.20e-5", "-2.5"]);
        assert_eq!(with_error(Some((0.5, 0.01))), "50.0 ± 2.0 %");
    }

    #[test]
    fn a_thinned_curve_keeps_its_end() {
        let steps: Vec<u64> = (1..=1_001).collect();
        let values = steps.iter().map(|step| *step as f64).collect();
        let rows = Rows { steps, columns: [("loss".to_owned(), values)].into() };
        let points = points(&rows, "loss");
        assert!(points.len() <= POINTS + 1);
        assert_eq!(points.last(), Some(&(1_001.0, 1_001.0)));
    }
}
