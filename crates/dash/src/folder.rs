//! A folder of runs.
//!
//! Invariant: a run is a folder of plain name directly in it, never a link; so a name that comes from
//! outside leads nowhere else. Runs that were looked at last stay open, `MOST_OPEN` of them and
//! `MOST_NUMBERS` numbers; what takes more of a run is kept of the `MOST_READ` that were read last.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rocstar_record::run::is_plain;

use crate::{Error, Run};

/// Runs whose metrics are kept: more than a page of the list shows, which opens them in turn.
const MOST_OPEN: usize = 128;
/// Numbers of their metrics together: 128 MiB.
const MOST_NUMBERS: usize = 16_000_000;
/// Runs whose groups, vocabularies and surveys are kept.
const MOST_READ: usize = 6;
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
    open: Mutex<OpenRuns>,
}

/// Runs that are open.
#[derive(Debug, Default)]
struct OpenRuns {
    all: Vec<OpenRun>,
    /// How often one was asked for.
    clock: u64,
}

#[derive(Debug)]
struct OpenRun {
    name: String,
    run: Arc<Run>,
    /// When it was last asked for.
    asked: u64,
    /// When more than its overview was; 0 where that was not, or was thrown away.
    read: u64,
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

    /// The run of this name, to read in it.
    ///
    /// # Errors
    /// No run can have the name, there is none, or a newer rocstar wrote it.
    pub fn run(&self, name: &str) -> Result<Arc<Run>, Error> {
        self.open_run(name, true)
    }

    /// The run of this name for its overview: a look at all runs throws nothing away that is kept of the
    /// ones that are read.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn glance(&self, name: &str) -> Result<Arc<Run>, Error> {
        self.open_run(name, false)
    }

    fn open_run(&self, name: &str, is_read: bool) -> Result<Arc<Run>, Error> {
        if !is_plain(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let path = self.path.join(name);
        let is_folder = std::fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir());
        if !is_folder || self.only.as_ref().is_some_and(|only| only != name) {
            return Err(Error::missing(format!("run `{name}`")));
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all.retain(|it| it.name != name || !it.run.is_replaced());
        if !open.all.iter().any(|it| it.name == name) {
            open.make_room();
            let run = Arc::new(Run::open(&path)?);
            open.all.push(OpenRun { name: name.to_owned(), run, asked: 0, read: 0 });
        }
        open.ask(name, is_read).ok_or_else(|| Error::missing(format!("run `{name}`")))
    }
}

impl OpenRuns {
    /// Closes the runs that were not asked for the longest time, until there is room for one more.
    fn make_room(&mut self) {
        let numbers = |all: &[OpenRun]| all.iter().map(|it| it.run.numbers()).sum::<usize>();
        while self.all.len() >= MOST_OPEN || numbers(&self.all) > MOST_NUMBERS {
            let oldest = self.all.iter().enumerate().min_by_key(|(_, it)| it.asked);
            let Some((oldest, _)) = oldest else { return };
            self.all.remove(oldest);
        }
    }

    fn ask(&mut self, name: &str, is_read: bool) -> Option<Arc<Run>> {
        self.clock += 1;
        let found = self.all.iter_mut().find(|it| it.name == name)?;
        found.asked = self.clock;
        if is_read {
            found.read = self.clock;
        }
        let run = Arc::clone(&found.run);
        while self.all.iter().filter(|it| it.read > 0).count() > MOST_READ {
            let oldest = self.all.iter_mut().filter(|it| it.read > 0).min_by_key(|it| it.read)?;
            oldest.read = 0;
            oldest.run.rest();
        }
        Some(run)
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

    fn folder_of(count: usize) -> (tempfile::TempDir, Folder) {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..count {
            let run = folder.path().join(format!("run{number}"));
            std::fs::create_dir(&run).unwrap();
            std::fs::write(run.join("config.toml"), format!("seed = {number}\n")).unwrap();
        }
        let runs = Folder::open(folder.path()).unwrap();
        (folder, runs)
    }

    #[test]
    fn a_look_at_all_runs_opens_each_once() {
        let (_folder, runs) = folder_of(60);
        let look = || -> Vec<Arc<Run>> {
            (0..60).map(|number| runs.glance(&format!("run{number}")).unwrap()).collect()
        };
        let first = look();
        assert!(first.iter().zip(look()).all(|(one, again)| Arc::ptr_eq(one, &again)));
        runs.run("run0").unwrap();
        look();
        let names = |open: &OpenRuns| -> Vec<String> {
            open.all.iter().filter(|it| it.read > 0).map(|it| it.name.clone()).collect()
        };
        assert_eq!(names(&runs.open.lock().unwrap()), ["run0"], "a look is no reading");
        for number in 0..60 {
            runs.run(&format!("run{number}")).unwrap();
        }
        let read = runs.open.lock().unwrap().all.iter().filter(|it| it.read > 0).count();
        assert_eq!(read, MOST_READ);
    }

    #[test]
    fn the_runs_that_are_open_are_bounded() {
        let (_folder, runs) = folder_of(MOST_OPEN + 3);
        for number in 0..MOST_OPEN + 3 {
            runs.glance(&format!("run{number}")).unwrap();
        }
        let open = runs.open.lock().unwrap();
        assert_eq!(open.all.len(), MOST_OPEN);
        assert!(open.all.iter().all(|it| !["run0", "run1", "run2"].contains(&it.name.as_str())));
    }

    /// A name that is another run by now, or that a newer rocstar goes on with.
    #[test]
    fn a_run_that_was_replaced_is_opened_anew() {
        let (folder, runs) = folder_of(1);
        let run = folder.path().join("run0");
        assert_eq!(runs.run("run0").unwrap().recipe().seed, 0);
        std::fs::remove_dir_all(&run).unwrap();
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("config.toml"), "seed = 12345\n").unwrap();
        assert_eq!(runs.run("run0").unwrap().recipe().seed, 12_345);
        std::fs::write(run.join("env.json"), "{\"schema\": 99}").unwrap();
        assert!(runs.run("run0").is_err());
    }
}
