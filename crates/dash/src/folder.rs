//! A folder of runs.
//!
//! Invariant: a run is a folder of plain name directly in it, never a link; so a name that comes from
//! outside leads nowhere else. Runs that were looked at last stay open, [`MOST_OPEN`] of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rocstar_record::run::is_plain;

use crate::{Error, Run};

/// Runs whose metrics and surveys are kept.
const MOST_OPEN: usize = 24;
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// Notices of a folder.
const MOST_NOTICES: usize = 50;

/// A folder of runs.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Where the folder is one run itself, its name.
    only: Option<String>,
    /// The ones that were used last at the end.
    open: Mutex<Vec<(String, Arc<Run>)>>,
}

/// A run that is there, unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its folder's name.
    pub name: String,
    /// When something was last written that every run writes.
    pub changed: Option<SystemTime>,
}

/// A path as a person in the working directory would write it.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(here) {
        Ok(inner) if inner.as_os_str().is_empty() => PathBuf::from("."),
        Ok(inner) => inner.to_owned(),
        Err(_) => path.to_owned(),
    }
}

impl Folder {
    /// The runs in `path`, or the one run that `path` is.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let on_path = |source| Error::File { path: path.to_owned(), source };
        let whole = path.canonicalize().map_err(on_path)?;
        if !whole.is_dir() {
            return Err(Error::missing(format!("folder {}", path.display())));
        }
        let name = whole.file_name().and_then(|name| name.to_str()).filter(|name| is_plain(name));
        if let (Some(name), Some(parent), true) =
            (name, whole.parent(), whole.join("config.toml").exists())
        {
            let only = Some(name.to_owned());
            return Ok(Self { path: parent.to_owned(), only, open: Mutex::default() });
        }
        Ok(Self { path: whole, only: None, open: Mutex::default() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs, the one that changed last first, and what else is there that looks like one and is not
    /// shown.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn entries(&self) -> Result<(Vec<Entry>, Vec<String>), Error> {
        let on_path = |source| Error::File { path: self.path.clone(), source };
        let (mut runs, mut notices) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.path).map_err(on_path)?.take(MOST_ENTRIES) {
            let entry = entry.map_err(on_path)?;
            let Ok(kind) = entry.file_type() else { continue };
            let shown = entry.file_name().to_string_lossy().into_owned();
            if self.only.as_ref().is_some_and(|only| *only != shown) || shown.starts_with('.') {
                continue;
            }
            let looks_like_one = || entry.path().join("config.toml").exists();
            if kind.is_dir() && is_plain(&shown) {
                if looks_like_one() {
                    let changed = changed(&entry.path());
                    runs.push(Entry { name: shown, changed });
                }
            } else if notices.len() < MOST_NOTICES && looks_like_one() {
                let why =
                    if kind.is_symlink() { "is a link" } else { "has a name that no run has" };
                notices.push(format!("`{}` is not shown: it {why}", shown.escape_debug()));
            }
        }
        runs.sort_by(|one, other| {
            other.changed.cmp(&one.changed).then_with(|| one.name.cmp(&other.name))
        });
        Ok((runs, notices))
    }

    /// The run of this name.
    ///
    /// # Errors
    /// No run can have the name, there is none, or a newer rocstar wrote it.
    pub fn run(&self, name: &str) -> Result<Arc<Run>, Error> {
        if !is_plain(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let path = self.path.join(name);
        let is_folder = std::fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir());
        if !is_folder || self.only.as_ref().is_some_and(|only| only != name) {
            return Err(Error::missing(format!("run `{name}`")));
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(known, _)| known == name) {
            let found = open.remove(at);
            let run = Arc::clone(&found.1);
            open.push(found);
            return Ok(run);
        }
        let run = Arc::new(Run::open(&path)?);
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push((name.to_owned(), Arc::clone(&run)));
        Ok(run)
    }
}

/// When metrics or events of a run were written last.
fn changed(run: &Path) -> Option<SystemTime> {
    let of = |name: &str| std::fs::symlink_metadata(run.join(name)).ok()?.modified().ok();
    ["metrics.jsonl", "events.jsonl", "config.toml"].into_iter().filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_plain_folders_and_the_rest_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["first", "a b", ".hidden", "empty"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            if name != "empty" {
                std::fs::write(folder.path().join(name).join("config.toml"), "seed = 1\n").unwrap();
            }
        }
        std::os::unix::fs::symlink(folder.path().join("first"), folder.path().join("link"))
            .unwrap();
        let runs = Folder::open(folder.path()).unwrap();
        let (entries, mut notices) = runs.entries().unwrap();
        notices.sort();
        assert_eq!(entries.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["first"]);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(runs.run("first").is_ok());
        for name in ["link", "a b", "..", "../x", "empty", "absent", "first/../first"] {
            assert!(runs.run(name).is_err(), "{name}");
        }
        std::fs::create_dir(folder.path().join("other")).unwrap();
        std::fs::write(folder.path().join("other/config.toml"), "").unwrap();
        let one = Folder::open(&folder.path().join("first")).unwrap();
        assert_eq!(one.entries().unwrap().0.len(), 1);
        assert!(one.run("first").is_ok());
        assert!(one.run("other").is_err(), "a folder that is one run has no other");
    }
}
