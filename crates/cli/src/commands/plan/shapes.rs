//! The shape of a recipe's model, also where the model isn't here.
//!
//! Invariant: a plan says where the shape comes from; a shape is never guessed from a name that isn't
//! in the table.

use std::path::Path;

use anyhow::Context as _;
use rocstar_nn::config::{Architecture, ModelConfig, Rope, RopeScaling};
use rocstar_nn::files;
use rocstar_train::recipe::Recipe;

use crate::commands::train::model;
use crate::failure::{HintExt as _, WrongUse};

/// A model's shape and where it comes from.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) config: ModelConfig,
    pub(super) source: String,
    /// The model itself is here.
    pub(super) is_here: bool,
}

/// Sizes of a model whose weights need not be here, from the `config.json` that its makers publish.
struct Known {
    name: &'static str,
    architecture: Architecture,
    vocabulary_size: usize,
    hidden_size: usize,
    layers: usize,
    heads: usize,
    key_value_heads: usize,
    head_size: usize,
    feed_forward_size: usize,
    tied_embeddings: bool,
    context_tokens: usize,
}

/// One line of the table: name, family and vocabulary; width, layers, heads, heads of keys and values,
/// size of a head, width of the feed-forward layer; whether the head is the embedding, and the context.
const fn known(
    name: &'static str,
    (architecture, vocabulary_size): (Architecture, usize),
    sizes: [usize; 6],
    tied_embeddings: bool,
    context_tokens: usize,
) -> Known {
    let [hidden_size, layers, heads, key_value_heads, head_size, feed_forward_size] = sizes;
    Known {
        name,
        architecture,
        vocabulary_size,
        hidden_size,
        layers,
        heads,
        key_value_heads,
        head_size,
        feed_forward_size,
        tied_embeddings,
        context_tokens,
    }
}

const QWEN3: (Architecture, usize) = (Architecture::Qwen3, 151_936);
const QWEN2: (Architecture, usize) = (Architecture::Qwen2, 151_936);
const QWEN2_LARGE: (Architecture, usize) = (Architecture::Qwen2, 152_064);
const LLAMA3: (Architecture, usize) = (Architecture::Llama, 128_256);
const SMOLLM2: (Architecture, usize) = (Architecture::Llama, 49_152);

/// Base and instruct models of a name have one shape.
const KNOWN: [Known; 17] = [
    known("Qwen3-0.6B", QWEN3, [1024, 28, 16, 8, 128, 3072], true, 40_960),
    known("Qwen3-1.7B", QWEN3, [2048, 28, 16, 8, 128, 6144], true, 40_960),
    known("Qwen3-4B", QWEN3, [2560, 36, 32, 8, 128, 9728], true, 40_960),
    known("Qwen3-8B", QWEN3, [4096, 36, 32, 8, 128, 12_288], false, 40_960),
    known("Qwen3-14B", QWEN3, [5120, 40, 40, 8, 128, 17_408], false, 40_960),
    known("Qwen3-32B", QWEN3, [5120, 64, 64, 8, 128, 25_600], false, 40_960),
    known("Qwen2.5-0.5B", QWEN2, [896, 24, 14, 2, 64, 4864], true, 32_768),
    known("Qwen2.5-1.5B", QWEN2, [1536, 28, 12, 2, 128, 8960], true, 131_072),
    known("Qwen2.5-3B", QWEN2, [2048, 36, 16, 2, 128, 11_008], true, 32_768),
    known("Qwen2.5-7B", QWEN2_LARGE, [3584, 28, 28, 4, 128, 18_944], false, 131_072),
    known("Qwen2.5-14B", QWEN2_LARGE, [5120, 48, 40, 8, 128, 13_824], false, 131_072),
    known("Qwen2.5-32B", QWEN2_LARGE, [5120, 64, 40, 8, 128, 27_648], false, 131_072),
    known("Llama-3.1-8B", LLAMA3, [4096, 32, 32, 8, 128, 14_336], false, 131_072),
    known("Llama-3.2-1B", LLAMA3, [2048, 16, 32, 8, 64, 8192], true, 131_072),
    known("SmolLM2-135M", SMOLLM2, [576, 30, 9, 3, 64, 1536], true, 8192),
    known("SmolLM2-360M", SMOLLM2, [960, 32, 15, 5, 64, 2560], true, 8192),
    known("SmolLM2-1.7B", SMOLLM2, [2048, 24, 32, 32, 64, 8192], true, 8192),
];

