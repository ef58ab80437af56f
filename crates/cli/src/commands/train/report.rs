//! What a run of reinforcement learning came to: the figures before and after, three episodes, and
//! what to do next.
//!
//! Invariant: every figure stands in the run's directory; only what the person waited is told by the
//! caller. So a run that was stopped and went on is reported as one that was not.

mod episodes;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rocstar_record::run::Reader;
use rocstar_train::Prepared;
use rocstar_train::rl::metrics::{RlEvaluationMetrics, RlStepMetrics};
use serde::Serialize;
use serde_json::Value;

use self::episodes::Told;
use super::command_line;
use super::show::{percent, show_seconds};
use crate::terminal::Terminal;

/// What a run wrote down of its reinforcement learning.
#[derive(Debug, Default)]
struct Lines {
    evaluations: Vec<RlEvaluationMetrics>,
    steps: Vec<RlStepMetrics>,
    /// What all steps and evaluations took.
    seconds: f64,
}

impl Lines {
    fn read(reader: &Reader) -> anyhow::Result<Self> {
        let mut lines = Self::default();
        // A line that can't be read is a torn one, or somebody else's.
        for line in reader.metrics()?.flatten() {
            lines.seconds += line.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
            match line.get("kind").and_then(Value::as_str) {
                Some("rl_step") => lines.steps.push(serde_json::from_value(line)?),
                Some("rl_evaluation") => lines.evaluations.push(serde_json::from_value(line)?),
                _ => {}
            }
        }
        Ok(lines)
    }
}

/// Longest text of an episode that is shown where nobody asked for it.
const LONGEST_EPISODE_BYTES: usize = 4000;

/// The report as `--json` prints it. Shares are of held-out tasks; `null` is a share of nothing.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    accuracy_before: Option<f64>,
    accuracy_after: Option<f64>,
    /// Failed calls among the calls of right episodes.
    tool_error_share_before: Option<f64>,
    tool_error_share_after: Option<f64>,
    response_tokens_before: Option<f64>,
    response_tokens_after: Option<f64>,
    /// Of all stages.
    steps: u64,
    seconds: f64,
    run_dir: PathBuf,
    /// The accuracy rose.
    pub(crate) learnt: bool,
    seed: u64,
    parameters: u64,
    held_out_tasks: usize,
    rollouts: usize,
    /// Steps of reinforcement learning of which something could be learnt, and all of them.
    steps_of_use: usize,
    reinforcement_steps: usize,
    /// Time that the steps of reinforcement learning waited for tools.
    tool_waiting_share: Option<f64>,
    episodes: Vec<Told>,
    next: Vec<String>,
}

impl RunReport {
    /// The report of the run at `path`; `None` where it measured nothing to compare. `seconds` is
    /// what it took, where that is more than its steps and evaluations did.
    ///
    /// # Errors
    /// The run's directory can't be read.
    pub(crate) fn of(
        path: &Path,
        prepared: &Prepared,
        seconds: Option<f64>,
    ) -> anyhow::Result<Option<Self>> {
        let reader = Reader::open(path)?;
        let Lines { evaluations, steps, seconds: of_lines } =
            Lines::read(&reader).context("metrics.jsonl")?;
        let Some(after) = evaluations.last() else { return Ok(None) };
        // Stages may be measured on different tasks.
        let before = evaluations.iter().find(|it| it.stage == after.stage).unwrap_or(after);
        let episodes = episodes::telling(&reader, prepared, before.step, after.step)
            .context("the held-out episodes")?;
        let sum = |of: fn(&RlStepMetrics) -> f64| steps.iter().map(of).sum::<f64>();
        let total = sum(|step| step.seconds);
        Ok(Some(Self {
            accuracy_before: before.accuracy,
            accuracy_after: after.accuracy,
            tool_error_share_before: before.tool_error_share_right,
            tool_error_share_after: after.tool_error_share_right,
            response_tokens_before: before.response_tokens_mean,
            response_tokens_after: after.response_tokens_mean,
            steps: after.step,
            seconds: seconds.unwrap_or(of_lines),
            run_dir: path.to_owned(),
            learnt: rose(before, after),
            seed: prepared.recipe().seed,
            parameters: prepared.plans().map(|plan| plan.parameters).max().unwrap_or(0),
            held_out_tasks: after.tasks,
            rollouts: steps.iter().map(|step| step.rollouts).sum(),
            steps_of_use: steps.iter().filter(|step| step.updates > 0).count(),
            reinforcement_steps: steps.len(),
            tool_waiting_share: (total > 0.0)
                .then(|| sum(|step| step.seconds_tools_waiting) / total),
            episodes,
            next: next(path),
        }))
    }

