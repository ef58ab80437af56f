//! `rocstar rollout`: the episodes of a recipe's tasks, to a file, without learning from them.

pub(crate) mod stage;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::Args;
use indicatif::ProgressBar;
use rocstar_nn::step::Model;
use rocstar_record::episode::Group;
use rocstar_record::log::Log;
use rocstar_sandbox::Sandbox;
use rocstar_train::recipe::{RlStage, Stage};
use rocstar_train::rl::metrics::RlStepMetrics;
use rocstar_train::{Error, Event, Observer, Prepared, World};
use serde::Serialize;
use serde_json::Value;

use self::stage::StageOptions;
use super::train::show::percent;
use super::train::stop::Stop;
use super::train::{advise, launch};
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::service;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// Let a model solve a recipe's tasks, and write the episodes down
///
/// As a step of training does it, but nothing is learnt: each task is rolled out, answers are
/// verified, and rollouts are chosen as the recipe says. The file has a line of JSON for each task
/// (`zstdcat FILE | head -1`), all rollouts in it, kept and dropped.
#[derive(Debug, Args)]
pub(crate) struct Rollout {
    /// Recipe (TOML); of several, later ones win
    #[arg(value_name = "RECIPE", required = true)]
    recipes: Vec<PathBuf>,
    /// File to write: a log of groups, compressed
    #[arg(long, value_name = "FILE.jsonl.zst")]
    out: PathBuf,
    #[command(flatten)]
    stage: StageOptions,
    /// Tasks, from the first that the stage takes on [default: those of one step]
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// Rollouts of each task [default: the recipe's]
    #[arg(long, value_name = "K")]
    samples: Option<usize>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// The figures as `--json` prints them.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    out: &'a PathBuf,
    tasks: usize,
    #[serde(flatten)]
    metrics: &'a RlStepMetrics,
}

impl Rollout {
    /// Runs the command.
    ///
    /// # Errors
    /// Recipe, model or file can't be used, or the code environment does not start.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let (recipe, stage) = self.stage.resolve(&self.recipes, self.samples)?;
        if self.out.exists() {
            return Err(WrongUse::error(format!("{} exists already", self.out.display())))
                .hint("choose another file, or remove it");
        }
        let is_new = recipe.model.shape.is_some();
        let (prepared, weights) = launch::prepare(recipe, terminal)?;
        if is_new {
            terminal.note(
                "the recipe's model is a new one: its weights are random; `--model` takes another",
            );
        }
        let runtime = service::runtime()?;
        let mut world = World::new(Value::Null);
        if prepared.needs_sandbox() {
            let (sandbox, _) = service::start_for_run(&runtime, &self.sandbox, terminal)?;
            let sandbox: Arc<dyn Sandbox> = sandbox;
            world.sandbox = Some(sandbox);
        }
        let model = launch::load(&weights, prepared.recipe().seed, terminal)?;
        let count = self
            .tasks
            .unwrap_or_else(|| options(&prepared, stage).map_or(0, |it| it.tasks_per_step));
        let metrics = self.roll_out(&prepared, (stage, count), &model, &world, terminal)?;
        self.report(&metrics, count, terminal)
    }

    fn roll_out(
        &self,
        prepared: &Prepared,
        (stage, count): (usize, usize),
        model: &Model,
        world: &World,
        terminal: Terminal,
    ) -> anyhow::Result<RlStepMetrics> {
        let samples = options(prepared, stage).map_or(0, |options| options.rollout.samples);
        let written = || format!("can't write {}", self.out.display());
        let mut log = Log::open(&self.out).with_context(written)?;
        let done = AtomicU64::new(0);
        let bar = terminal.bar("rolling out", (count * samples) as u64);
        let mut keep = |groups: &[Group]| {
            done.fetch_add((groups.len() * samples) as u64, Ordering::Relaxed);
            let pushed = groups.iter().try_for_each(|group| log.push(group));
            pushed.and_then(|()| log.commit()).map_err(|source| Error::File {
                action: "write",
                path: self.out.clone(),
                source,
            })
        };
        let mut watch = Watch { bar: bar.clone(), done: &done, stop: Stop::new()? };
        let metrics = rocstar_train::rl::roll_out(
            prepared, stage, model, count, world, &mut keep, &mut watch,
        );
        bar.finish_and_clear();
        if log.committed_bytes() == 0 {
            // An empty file would only stand in the way of another try; and what it is, is seen.
            let _ = std::fs::remove_file(&self.out);
        }
        metrics.map_err(advise)
    }

    fn report(
        &self,
        metrics: &RlStepMetrics,
        count: usize,
        terminal: Terminal,
    ) -> anyhow::Result<Finish> {
        if self.json {
            terminal.json(&Summary { out: &self.out, tasks: metrics.groups, metrics })?;
        } else {
            let title = self.out.display().to_string();
            terminal.table(&[&title, ""], &rows(metrics), 1)?;
        }
        let missing = count - metrics.groups;
        if missing > 0 {
            terminal.note(format_args!("stopped: {missing} of {count} tasks were not rolled out"));
        }
        Ok(Finish::from_good(missing == 0))
    }
}

fn options(prepared: &Prepared, stage: usize) -> Option<&RlStage> {
    match prepared.recipe().stage.get(stage) {
        Some(Stage::Rl(options)) => Some(options),
        _ => None,
    }
}

fn rows(metrics: &RlStepMetrics) -> Vec<Vec<String>> {
    let mean = |mean: Option<f64>| mean.map_or_else(|| "–".to_owned(), |mean| format!("{mean:.1}"));
    let rows = [
        ("tasks", metrics.groups.to_string()),
        ("of use (right and wrong rollouts)", metrics.groups_used.to_string()),
        ("rollouts", metrics.rollouts.to_string()),
        ("lost", metrics.lost_rollouts.to_string()),
        ("accuracy", percent(metrics.accuracy)),
        ("accuracy of those kept", percent(metrics.kept_accuracy)),
        ("failed calls", percent(metrics.tool_error_share)),
        ("failed calls in right episodes", percent(metrics.tool_error_share_right)),
        ("failed calls in those kept", percent(metrics.tool_error_share_kept)),
        ("calls of an episode", mean(metrics.tool_calls_per_episode)),
        ("turns of an episode", mean(metrics.turns_mean)),
        ("tokens of a response", mean(metrics.response_tokens_mean)),
        ("cut off", percent(metrics.truncated_share)),
    ];
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

/// Shows how many rollouts have ended.
struct Watch<'a> {
    bar: ProgressBar,
    /// Rollouts of tasks that are written down.
    done: &'a AtomicU64,
    stop: Stop,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event) {
        if let Event::RollingOut { progress, .. } = event {
            self.bar.set_position(self.done.load(Ordering::Relaxed) + progress.ended as u64);
        }
    }

    fn wants_stop(&mut self) -> bool {
        self.stop.is_asked()
    }
}
