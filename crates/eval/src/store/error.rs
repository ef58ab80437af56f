//! Why the folder of an evaluation can't be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::protocol::{Difference, SCHEMA_VERSION};

/// Why the folder of an evaluation can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file can't be read or written.
    #[error("can't {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A whole file can't be put in its place.
    #[error(transparent)]
    Replace(#[from] rocstar_record::run::Error),
    /// There is an evaluation already.
    #[error("{} holds an evaluation already", .0.display())]
    Exists(PathBuf),
    /// There is none.
    #[error("{} holds no evaluation: it has no `protocol.json`", .0.display())]
    NoEvaluation(PathBuf),
    /// Another process works on it.
    #[error("another process works on {}", .0.display())]
    Locked(PathBuf),
    /// Attempts of another protocol.
    #[error(
        "the evaluation in {} was begun under another protocol:\n{}", path.display(),
        differences.iter().map(|it| format!("  {it}")).collect::<Vec<_>>().join("\n")
    )]
    ProtocolChanged {
        /// The folder.
        path: PathBuf,
        /// In what they differ.
        differences: Vec<Difference>,
    },
    /// A newer rocstar wrote it.
    #[error(
        "{}: `schema` is {found}, newer than {SCHEMA_VERSION}: use a newer rocstar",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The writer's version.
        found: u32,
    },
}

/// For `map_err`: names the file that an input or output error is about.
pub(super) fn on_file(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::File { action, path, source }
}
