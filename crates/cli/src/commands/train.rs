//! `rocstar train`: a recipe, run to its end, or gone on with.
//!
//! Invariant: what can be wrong is told before weights are loaded and before a directory is made;
//! however the command ends, it says how to go on.

pub(crate) mod launch;
mod metrics;
pub(crate) mod model;
pub(crate) mod outlook;
pub(crate) mod recipe;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod stop;

use std::path::{Path, PathBuf};

use clap::Args;
use rocstar_train::recipe::Recipe;
use rocstar_train::{Error, Outcome, Prepared};

use self::launch::{Begin, Ended, Way};
use self::metrics::MetricsOptions;
use self::report::RunReport;
use self::show::Show;
use self::stop::Stop;
use crate::env_vars;
use crate::failure::{Finish, HintExt as _};
use crate::settings::SandboxOptions;
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
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

impl Train {
    /// Runs the command.
    ///
    /// # Errors
    /// The recipe, its data or its model can't be used, or the run failed.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let recipe = recipe::resolve(&self.layers())?;
        if self.dry_run {
            return self.show_outlook(recipe, terminal);
        }
        let begin = self.resume.map_or(Begin::New, Begin::Resume);
        let stop = Stop::new()?;
        let mut show = Show::new(terminal, self.json, stop);
        let way = Way { begin, sandbox: &self.sandbox, metrics: Some(&self.metrics) };
        let ended = launch::run(recipe, way, &mut show, terminal);
        show.finish()?;
        let Ended { path, prepared, outcome } = ended?;
        self.conclude(outcome, &path, &prepared, terminal)
    }

    fn layers(&self) -> recipe::LayerOptions<'_> {
        recipe::LayerOptions {
            files: &self.recipes,
            assignments: &self.assignments,
            run: self.run.as_deref(),
        }
    }

    fn show_outlook(&self, mut recipe: Recipe, terminal: Terminal) -> anyhow::Result<Finish> {
        recipe::choose_threads(&mut recipe);
        let (prepared, weights) = launch::prepare(recipe, terminal)?;
        outlook::show(&prepared, &weights, self.json, terminal)?;
        Ok(Finish::Good)
    }

    fn conclude(
        &self,
        outcome: Result<Outcome, Error>,
        path: &Path,
        prepared: &Prepared,
        terminal: Terminal,
    ) -> anyhow::Result<Finish> {
        let latest = path.join("checkpoints/latest");
        let can_go_on = path.join("config.toml").exists();
        match outcome {
            Ok(Outcome::Finished) => {
                let last = std::fs::canonicalize(&latest).unwrap_or(latest);
                if !self.json {
                    // Standard output has the checkpoint's path alone, for scripts.
                    match RunReport::of(path, prepared, None) {
                        Ok(Some(report)) => terminal.note(report.with_short_episodes().text()),
                        Ok(None) => {}
                        Err(error) => terminal.note(format_args!("no report: {error:#}")),
                    }
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
        let mut words = recipe::environment_words();
        words.extend(["rocstar".to_owned(), "train".to_owned()]);
        words.extend(self.recipes.iter().map(|path| path.to_string_lossy().into_owned()));
        for assignment in &self.assignments {
            words.extend(["--set".to_owned(), assignment.clone()]);
        }
        if let Some(run) = &self.run {
            words.extend(["--run".to_owned(), run.clone()]);
        }
        words.extend(self.sandbox.to_words());
        words.push("--resume".to_owned());
        command_line(&words)
    }
}

/// Words as a shell takes them.
pub(crate) fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// What to do about an error whose maker doesn't know the command line.
pub(crate) fn advise(error: Error) -> anyhow::Error {
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

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // A shell takes an assignment for one only where its name stands bare.
    if let Some((name, value)) = word.split_once('=')
        && name.starts_with(env_vars::TRAIN_PREFIX)
        && name.chars().all(is_plain)
    {
        return format!("{name}={}", quoted(value));
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
        assert_eq!(quoted("ROCSTAR_TRAIN__RUN__NAME=a b"), "ROCSTAR_TRAIN__RUN__NAME='a b'");
    }
}