impl Known {
    fn config(&self) -> ModelConfig {
        ModelConfig {
            architecture: self.architecture,
            vocabulary_size: self.vocabulary_size,
            hidden_size: self.hidden_size,
            layers: self.layers,
            heads: self.heads,
            key_value_heads: self.key_value_heads,
            head_size: self.head_size,
            feed_forward_size: self.feed_forward_size,
            tied_embeddings: self.tied_embeddings,
            context_tokens: self.context_tokens,
            // No size depends on these.
            rope: Rope { theta: 10_000.0, scaling: RopeScaling::None },
            ..ModelConfig::tiny()
        }
    }
}

/// The shape of the recipe's model: of `file` where given, of the model itself where it is here, and
/// otherwise of the table.
///
/// # Errors
/// None of these has it.
pub(super) fn of(recipe: &Recipe, file: Option<&Path>) -> anyhow::Result<Shape> {
    if let Some(path) = file {
        let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        if path.is_file() && path.file_name().is_none_or(|name| name != "config.json") {
            let told = format!("`{}` is not called `config.json`", path.display());
            return Err(WrongUse::error(told)).hint("`--shape` takes such a file, or its folder");
        }
        let config =
            files::config(folder).with_context(|| format!("can't use {}", path.display()))?;
        return Ok(Shape { config, source: path.display().to_string(), is_here: false });
    }
    let name = recipe.model.path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let here = model::outline(recipe);
    match (here, name) {
        (Ok((outline, _)), name) => {
            let source = name.unwrap_or_else(|| "the recipe's own shape".to_owned());
            Ok(Shape { config: outline.config, source, is_here: true })
        }
        (Err(error), None) => Err(error),
        (Err(_), Some(name)) => by_name(&name),
    }
}

fn by_name(name: &str) -> anyhow::Result<Shape> {
    let own = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_lowercase();
    let own = own.trim_end_matches("-base").trim_end_matches("-instruct");
    if let Some(known) = KNOWN.iter().find(|known| known.name.to_lowercase() == own) {
        let source =
            format!("{}, by the makers' public config.json; the model isn't here", known.name);
        return Ok(Shape { config: known.config(), source, is_here: false });
    }
    let known = KNOWN.map(|known| known.name).join(", ");
    Err(WrongUse::error(format!("model `{name}` isn't here, and its shape isn't known")))
        .hint(format!("give its config.json by `--shape FILE`; known are: {known}"))
}

#[cfg(test)]
mod tests {
    use rocstar_nn::parameters::Layout;

    use super::*;

    /// Counts that the makers publish, exact from the files of the weights.
    #[test]
    fn shapes_have_as_many_weights_as_the_models() {
        for (name, weights) in [
            ("Qwen/Qwen3-14B-Base", 14_768_307_200),
            ("Qwen/Qwen3-8B", 8_190_735_360),
            ("Qwen/Qwen3-4B", 4_022_468_096),
            ("Qwen/Qwen3-0.6B", 596_049_920),
            ("Qwen/Qwen2.5-32B", 32_763_876_352),
            ("qwen2.5-7b-instruct", 7_615_616_512),
            ("Qwen/Qwen2.5-0.5B", 494_032_768),
            ("meta-llama/Llama-3.1-8B", 8_030_261_248),
            ("meta-llama/Llama-3.2-1B", 1_235_814_400),
            ("HuggingFaceTB/SmolLM2-135M", 134_515_008),
            ("HuggingFaceTB/SmolLM2-1.7B-Instruct", 1_711_376_384),
        ] {
            assert_eq!(Layout::new(&by_name(name).unwrap().config).len(), weights, "{name}");
        }
    }

    #[test]
    fn an_unknown_model_needs_its_shape() {
        let error = by_name("someone/else").unwrap_err().to_string();
        assert_eq!(error, "model `someone/else` isn't here, and its shape isn't known");
    }
}
