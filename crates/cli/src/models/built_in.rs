//! The model that comes inside this program: the cold start of `rocstar quickstart`.
//!
//! Hides that a model is read from a folder and this one has none: its files are written into the
//! cache once, under a name that their content decides, so two versions never meet.

use std::path::PathBuf;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::partial::Partial;
use crate::python::cache_directory;
use crate::sums;

/// What it is called where a model is asked for.
pub(crate) const NAME: &str = "built-in:quickstart";

macro_rules! files {
    ($($name:literal),+) => {
        [$(($name, include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../recipes/quickstart-model/", $name
        ))),)+]
    };
}

/// Its files; `recipes/quickstart-model.toml` makes them.
const FILES: [(&str, &[u8]); 6] = files![
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tools.json"
];

/// The folder of the model, written if it isn't there.
///
/// # Errors
/// There is no cache directory, or it can't be written.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let mut hash = Sha256::new();
    for (name, content) in FILES {
        hash.update(name);
        hash.update(content);
    }
    let digest = hash.finalize();
    let short = sums::hexadecimal(&digest[..8]);
    let place = cache_directory()?.join("built-in").join(format!("quickstart-{short}"));
    if place.exists() {
        return Ok(place);
    }
    let partial = Partial::beside(&place)?;
    for (name, content) in FILES {
        let path = partial.path().join(name);
        std::fs::write(&path, content)
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    match partial.put_in_place(&place) {
        // Another process was faster: its files are the same.
        Err(_) if place.exists() => Ok(place),
        put => put.map(|()| place),
    }
}
