//! The recipe of a command: its files, the environment and assignments, put over one another.

use rocstar_train::recipe::Recipe;

use super::Train;
use crate::env_vars;
use crate::failure::WrongUse;
use crate::layers::{Layered, Layers};

impl Layered for Recipe {
    const EXAMPLE: &'static str = "stage.0.epochs=2";

    fn from_text(text: &str) -> Result<Self, toml::de::Error> {
        Self::from_toml(text)
    }
}

/// Puts the layers together.
///
/// # Errors
/// A file can't be read, a key is unknown or a value of a wrong type.
pub(super) fn resolve(options: &Train) -> anyhow::Result<Recipe> {
    let mut layers = Layers::default();
    for path in &options.recipes {
        layers.add_file::<Recipe>(path)?;
    }
    for (name, assignment) in environment() {
        layers.assign::<Recipe>(&assignment, &name)?;
    }
    for assignment in &options.assignments {
        layers.assign::<Recipe>(assignment, &format!("--set {assignment}"))?;
    }
    if let Some(name) = &options.run {
        layers.set(&["run", "name"], name.as_str());
    }
    if layers.value(&["run", "name"]).is_none()
        && let Some(name) = options.recipes.first().and_then(|path| path.file_stem()?.to_str())
    {
        layers.set(&["run", "name"], name);
    }
    layers.resolve()
}

/// What the environment assigns, sorted by name: the variable as it is, and the assignment.
fn environment() -> Vec<(String, String)> {
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
pub(super) fn choose_threads(recipe: &mut Recipe) {
    if recipe.threads == 0 {
        recipe.threads = std::thread::available_parallelism().map_or(1, Into::into);
    }
}

/// Values that can't work are wrong use.
///
/// # Errors
/// All of them at once.
pub(super) fn refuse_invalid(recipe: &Recipe) -> anyhow::Result<()> {
    let problems = recipe.validate();
    if problems.is_empty() {
        return Ok(());
    }
    Err(WrongUse::error(format!("the recipe can't work: {}", problems.join("; "))))
}
