//! Models on the Hugging Face hub.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use hf_hub::progress::{DownloadEvent, ProgressEvent, ProgressHandler};
use hf_hub::{HFClientSync, HFError};
use indicatif::ProgressBar;
use rocstar_nn::files;

use crate::failure::HintExt as _;
use crate::partial::Partial;
use crate::terminal::Terminal;

/// Read first: whether the model can be used at all.
const SHAPE_FILES: [&str; 2] = ["config.json", "generation_config.json"];

/// The rest: weights in safetensors, and what is about text. No pickled weights, which may run code.
const OTHER_FILES: [&str; 12] = [
    "model.safetensors",
    "model-*-of-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "LICENSE*",
];

/// Brings the model `name` into `folder`.
pub(super) fn fetch(
    name: &str,
    revision: Option<&str>,
    folder: &Path,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let partial = Partial::beside(folder)?;
    let (owner, short) = name.split_once('/').unwrap_or(("", name));
    let client = HFClientSync::new().context("can't set up the hub's client")?;
    let repository = client.model(owner, short);
    let bar = terminal.byte_bar("downloading", 0);
    let download = |patterns: &[&str]| {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let sent = repository
            .snapshot_download()
            .maybe_revision(revision.map(str::to_owned))
            .allow_patterns(patterns)
            .local_dir(partial.path())
            .progress(Bar { bar: bar.clone(), done: Mutex::default() })
            .send();
        sent.map_err(|error| explained(error, name))
    };
    download(&SHAPE_FILES)?;
    // An unsupported model is refused before its weights have come.
    files::config(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    download(&OTHER_FILES)?;
    bar.finish_and_clear();
    files::inspect(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    // What the hub's client keeps for itself.
    let _ = std::fs::remove_dir_all(partial.path().join(".cache"));
    partial.put_in_place(folder)
}

/// The hub's error with what to do about it.
fn explained(error: HFError, name: &str) -> anyhow::Error {
    let hint = match &error {
        HFError::RepoNotFound { .. } => {
            Some("check the spelling; a private or gated model needs a token in `HF_TOKEN`")
        }
        HFError::AuthRequired { .. } | HFError::Forbidden { .. } => Some(
            "the model needs a token in `HF_TOKEN`, and perhaps its licence accepted on its page",
        ),
        HFError::Request { .. } => Some(
            "the hub can't be reached; set `HF_ENDPOINT` to a mirror, or copy a Hugging Face \
             folder or `.gguf` file here and give its path",
        ),
        _ => None,
    };
    let error = anyhow::Error::new(error).context(format!("can't fetch `{name}` from the hub"));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Shows the client's progress. The client tells of one file or of all that are under way.
struct Bar {
    bar: ProgressBar,
    /// Bytes of each file.
    done: Mutex<HashMap<String, u64>>,
}

impl ProgressHandler for Bar {
    fn on_progress(&self, event: &ProgressEvent) {
        let ProgressEvent::Download(event) = event else { return };
        match event {
            DownloadEvent::Start { total_bytes, .. } => self.bar.set_length(*total_bytes),
            DownloadEvent::Progress { files } => {
                let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                let news = files.iter().map(|file| (file.filename.clone(), file.bytes_completed));
                done.extend(news);
                self.bar.set_position(done.values().sum());
            }
            DownloadEvent::AggregateProgress { bytes_completed, .. } => {
                self.bar.set_position(*bytes_completed);
            }
            DownloadEvent::Complete => {}
        }
    }
}
