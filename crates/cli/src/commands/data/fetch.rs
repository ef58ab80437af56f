//! `rocstar data fetch`: bring a suite's data to this machine, once.
//!
//! Invariant: a suite's folder stands at its place whole and checked, with a file that says where it
//! came from, or not at all. What a broken download left lies beside it and is gone on with.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use rocstar_eval::suite::{HubData, KNOWN, Known, SOURCE_FILE, Source, SourceFile};
use rustix::fs::FlockOperation;
use serde::Serialize;

use crate::data::data_directory;
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::hub::{Entry, Hub, Kind, Repository};
use crate::models::{folder_name, is_hub_name};
use crate::terminal::Terminal;

/// Bring the data of suites to this machine
///
/// A suite's data comes from the Hugging Face hub at the commit that `rocstar data list --json` shows
/// (`HF_ENDPOINT` and `HF_TOKEN` are honoured). `OWNER/NAME` brings files of any data set, for
/// evaluations of your own. A download that broke off is gone on with; doing it again changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    /// Suites, or `OWNER/NAME` of a data set on the hub
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Of `OWNER/NAME`: a file to bring, by its path there
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Branch, tag or commit; otherwise the suite's own commit, or `main`
    #[arg(long)]
    revision: Option<String>,
    /// Where to put the folders; otherwise the user's cache directory, where the other commands look
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What is fetched.
struct Wanted {
    /// The name that was given.
    name: String,
    dataset: String,
    revision: String,
    /// Whether the person asked for that revision.
    is_asked: bool,
    /// Paths with the sums that they must have.
    files: Vec<(String, Option<&'static str>)>,
    is_gated: bool,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Fetched {
    name: String,
    /// The folder.
    path: PathBuf,
    #[serde(flatten)]
    source: Source,
    licence: Option<&'static str>,
    /// False where it was already there.
    changed: bool,
}

impl Fetch {
    /// Runs the command.
    ///
    /// # Errors
    /// A name is not known, or its data can't be had or is not what it should be.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        // Every name is looked at before anything is fetched.
        let wanted = self.names.iter().filter_map(|name| self.wanted(name).transpose());
        let wanted = wanted.collect::<anyhow::Result<Vec<_>>>()?;
        let base = match &self.to {
            Some(folder) => std::path::absolute(folder)?,
            None => data_directory()?,
        };
        let mut all = Vec::new();
        for wanted in &wanted {
            let fetched = fetch(wanted, &base, terminal)?;
            let state = if fetched.changed { "fetched" } else { "already here" };
            terminal.note(format_args!("data: {} {state}", fetched.name));
            if !self.json {
                terminal.data(format!("{}\n", fetched.path.display()).as_bytes())?;
            }
            all.push(fetched);
        }
        if self.json {
            terminal.json(&all)?;
        }
        Ok(Finish::Good)
    }

    /// What a name stands for; `None` where there is nothing to fetch.
    fn wanted(&self, name: &str) -> anyhow::Result<Option<Wanted>> {
        // Of a suite with parts, all of it is fetched.
        let suite = name.split('/').next().unwrap_or(name);
        if let Some(known) = Known::named(suite) {
            return self.of_suite(known);
        }
        if !is_hub_name(name) {
            let error = WrongUse::error(format!("no suite is called `{name}`"));
            return Err(error.hint(match Known::nearest(name) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => {
                    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
                    format!("give `OWNER/NAME` for a data set on the hub, or {}", names.join(", "))
                }
            }));
        }
        for file in &self.file {
            let is_plain =
                Path::new(file).components().all(|it| matches!(it, Component::Normal(_)));
            if !is_plain || file == SOURCE_FILE {
                return Err(WrongUse::error(format!("`{file}` is no path of a data set's file")));
            }
        }
        Ok(Some(Wanted {
            name: name.to_owned(),
            dataset: name.to_owned(),
            revision: self.revision.clone().unwrap_or_else(|| "main".to_owned()),
            is_asked: self.revision.is_some(),
            files: self.file.iter().map(|file| (file.clone(), None)).collect(),
            is_gated: false,
        }))
    }

    fn of_suite(&self, known: &'static Known) -> anyhow::Result<Option<Wanted>> {
        if !self.file.is_empty() {
            let problem = format!("`{}` has files of its own; leave out `--file`", known.name);
            return Err(WrongUse::error(problem));
        }
        let Some(HubData { dataset, revision, is_gated, files }) = known.hub else {
            return Ok(None);
        };
        let is_pinned = self.revision.is_none();
        let sum = |sha256: Option<&'static str>| sha256.filter(|_| is_pinned);
        Ok(Some(Wanted {
            name: known.name.to_owned(),
            dataset: dataset.to_owned(),
            revision: self.revision.clone().unwrap_or_else(|| revision.to_owned()),
            is_asked: !is_pinned,
            files: files.iter().map(|file| (file.path.to_owned(), sum(file.sha256))).collect(),
            is_gated,
        }))
    }
}

