//! Which weights are measured: the name and a sum over the files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::sums;

/// Endings of files that decide what a model says.
const PARTS: [&str; 3] = [".safetensors", ".json", ".jinja"];

/// What a model is called in tables: a checkpoint by its run and step, else the last part of its
/// path, or the name that was given.
pub(super) fn model_name(given: &str, path: &Path) -> String {
    let part = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    // `latest` is a link to a checkpoint.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real.parent();
    if folder.and_then(part).as_deref() == Some("checkpoints")
        && let (Some(run), Some(step)) = (folder.and_then(Path::parent).and_then(part), part(&real))
    {
        return format!("{run}/{step}");
    }
    if !Path::new(given).exists() {
        return given.to_owned();
    }
    part(&real).unwrap_or_else(|| given.to_owned())
}

/// SHA-256 of a model, in hexadecimal: of its one file, or over the names and sums of a folder's.
///
/// # Errors
/// A file can't be read.
pub(super) fn model_sha256(path: &Path) -> anyhow::Result<String> {
    if path.is_file() {
        return sums::of_file(path);
    }
    let mut sum = Sha256::new();
    for file in parts(path)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sum.update(format!("{name} {}\n", sums::of_file(&file)?));
    }
    Ok(sums::hexadecimal(&sum.finalize()))
}

fn parts(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || format!("can't read {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(read)? {
        let path = entry.with_context(read)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_part = PARTS.iter().any(|ending| name.ends_with(ending));
        // What belongs to the training alone lies in a folder of its own.
        if is_part && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
