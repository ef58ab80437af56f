//! Which files of a repository are a model.
//!
//! Invariant: only files with plain names that a model consists of are fetched. Templates in
//! `additional_chat_templates/` are not.

use std::path::Path;

use anyhow::Context as _;
use rocstar_nn::files;
use rocstar_train::checkpoint::TOOLS;

use crate::hub::{Entry, Hub, Kind, Repository};
use crate::partial::Partial;
use crate::terminal::Terminal;

/// Read first: whether the model can be used at all.
const SHAPE_FILES: [&str; 2] = ["config.json", "generation_config.json"];

/// What is about text. Weights in safetensors come too, pickled ones, which may run code, never.
const TEXT_FILES: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    TOOLS,
    "model.safetensors.index.json",
];

/// Brings the model `name` into `folder`.
pub(super) fn fetch(
    name: &str,
    revision: Option<&str>,
    folder: &Path,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let hub = Hub::new();
    let repository = Repository { kind: Kind::Model, name };
    let context = || format!("can't fetch `{name}` from the hub");
    let (commit, entries) = hub.list(repository, revision).with_context(context)?;
    let partial = Partial::beside(folder)?;
    let chosen = |wanted: fn(&str) -> bool| {
        entries.iter().filter(move |entry| entry.is_file() && wanted(&entry.path))
    };
    let (shape, rest) = (chosen(|path| SHAPE_FILES.contains(&path)), chosen(is_wanted));
    let bar =
        terminal.byte_bar("downloading", shape.clone().chain(rest.clone()).map(|it| it.size).sum());
    let bring = |entry: &Entry| {
        let target = partial.path().join(&entry.path);
        hub.download(repository, &commit, entry, &target, None, &bar).map(drop)
    };
    for entry in shape {
        bring(entry).with_context(context)?;
    }
    // An unsupported model is refused before its weights have come.
    files::config(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    for entry in rest {
        bring(entry).with_context(context)?;
    }
    bar.finish_and_clear();
    files::inspect(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    partial.put_in_place(folder)
}

/// Weights, texts and licences, by plain names only: a name with a separator never matches.
fn is_wanted(path: &str) -> bool {
    let plain = !path.contains(['/', '\\']);
    let weights = path.starts_with("model") && path.ends_with(".safetensors");
    plain && (weights || TEXT_FILES.contains(&path) || path.starts_with("LICENSE"))
}
