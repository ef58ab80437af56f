//! The recipe of a command: its files, the environment and assignments, put over one another.

use std::path::PathBuf;

use rocstar_train::recipe::Recipe;

use crate::env_vars;
use crate::failure::WrongUse;
use crate::layers::{Layered, Layers};

impl Layered for Recipe {
    const EXAMPLE: &'static str = "stage.0.epochs=2";

    fn from_text(text: &str) -> Result<Self, toml::de::Error> {
        Self::from_toml(text)
    }
}

/// Where the layers of a recipe come from, beside the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerOptions<'a> {
    /// Files, later ones over earlier ones.
    pub(crate) files: &'a [PathBuf],
    /// Assignments, over everything else.
    pub(crate) assignments: &'a [String],
    /// The run's name.
    pub(crate) run: Option<&'a str>,
}

/// Puts the layers together.
///
/// # Errors
/// A file can't be read, a key is unknown or a value of a wrong type.
pub(crate) fn resolve(options: &LayerOptions<'_>) -> anyhow::Result<Recipe> {
    let mut layers = Layers::default();
    for path in options.files {
        layers.add_file::<Recipe>(path)?;
    }
    add_common(&mut layers, options)?;
    if layers.value(&["run", "name"]).is_none()
        && let Some(name) = options.files.first().and_then(|path| path.file_stem()?.to_str())
    {
        layers.set(&["run", "name"], name);
    }
    layers.resolve()
}

/// Adds environment, assignments and the run's name.
///
/// # Errors
/// A key is unknown or a value of a wrong type.
pub(crate) fn add_common(layers: &mut Layers, options: &LayerOptions<'_>) -> anyhow::Result<()> {
    for (name, assignment) in environment() {
        layers.assign::<Recipe>(&assignment, &name)?;
    }
    for assignment in options.assignments {
        layers.assign::<Recipe>(assignment, &format!("--set {assignment}"))?;
    }
    if let Some(name) = options.run {
        layers.set(&["run", "name"], name);
    }
    Ok(())
}

/// What the environment assigns, as words before a command.
pub(crate) fn environment_words() -> Vec<String> {
    environment().into_iter().map(|(name, _)| name).collect()
}

/// What the environment assigns, sorted by name: the variable as it is, and the assignment.
pub(crate) fn environment() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter_map(|(name, value)| {
            let key = name.strip_prefix(env_vars::TRAIN_PREFIX)?.to_lowercase().replace("__", ".");
            Some((format!("{name}={value}"), format!("{key}={value}")))
        })
        .collect();
    all.sort();
    all
}

/// The number of threads stands in the resolved recipe, since it decides the last bits.
pub(crate) fn choose_threads(recipe: &mut Recipe) {
    if recipe.threads == 0 {
        recipe.threads = std::thread::available_parallelism().map_or(1, Into::into);
    }
}

/// Values that can't work are wrong use.
///
/// # Errors
/// All of them at once.
pub(crate) fn refuse_invalid(recipe: &Recipe) -> anyhow::Result<()> {
    let problems = recipe.validate();
    if problems.is_empty() {
        return Ok(());
    }
    Err(WrongUse::error(format!("the recipe can't work: {}", problems.join("; "))))
}