fn fetch(wanted: &Wanted, base: &Path, terminal: Terminal) -> anyhow::Result<Fetched> {
    let folder = base.join(folder_name(&wanted.name));
    let licence = Known::named(&wanted.name).map(|known| known.licence);
    let here = |source, changed| {
        let (name, path) = (wanted.name.clone(), folder.clone());
        Fetched { name, path, source, licence, changed }
    };
    if let Some(source) = Source::of(&folder)? {
        let has = |path: &String| source.files.iter().any(|file| file.path == *path);
        if wanted.files.iter().all(|(path, _)| has(path)) && is_of(&source, wanted)? {
            return Ok(here(source, false));
        }
        let problem =
            format!("{} holds other files, of commit {}", folder.display(), source.revision);
        let hint = format!("remove it and fetch again: rm -r {}", folder.display());
        return Err(WrongUse::error(problem).hint(hint));
    }
    if std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let problem = format!("{} holds files that were not fetched", folder.display());
        return Err(WrongUse::error(problem)).hint("move it away, or fetch to another `--to DIR`");
    }
    let context = || format!("can't fetch `{}` from the hub", wanted.dataset);
    let source = download(wanted, &folder, terminal).with_context(context);
    let source = source.map_err(|error| {
        if !wanted.is_gated {
            return error;
        }
        error.hint(format!(
            "`{0}` is gated: accept its conditions at https://huggingface.co/datasets/{0}, make a \
             token at https://huggingface.co/settings/tokens and set `HF_TOKEN` to it",
            wanted.dataset
        ))
    })?;
    Ok(here(source, true))
}

/// Whether what is here is of the revision that is wanted. A name of one is looked up where it was
/// asked for; else what is here is good.
fn is_of(source: &Source, wanted: &Wanted) -> anyhow::Result<bool> {
    let is_commit = wanted.revision.len() == 40;
    if is_commit || !wanted.is_asked {
        return Ok(!is_commit || wanted.revision == source.revision);
    }
    let repository = Repository { kind: Kind::Dataset, name: &wanted.dataset };
    let commit = Hub::new().commit(repository, &wanted.revision).with_context(|| {
        format!("can't look up `{}` of `{}` on the hub", wanted.revision, wanted.dataset)
    })?;
    Ok(commit == source.revision)
}

/// Brings the files into a folder beside `folder`, and then puts that in its place.
fn download(wanted: &Wanted, folder: &Path, terminal: Terminal) -> anyhow::Result<Source> {
    let hub = Hub::new();
    let repository = Repository { kind: Kind::Dataset, name: &wanted.dataset };
    let (commit, entries) = hub.list(repository, Some(&wanted.revision))?;
    let chosen = chosen(wanted, &entries)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let short: String = commit.chars().take(12).collect();
    // The commit is part of the name, so that no two commits mix.
    let collected = folder.with_file_name(format!(".{name}.{short}.fetching"));
    std::fs::create_dir_all(&collected)
        .with_context(|| format!("can't create a folder at {}", collected.display()))?;
    let _lock = lock(&collected)?;
    let bar = terminal.byte_bar("downloading", chosen.iter().map(|(entry, _)| entry.size).sum());
    let mut files = Vec::new();
    for (entry, sha256) in chosen {
        let target = collected.join(&entry.path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("can't create a folder at {}", parent.display()))?;
        }
        let sha256 = hub.download(repository, &commit, entry, &target, sha256, &bar)?;
        files.push(SourceFile { path: entry.path.clone(), bytes: entry.size, sha256 });
    }
    bar.finish_and_clear();
    let source = Source { dataset: wanted.dataset.clone(), revision: commit, files };
    let path = collected.join(SOURCE_FILE);
    std::fs::write(&path, serde_json::to_vec_pretty(&source)?)
        .with_context(|| format!("can't write {}", path.display()))?;
    std::fs::rename(&collected, folder)
        .with_context(|| format!("can't put the data in place at {}", folder.display()))?;
    Ok(source)
}

/// The files of the hub's list that are wanted.
fn chosen<'e>(
    wanted: &Wanted,
    entries: &'e [Entry],
) -> anyhow::Result<Vec<(&'e Entry, Option<&'static str>)>> {
    let is_data =
        |path: &str| [".jsonl", ".parquet", ".json", ".csv"].iter().any(|end| path.ends_with(end));
    let data = || {
        let files = entries.iter().filter(|entry| entry.is_file() && is_data(&entry.path));
        let names: Vec<&str> = files.map(|entry| entry.path.as_str()).take(20).collect();
        if names.is_empty() { "no files of data".to_owned() } else { names.join(", ") }
    };
    if wanted.files.is_empty() {
        let error = WrongUse::error(format!("which files of `{}`?", wanted.dataset));
        return Err(error.hint(format!("name each with `--file PATH`; it has {}", data())));
    }
    let mut chosen = Vec::new();
    for (path, sha256) in &wanted.files {
        let found = entries.iter().find(|entry| entry.is_file() && entry.path == *path);
        let Some(entry) = found else {
            let problem = format!("`{}` has no file `{path}` there", wanted.dataset);
            return Err(anyhow::anyhow!(problem).hint(format!("it has {}", data())));
        };
        chosen.push((entry, *sha256));
    }
    Ok(chosen)
}

/// Keeps other processes out of a folder in the making for as long as the file is open.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let file = File::open(folder).with_context(|| format!("can't open {}", folder.display()))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| anyhow::anyhow!("another process fetches it: {}", folder.display()))?;
    Ok(file)
}
