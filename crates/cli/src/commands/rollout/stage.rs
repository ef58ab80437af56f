//! Which stage of which recipe is rolled out, by which model: the same words for who makes episodes and
//! for who makes them again.

use std::path::PathBuf;

use clap::Args;
use rocstar_train::recipe::{ModelOptions, Recipe, Stage};

use crate::commands::train::recipe::{self, LayerOptions};
use crate::failure::WrongUse;

/// Which stage of a recipe, and by which model.
#[derive(Debug, Args)]
pub(crate) struct StageOptions {
    /// Model in place of the recipe's: a Hugging Face folder (such as a run's `checkpoints/latest`), a
    /// `.gguf` file, or the name of a fetched model
    #[arg(long, value_name = "PATH|NAME")]
    model: Option<PathBuf>,
    /// Stage of reinforcement learning, from 0 [default: the first]
    #[arg(long, value_name = "N")]
    stage: Option<usize>,
    /// Seed of every draw [default: the recipe's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// One value of the recipe by its path, such as `stage.1.rollout.temperature=0.6`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl StageOptions {
    /// Whether anything was said.
    pub(crate) const fn is_given(&self) -> bool {
        let Self { model, stage, seed, assignments } = self;
        model.is_some() || stage.is_some() || seed.is_some() || !assignments.is_empty()
    }

    /// The recipe that the files come to, with the index of the stage. `samples` of each task, where it
    /// is not for the recipe to say.
    ///
    /// # Errors
    /// A file can't be read, a key is unknown, or there is no such stage.
    pub(crate) fn resolve(
        &self,
        files: &[PathBuf],
        samples: Option<usize>,
    ) -> anyhow::Result<(Recipe, usize)> {
        let layers = LayerOptions { files, assignments: &self.assignments, run: None };
        let mut recipe = recipe::resolve(&layers)?;
        recipe::choose_threads(&mut recipe);
        recipe.seed = self.seed.unwrap_or(recipe.seed);
        if let Some(path) = &self.model {
            let template = recipe.model.template;
            recipe.model =
                ModelOptions { path: Some(path.clone()), template, ..ModelOptions::default() };
        }
        let is_rl = |stage: &Stage| matches!(stage, Stage::Rl(_));
        let first = recipe.stage.iter().position(is_rl);
        let index = self.stage.or(first).unwrap_or(0);
        let Some(Stage::Rl(stage)) = recipe.stage.get_mut(index) else {
            return Err(WrongUse::error(format!(
                "the recipe has no stage {index} of reinforcement learning"
            )));
        };
        if let Some(samples) = samples {
            stage.rollout.samples = samples;
            stage.selection.keep = stage.selection.keep.min(samples);
        }
        Ok((recipe, index))
    }
}
