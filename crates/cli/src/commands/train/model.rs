//! The model of a recipe: its shape and tokenizer at once, its weights when they are needed.

use std::path::{Path, PathBuf};

use rocstar_chat::{Family, Tokenizer};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::files::{self, Format, Gguf, Source};
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::Model;
use rocstar_train::checkpoint::Checkpoint;
use rocstar_train::recipe::{BuiltInTemplate, PRACTICE_TOKENIZER, Recipe, Shape};
use rocstar_train::{Error, Outline};

use crate::failure::{HintExt as _, WrongUse};
use crate::models;

/// Where the weights of a new run come from.
#[derive(Debug, Clone)]
pub(crate) enum Weights {
    /// A model that exists.
    Path(PathBuf),
    /// A new one.
    Random(Box<ModelConfig>),
}

impl Weights {
    /// What gives the weights of a run: those of its checkpoint, except that adapters are put on
    /// the model that the run began with.
    pub(crate) fn loader(
        &self,
        checkpoint: Option<&Checkpoint>,
        recipe: &Recipe,
    ) -> impl FnOnce() -> Result<Model, Error> + Send + use<> {
        let Recipe { seed, stage, .. } = recipe;
        let seed = *seed;
        let has_adapters = stage.iter().any(|stage| stage.lora().is_some());
        let weights = match checkpoint {
            Some(checkpoint) if !has_adapters => Self::Path(checkpoint.path.clone()),
            _ => self.clone(),
        };
        move || weights.load(seed)
    }

    /// The weights.
    ///
    /// # Errors
    /// They can't be read.
    pub(crate) fn load(self, seed: u64) -> Result<Model, Error> {
        match self {
            Self::Path(path) => {
                let loaded = files::load(&path)?;
                Ok(Model { config: loaded.config, parameters: loaded.parameters })
            }
            Self::Random(config) => {
                let parameters = Parameters::random(&config, seed);
                Ok(Model { config: *config, parameters })
            }
        }
    }
}

/// Reads what the recipe's model is, but for its weights.
///
/// # Errors
/// Model, tokenizer or template can't be read or used.
pub(crate) fn outline(recipe: &Recipe) -> anyhow::Result<(Outline, Weights)> {
    let options = &recipe.model;
    let (weights, mut source) = match (&options.path, options.shape) {
        (Some(path), _) => {
            let path = models::resolve_model(&path.to_string_lossy())?;
            (Weights::Path(path.clone()), Some(path))
        }
        (None, shape) => (Weights::Random(Box::new(shape_of(shape))), None),
    };
    let made_up = options.tokenizer.as_deref() == Some(Path::new(PRACTICE_TOKENIZER));
    let tokenizer = if made_up {
        rocstar_rollout::practice::tokenizer()?
    } else {
        if let Some(tokenizer) = &options.tokenizer {
            source = Some(models::resolve_model(&tokenizer.to_string_lossy())?);
        }
        tokenizer(&source.unwrap_or_default())?
    };
    let family = family(&tokenizer, options.template)?;
    let (config, weights) = match weights {
        Weights::Path(path) => (files::inspect(&path)?.config, Weights::Path(path)),
        Weights::Random(mut config) => {
            config.vocabulary_size = tokenizer.vocabulary_size();
            config.begin_token = tokenizer.begin_token();
            config.end_tokens = tokenizer.token_id(family.end_of_turn()).into_iter().collect();
            (ModelConfig::clone(&config), Weights::Random(config))
        }
    };
    let name = options.path.as_ref().map(|path| path.display().to_string());
    Ok((Outline { name, config, tokenizer, family }, weights))
}

fn shape_of(shape: Option<Shape>) -> ModelConfig {
    match shape {
        Some(Shape::Smol) => ModelConfig::smol(),
        Some(Shape::Mini) => ModelConfig::mini(),
        Some(Shape::Tiny) | None => ModelConfig::tiny(),
    }
}

/// A folder needs no model beside the tokenizer.
fn tokenizer(path: &Path) -> anyhow::Result<Tokenizer> {
    if path.is_dir() {
        let source = Source { path: path.to_owned(), format: Format::HuggingFace };
        return models::tokenizer(&source);
    }
    models::tokenizer_of_gguf(&Gguf::open(path)?)
}

fn family(tokenizer: &Tokenizer, template: Option<BuiltInTemplate>) -> anyhow::Result<Family> {
    let hint = "`--set model.template=chatml` takes a built-in one";
    match template {
        Some(BuiltInTemplate::ChatMl) => Ok(Family::chatml()?),
        Some(BuiltInTemplate::RStar2) => Ok(Family::rstar2()?),
        None => match tokenizer.template()? {
            Some(template) => Family::detect(&template).map_err(anyhow::Error::from).hint(hint),
            None => Err(WrongUse::error("the model has no chat template")).hint(hint),
        },
    }
}
