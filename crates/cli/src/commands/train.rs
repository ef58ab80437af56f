//! `rocstar train`: a recipe, run to its end, or gone on with.
//!
//! Invariant: what can be wrong is told before weights are loaded and before a directory is made;
//! however the command ends, it says how to go on.

mod model;
mod outlook;
mod recipe;
mod show;
mod stop;

use std::path::{Path, PathBuf};

use clap::Args;
use rocstar_train::recipe::Recipe;
use rocstar_train::{Error, Outcome, Prepared, Start, World};
use serde_json::{Value, json};

use self::show::Show;
use self::stop::Stop;
use crate::failure::{Finish, HintExt as _};
use crate::host::Facts;
use crate::service;
use crate::settings::SettingsOptions;
use crate::terminal::Terminal;

/// Train a model as a recipe says
///
/// A recipe is a TOML file; of several, later ones win key by key. Then come environment variables
/// (`ROCSTAR_TRAIN__SEED=3`, `__` between the parts of a key) and `--set`. Ctrl-C saves the state and
/// prints the command that goes on; a second one stops at once.
#[derive(Debug, Args)]
pub(crate) struct Train {
    /// Recipe (TOML); of several, later ones win
    #[arg(value_name = "RECIPE", required = true)]
    recipes: Vec<PathBuf>,
    /// One value by its path, such as `stage.0.optimizer.learning_rate=1e-4`; wins over everything
    /// else
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// Name of the run [default: the first recipe's name]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Go on with the run from its last checkpoint, or from that of STEP; checkpoints and metrics
    /// after it are removed
    #[arg(long, value_name = "STEP", num_args = 0..=1)]
    resume: Option<Option<u64>>,
    /// Print the whole recipe and what it would do and need, and train nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what happens as lines of JSON
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Runs the command.
    ///
    /// # Errors
    /// The recipe, its data or its model can't be used, or the run failed.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let mut recipe = recipe::resolve(&self)?;
        if self.dry_run {
            return self.show_outlook(recipe, terminal);
        }
        let start = match self.resume {
            Some(step) => Some(Start::resume(&mut recipe, step).map_err(advise)?),
            None => {
                refuse_existing(&recipe)?;
                None
            }
        };
        recipe::choose_threads(&mut recipe);
        let (prepared, weights) = prepare(recipe, terminal)?;
        outlook::check_room(&prepared)?;
        let start = match start {
            Some(start) => start,
            None => Start::new(prepared.recipe()).map_err(advise)?,
        };
        let path = start.path().to_owned();
        let stop = Stop::new()?;
        let load = weights.loader(start.checkpoint(), prepared.recipe());
        let mut show = Show::new(terminal, self.json, stop.clone());
        let runtime = service::runtime()?;
        let mut world = World::new(environment(prepared.recipe()));
        if prepared.needs_sandbox() {
            let settings = SettingsOptions::default().resolve(|_| ())?;
            world.sandbox = Some(service::start(&runtime, &settings, terminal)?);
        }
        let outcome = rocstar_train::run(&prepared, start, load, &world, &mut show);
        show.finish()?;
        self.conclude(outcome, &path, terminal)
    }

    fn show_outlook(&self, mut recipe: Recipe, terminal: Terminal) -> anyhow::Result<Finish> {
        recipe::choose_threads(&mut recipe);
        let (prepared, weights) = prepare(recipe, terminal)?;
        outlook::show(&prepared, &weights, self.json, terminal)?;
        Ok(Finish::Good)
    }

    fn conclude(
        &self,
        outcome: Result<Outcome, Error>,
        path: &Path,
        terminal: Terminal,
    ) -> anyhow::Result<Finish> {
        let latest = path.join("checkpoints/latest");
        let can_go_on = latest.exists();
        match outcome {
            Ok(Outcome::Finished) => {
                let last = std::fs::canonicalize(&latest).unwrap_or(latest);
                if !self.json {
                    terminal.data(format!("{}\n", last.display()).as_bytes())?;
                }
                Ok(Finish::Good)
            }
            Ok(Outcome::Stopped) => {
                terminal.note(format_args!("stopped; go on with: {}", self.resume_command()));
                Ok(Finish::Bad)
            }
            Err(error) if can_go_on => {
                Err(advise(error)).hint(format!("go on with: {}", self.resume_command()))
            }
            Err(error) => Err(advise(error)),
        }
    }

    /// The command that goes on with this run.
    fn resume_command(&self) -> String {
        let mut words = vec!["rocstar".to_owned(), "train".to_owned()];
        words.extend(self.recipes.iter().map(|path| quoted(&path.to_string_lossy())));
        for assignment in &self.assignments {
            words.extend(["--set".to_owned(), quoted(assignment)]);
        }
        if let Some(run) = &self.run {
            words.extend(["--run".to_owned(), quoted(run)]);
        }
        words.push("--resume".to_owned());
        words.join(" ")
    }
}

fn prepare(recipe: Recipe, terminal: Terminal) -> anyhow::Result<(Prepared, model::Weights)> {
    recipe::refuse_invalid(&recipe)?;
    let spinner = terminal.spinner("reading the data");
    let prepared = model::outline(&recipe).and_then(|(outline, weights)| {
        Ok((Prepared::new(recipe, outline).map_err(advise)?, weights))
    });
    spinner.finish_and_clear();
    prepared
}

fn refuse_existing(recipe: &Recipe) -> anyhow::Result<()> {
    let path = rocstar_train::directory_of(recipe);
    if path.join("config.toml").exists() {
        return Err(advise(Error::RunExists(path)));
    }
    Ok(())
}

/// What to do about an error whose maker doesn't know the command line.
fn advise(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::RunExists(_) => "go on with it by `--resume`, or choose a name with `--run NAME`",
        Error::RecipeChanged { .. } => {
            "give the recipe as it was; or begin another run (`--run NAME`), from a checkpoint of \
             this one by `--set model.path=…/checkpoints/latest`"
        }
        Error::NotFinite { .. } => "a lower learning rate, or a shorter `clip_norm`, may help",
        Error::NoRun(_) => "begin it: the same command without `--resume`",
        Error::NoCheckpoint { .. } => "`--resume` without a step takes the last one",
        Error::Checkpoint { .. } => "go on from an earlier checkpoint: `--resume STEP`",
        _ => return error.into(),
    };
    anyhow::Error::from(error).hint(hint)
}

/// Where and with what the run was started, for `env.json`.
fn environment(recipe: &Recipe) -> Value {
    json!({
        "rocstar": env!("CARGO_PKG_VERSION"),
        "command": std::env::args().collect::<Vec<_>>(),
        "folder": std::env::current_dir().ok(),
        "git": git_revision(),
        "seed": recipe.seed,
        "threads": recipe.threads,
        "architecture": std::env::consts::ARCH,
        "host": Facts::collect(),
    })
}

/// The revision of the repository that the command is run in, if it is one.
fn git_revision() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("stage.0.steps=3"), "stage.0.steps=3");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
