//! What a quickstart came to: the figures, three episodes, and what to do next.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rocstar_record::run::Reader;
use rocstar_train::Prepared;
use rocstar_train::rl::metrics::RlEvaluationMetrics;
use serde::Serialize;

use super::Heard;
use super::episodes::{self, Told};
use crate::commands::train::command_line;
use crate::commands::train::show::{percent, show_seconds};
use crate::terminal::Terminal;

/// The result as `--json` prints it. Shares are of held-out tasks; `null` is a share of nothing.
#[derive(Debug, Serialize)]
pub(super) struct QuickstartResult {
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
    pub(super) learnt: bool,
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

impl QuickstartResult {
    /// Puts the result together.
    ///
    /// # Errors
    /// The recipe measures nothing, or the run's directory can't be read.
    pub(super) fn new(
        path: &Path,
        prepared: &Prepared,
        heard: &Heard,
        seconds: f64,
    ) -> anyhow::Result<Self> {
        let (Some(before), Some(after)) = (heard.evaluations.first(), heard.evaluations.last())
        else {
            anyhow::bail!("the recipe has no evaluation of reinforcement learning to compare");
        };
        let reader = Reader::open(path)?;
        let episodes = episodes::telling(&reader, prepared, before.step, after.step)
            .context("the held-out episodes")?;
        let sum = |of: fn(&rocstar_train::rl::metrics::RlStepMetrics) -> f64| {
            heard.steps.iter().map(of).sum::<f64>()
        };
        let total = sum(|step| step.seconds);
        Ok(Self {
            accuracy_before: before.accuracy,
            accuracy_after: after.accuracy,
            tool_error_share_before: before.tool_error_share_right,
            tool_error_share_after: after.tool_error_share_right,
            response_tokens_before: before.response_tokens_mean,
            response_tokens_after: after.response_tokens_mean,
            steps: after.step,
            seconds,
            run_dir: path.to_owned(),
            learnt: rose(before, after),
            seed: prepared.recipe().seed,
            parameters: prepared.plans().map(|plan| plan.parameters).max().unwrap_or(0),
            held_out_tasks: after.tasks,
            rollouts: heard.steps.iter().map(|step| step.rollouts).sum(),
            steps_of_use: heard.steps.iter().filter(|step| step.updates > 0).count(),
            reinforcement_steps: heard.steps.len(),
            tool_waiting_share: (total > 0.0)
                .then(|| sum(|step| step.seconds_tools_waiting) / total),
            episodes,
            next: next(path),
        })
    }

    /// Prints the result for people.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(super) fn show(&self, terminal: Terminal) -> anyhow::Result<()> {
        for told in &self.episodes {
            terminal.data(format!("\n── {} ──\n{}\n", told.title, told.text).as_bytes())?;
        }
        terminal.data(b"\n")?;
        let title = format!("{} held-out problems", self.held_out_tasks);
        terminal.table(&[&title, "before", "after"], &self.rows(), 1)?;
        let facts = format!(
            "\n{:.2} M weights, {} steps, {} rollouts, {}; {} of the time of reinforcement learning \
             waited for tools\nrun directory: {}\n\nnext:\n",
            self.parameters as f64 / 1e6,
            self.steps,
            self.rollouts,
            show_seconds(self.seconds),
            percent(self.tool_waiting_share),
            self.run_dir.display(),
        );
        terminal.data(facts.as_bytes())?;
        for command in &self.next {
            terminal.data(format!("  {command}\n").as_bytes())?;
        }
        Ok(())
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
    pub(super) fn why_not_learnt(&self) -> Option<String> {
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