    /// Without episodes whose text is longer than a person reads in a terminal.
    pub(crate) fn with_short_episodes(mut self) -> Self {
        self.episodes.retain(|told| told.text.len() <= LONGEST_EPISODE_BYTES);
        self
    }

    /// The report for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for told in &self.episodes {
            text += &format!("\n── {} ──\n{}\n", told.title, told.text);
        }
        let title = format!("{} held-out problems", self.held_out_tasks);
        let table = Terminal::table_text(&[&title, "before", "after"], &self.rows(), 1);
        text += &format!(
            "\n{table}\n{:.2} M weights, {} steps, {} rollouts, {}; {} of the time of reinforcement \
             learning waited for tools\nrun directory: {}\n\nnext:\n",
            self.parameters as f64 / 1e6,
            self.steps,
            self.rollouts,
            show_seconds(self.seconds),
            percent(self.tool_waiting_share),
            self.run_dir.display(),
        );
        for command in &self.next {
            text += &format!("  {command}\n");
        }
        text
    }

    fn rows(&self) -> [Vec<String>; 3] {
        let tokens =
            |mean: Option<f64>| mean.map_or_else(|| "–".to_owned(), |it| format!("{it:.1}"));
        let row = |name: &str, before: String, after: String| vec![name.to_owned(), before, after];
        [
            row("accuracy", percent(self.accuracy_before), percent(self.accuracy_after)),
            row(
                "failed calls in right episodes",
                percent(self.tool_error_share_before),
                percent(self.tool_error_share_after),
            ),
            row(
                "tokens of a response",
                tokens(self.response_tokens_before),
                tokens(self.response_tokens_after),
            ),
        ]
    }

    /// Why the accuracy did not rise, as far as the figures tell.
    pub(crate) fn why_not_learnt(&self) -> Option<String> {
        if self.learnt {
            return None;
        }
        let because = if self.steps_of_use == 0 {
            "no step had a task with both right and wrong rollouts, so there was nothing to compare"
        } else {
            "the run's metrics.jsonl tells how reward and errors went, step by step"
        };
        Some(format!(
            "it did not learn: accuracy {} before and {} after; {} of {} steps of reinforcement \
             learning were of use; {because}",
            percent(self.accuracy_before),
            percent(self.accuracy_after),
            self.steps_of_use,
            self.reinforcement_steps,
        ))
    }
}

fn rose(before: &RlEvaluationMetrics, after: &RlEvaluationMetrics) -> bool {
    matches!((before.accuracy, after.accuracy), (Some(before), Some(after)) if after > before)
}

/// What one may want to do now.
fn next(path: &Path) -> Vec<String> {
    let words = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        command_line(&words)
    };
    let run = path.to_string_lossy();
    let config = path.join("config.toml").to_string_lossy().into_owned();
    let latest = path.join("checkpoints/latest").to_string_lossy().into_owned();
    let runs = path.parent().unwrap_or(path).to_string_lossy().into_owned();
    vec![
        words(&["rocstar", "dash", &runs]),
        words(&["rocstar", "replay", &run]),
        words(&["rocstar", "train", &config, "--set", "seed=2", "--run", "mine"]),
        words(&["rocstar", "serve", "--model", &latest]),
    ]
}
