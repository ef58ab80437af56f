//! `rocstar plan`: what a recipe does and needs on given hardware, without data, weights or a device.
//!
//! Invariant: nothing is loaded, run or written. Every number that is neither the recipe's nor a data
//! sheet's is an assumption that is printed with the plan. For what is all here, `rocstar train
//! --dry-run` reads the data and measures a step instead.

mod assumptions;
mod estimate;
mod hardware;
mod memory;
mod rows;
mod shapes;
mod text;

use std::path::PathBuf;

use clap::Args;
use rocstar_nn::parameters::Layout;
use rocstar_train::recipe::{Recipe, Stage};
use serde::Serialize;

use self::assumptions::{AssumptionOptions, Assumptions};
use self::estimate::{Setting, StageEstimate};
use self::hardware::Hardware;
use crate::commands::train::{command_line, recipe};
use crate::failure::{Finish, WrongUse};
use crate::terminal::Terminal;

/// Explain what a recipe does and needs on given hardware: work, memory, hours, disk
///
/// Needs neither data nor weights nor the hardware. The result is an estimate; what it assumes is
/// printed with it and can be set. Exit status 1 if something doesn't fit.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Recipe (TOML); of several, later ones win
    #[arg(value_name = "RECIPE", required = true)]
    recipes: Vec<PathBuf>,
    /// One value by its path, such as `stage.0.optimizer.learning_rate=1e-4`; wins over everything
    /// else
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// `cpu` for this machine, or accelerators such as `8xH100`, `64xMI300X`, `4xA100-40G`
    #[arg(long, value_name = "SPEC", default_value = "cpu")]
    hardware: String,
    /// The model's `config.json`, or a folder with one, where the model isn't here and not known
    #[arg(long, value_name = "FILE")]
    shape: Option<PathBuf>,
    /// Print the plan as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    assumptions: AssumptionOptions,
}

/// A whole plan.
#[derive(Debug, Serialize)]
struct Whole {
    recipe: String,
    model: ModelFacts,
    hardware: Hardware,
    assumptions: Assumptions,
    stages: Vec<StageEstimate>,
    total_seconds: f64,
    disk: Disk,
    fits: bool,
    /// Fewest such devices that every stage fits on.
    fewest_devices: Option<usize>,
    /// `rocstar train --dry-run` can prepare the recipe here.
    can_be_prepared_here: bool,
}

/// The model.
#[derive(Debug, Serialize)]
struct ModelFacts {
    /// Where its shape comes from.
    source: String,
    parameters: u64,
}

/// What the run takes on the disk.
#[derive(Debug, Serialize)]
struct Disk {
    /// Checkpoints at once: those that are kept, and one that is being written.
    checkpoints: u64,
    checkpoint_bytes: u64,
    episodes_bytes: f64,
    total_bytes: f64,
}

impl Plan {
    /// Runs the command.
    ///
    /// # Errors
    /// Recipe, hardware or model can't be used, or a stage's steps aren't known.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let layers = recipe::LayerOptions {
            files: &self.recipes,
            assignments: &self.assignments,
            run: None,
        };
        let recipe = recipe::resolve(&layers)?;
        refuse_invalid(&recipe)?;
        let shape = shapes::of(&recipe, self.shape.as_deref())?;
        let hardware = Hardware::parse(&self.hardware)?;
        let assumptions = self.assumptions.complete(&hardware);
        let setting = Setting { config: &shape.config, hardware: &hardware, assumed: &assumptions };
        let stages = estimate::stages(&recipe, setting)?;
        let whole = Whole {
            model: ModelFacts {
                source: shape.source,
                parameters: Layout::new(&shape.config).len() as u64,
            },
            total_seconds: stages.iter().map(|stage| stage.seconds).sum(),
            disk: Disk::of(&recipe, &stages),
            fits: stages.iter().all(|stage| stage.memory.fits),
            fewest_devices: stages
                .iter()
                .map(|stage| stage.memory.fewest_devices)
                .try_fold(1, |most, devices| Some(most.max(devices?))),
            can_be_prepared_here: shape.is_here && data_are_here(&recipe),
            recipe: recipe.run.name.clone(),
            stages,
            assumptions,
            hardware,
        };
        if self.json {
            terminal.json(&whole)?;
        } else {
            terminal.data(text::shown(&whole).as_bytes())?;
            if whole.can_be_prepared_here {
                terminal.note(format_args!(
                    "hint: model and data are here; `{}` reads them and measures a step",
                    self.dry_run()
                ));
            }
        }
        Ok(Finish::from_good(whole.fits))
    }

    /// The command that prepares the recipe.
    fn dry_run(&self) -> String {
        let mut words = vec!["rocstar".to_owned(), "train".to_owned()];
        words.extend(self.recipes.iter().map(|path| path.to_string_lossy().into_owned()));
        for assignment in &self.assignments {
            words.extend(["--set".to_owned(), assignment.clone()]);
        }
        words.push("--dry-run".to_owned());
        command_line(&words)
    }
}

/// A plan needs no data, so that their paths may be missing.
fn refuse_invalid(recipe: &Recipe) -> anyhow::Result<()> {
    let mut problems = recipe.validate();
    problems.retain(|problem| !problem.contains("data.paths` is missing"));
    if problems.is_empty() {
        return Ok(());
    }
    Err(WrongUse::error(format!("the recipe can't work: {}", problems.join("; "))))
}

/// Every file of every stage is here, or its data are made up.
fn data_are_here(recipe: &Recipe) -> bool {
    recipe.stage.iter().all(|stage| {
        let (is_made_up, paths) = match stage {
            Stage::Sft(stage) => (stage.practice.is_some(), &stage.data.paths),
            Stage::Rl(stage) => (stage.practice.is_some(), &stage.data.paths),
        };
        is_made_up || (!paths.is_empty() && paths.iter().all(|path| path.exists()))
    })
}

impl Disk {
    fn of(recipe: &Recipe, stages: &[StageEstimate]) -> Self {
        let kept = recipe.checkpoint.keep_last as u64 + u64::from(recipe.checkpoint.keep_best);
        let checkpoint_bytes = stages.iter().map(|stage| stage.checkpoint_bytes).max().unwrap_or(0);
        let episodes_bytes: f64 = stages.iter().map(|stage| stage.episodes_bytes).sum();
        let checkpoints = kept + 1;
        let total_bytes = (checkpoints * checkpoint_bytes) as f64 + episodes_bytes;
        Self { checkpoints, checkpoint_bytes, episodes_bytes, total_bytes }
    }
}
