//! Folders that appear whole or not at all.
//!
//! Invariant: what is being made lies in a hidden folder beside its place, which carries the id of
//! this process. It goes with this process's failure; what a killed process left is swept when the
//! next one begins in the same place.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::failure::{HintExt as _, WrongUse};

/// A folder in the making.
#[derive(Debug)]
pub(crate) struct Partial {
    folder: TempDir,
}

impl Partial {
    /// Begins a folder that will stand at `target`, whose parents are created.
    ///
    /// # Errors
    /// It can't be created there.
    pub(crate) fn beside(target: &Path) -> anyhow::Result<Self> {
        let place = || format!("can't create a folder at {}", target.display());
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            anyhow::bail!("not a folder to write: {}", target.display());
        };
        std::fs::create_dir_all(parent).with_context(place)?;
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        sweep(parent, &prefix);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{prefix}{}-", std::process::id()))
            .tempdir_in(parent)
            .with_context(place)?;
        std::fs::create_dir(folder.path().join(CONTENT)).with_context(place)?;
        std::fs::create_dir(folder.path().join(SCRATCH)).with_context(place)?;
        Ok(Self { folder })
    }

    /// What will stand at the place.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(CONTENT)
    }

    /// A folder for what isn't kept.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.path().join(SCRATCH)
    }

    /// Puts the folder in its place, where nothing or an empty folder is.
    ///
    /// # Errors
    /// Something else is there, or the file system refuses.
    pub(crate) fn put_in_place(self, target: &Path) -> anyhow::Result<()> {
        std::fs::rename(self.path(), target)
            .with_context(|| format!("can't put the folder in place at {}", target.display()))
    }
}

const CONTENT: &str = "content";
const SCRATCH: &str = "scratch";

/// Removes what killed processes left.
fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Whatever can't be removed now is tried again next time; it is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Refuses a place where something is that is no empty folder: nothing there is touched.
///
/// # Errors
/// Something is there.
pub(crate) fn refuse_occupied(out: &Path) -> anyhow::Result<()> {
    let occupied = match std::fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if !occupied {
        return Ok(());
    }
    Err(WrongUse::error(format!("not an empty folder: {}", out.display())))
        .hint("choose a folder that is empty or does not exist")
}
