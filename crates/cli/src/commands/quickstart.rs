//! `rocstar quickstart`: a tiny model learns to use the tool, in minutes, and shows what it learnt.
//!
//! Hides the built-in recipe and how its run is told as a result. Invariant: it is an ordinary run:
//! its directory goes on, is replayed and served as any other, and every figure of the result stands
//! in there too.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use rocstar_train::Outcome;
use rocstar_train::recipe::Recipe;

use super::dash::{self, Dash};
use super::train::launch::{self, Begin, Ended, Way};
use super::train::recipe::{self, LayerOptions};
use super::train::report::RunReport;
use super::train::show::Show;
use super::train::stop::Stop;
use super::train::{advise, command_line};
use crate::failure::{Finish, HintExt as _};
use crate::layers::Layers;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// The recipe; also a file of the repository, to begin one's own from.
const RECIPE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/quickstart.toml"));

/// Train a tiny model with a Python tool, in minutes, and see what it learnt
///
/// A model of 0.7 million weights, which comes with this program and writes calls, many of them faulty,
/// finds out by reinforcement (GRPO-RoC) which program solves which problem, with the real sandbox.
/// Ends with accuracy and tool errors on held-out problems before and after. Ctrl-C saves the state
/// and prints the command that goes on. Where there is a display, the run is then shown in the browser
/// until Ctrl-C. Exit status 1 if the accuracy did not rise.
#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// Seed of every draw
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Name of the run [default: `quickstart`, or `quickstart-2` and so on where that is taken]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Folder that holds the runs [default: `runs`]
    #[arg(long, value_name = "DIR")]
    runs_folder: Option<PathBuf>,
    /// Print the result as one object of JSON
    #[arg(long)]
    json: bool,
    /// Do not show the run in the browser at the end
    #[arg(long)]
    no_open: bool,
    /// One value of the recipe by its path; for tests
    #[arg(long = "set", value_name = "KEY=VALUE", hide = true)]
    assignments: Vec<String>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

impl Quickstart {
    /// Runs the command.
    ///
    /// # Errors
    /// The code environment does not start, or the run failed.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let recipe = self.recipe()?;
        let begun = Instant::now();
        let mut show = Show::new(terminal, false, Stop::new()?);
        let way = Way { begin: Begin::New, sandbox: &self.sandbox, metrics: None };
        let ended = launch::run(recipe, way, &mut show, terminal);
        show.finish()?;
        let Ended { path, prepared, outcome } = ended?;
        let config = path.join("config.toml");
        let resume = || self.resume_command(&config);
        match outcome {
            Ok(Outcome::Finished) => {}
            Ok(Outcome::Stopped) => {
                terminal.note(format_args!("stopped; go on with: {}", resume()));
                return Ok(Finish::Bad);
            }
            Err(error) if config.exists() => {
                return Err(advise(error)).hint(format!("go on with: {}", resume()));
            }
            Err(error) => return Err(advise(error)),
        }
        let seconds = begun.elapsed().as_secs_f64();
        let report = RunReport::of(&path, &prepared, Some(seconds))?
            .context("the recipe has no evaluation of reinforcement learning to compare")?;
        if self.json {
            terminal.json(&report)?;
        } else {
            terminal.data(report.text().as_bytes())?;
        }
        if let Some(why) = report.why_not_learnt() {
            terminal.note(why);
        }
        if !self.json && !self.no_open && dash::opens_browser() {
            Dash::of(path.parent().unwrap_or(&path)).run(terminal)?;
        }
        Ok(Finish::from_good(report.learnt))
    }

    fn recipe(&self) -> anyhow::Result<Recipe> {
        let mut layers = Layers::default();
        layers.add_text::<Recipe>(RECIPE).context("the built-in recipe")?;
        let common = LayerOptions { files: &[], assignments: &self.assignments, run: None };
        recipe::add_common(&mut layers, &common)?;
        if let Some(seed) = self.seed {
            let seed = i64::try_from(seed).context("`--seed` is too large")?;
            layers.set(&["seed"], seed);
        }
        if let Some(folder) = &self.runs_folder {
            let folder = folder.to_str().context("the path of `--runs-folder` is not UTF-8")?;
            layers.set(&["run", "folder"], folder);
        }
        let mut recipe: Recipe = layers.resolve()?;
        recipe.run.name = match &self.run {
            Some(name) => name.clone(),
            None => free_name(&recipe),
        };
        Ok(recipe)
    }

    /// The run's own recipe goes on with it: every layer is in there.
    fn resume_command(&self, config: &std::path::Path) -> String {
        let mut words = recipe::environment_words();
        let config = config.to_string_lossy().into_owned();
        words.extend(["rocstar".to_owned(), "train".to_owned(), config]);
        words.extend(self.sandbox.to_words());
        words.push("--resume".to_owned());
        command_line(&words)
    }
}

/// The recipe's name, with the first number behind it that makes it a new one.
fn free_name(recipe: &Recipe) -> String {
    let name = &recipe.run.name;
    let names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
    let is_free = |name: &String| !recipe.run.folder.join(name).join("config.toml").exists();
    names.take(10_000).find(is_free).unwrap_or_else(|| name.clone())
}
