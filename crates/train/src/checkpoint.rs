//! Checkpoints: `checkpoints/step_000123/`, a model's folder with the state of the run beside it.
//!
//! Invariant: a folder of that name is whole. It is written under another name, every file of it is
//! brought to the disk, and it is renamed; a process that ends before leaves the name `.partial`,
//! which the next one removes. A full disk or a kill costs the checkpoint that was being written and
//! no other. Nothing lists checkpoints but their names, so there is no list to be wrong.
//!
//! `state/state.json` says where the run was and what the folder's files were; the optimiser's
//! moments stand beside it. `latest` and `best` are links.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rocstar_nn::files;
use rocstar_nn::step::Model;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, on_file};
use crate::examples::hexadecimal;
use crate::recipe::CheckpointOptions;

/// The file of a checkpoint that has the tools which its model was trained with.
pub const TOOLS: &str = "tools.json";

const FORMAT: u32 = 1;
const PARTIAL: &str = ".partial";

/// Where a run was when a checkpoint was saved. There is no state of a random generator: every draw
/// is keyed by what it is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps done in the whole run.
    pub step: u64,
    /// The stage, from 0.
    pub stage: usize,
    /// Steps done in the stage; the data's order follows from it.
    pub stage_step: u64,
    /// The stage's steps are all done.
    pub stage_done: bool,
    /// Pass over the data of the last step, from 0.
    pub epoch: u64,
    /// Tokens that went through the model in the whole run.
    pub tokens: u64,
    /// Bytes of `metrics.jsonl`.
    pub metrics_bytes: u64,
    /// Fingerprint of the stage's data.
    pub data_sha256: String,
    /// Fingerprint of the weights that adapters belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_sha256: Option<String>,
    /// Loss on the evaluation's data, where it was measured at this step; of reinforcement learning
    /// the share of wrong answers.
    pub evaluation_loss: Option<f64>,
    /// Tasks that the stage has taken.
    #[serde(default)]
    pub next_task: u64,
    /// Indices of the stage's tasks that are left out, as they were solved before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<usize>,
}

impl State {
    /// A stage begins: what is counted over the whole run stays.
    pub(crate) fn begin_stage(
        &mut self,
        stage: usize,
        data_sha256: &str,
        base_sha256: Option<String>,
    ) {
        *self = Self {
            step: self.step,
            tokens: self.tokens,
            stage,
            data_sha256: data_sha256.to_owned(),
            base_sha256,
            ..Self::default()
        };
    }
}

/// The state's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    format: u32,
    state: State,
    /// Each other file of the checkpoint, by its path within.
    files: BTreeMap<String, FileEntry>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

/// A checkpoint that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Its folder.
    pub path: PathBuf,
    /// Where the run was.
    pub state: State,
}

impl Checkpoint {
    /// The file of the optimiser's state.
    pub fn optimizer(&self) -> PathBuf {
        optimizer_file(&self.path)
    }

    /// The policy that the loss is kept near, where the checkpoint's stage has one.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn reference(&self) -> Result<Model, Error> {
        let loaded = files::load(&reference_folder(&self.path))?;
        Ok(Model { config: loaded.config, parameters: loaded.parameters })
    }

    /// Whether every file is what was written.
    ///
    /// # Errors
    /// The first that is not.
    pub fn verify(&self) -> Result<(), Error> {
        let expected = read_state(&self.path)?.files;
        let found = entries(&self.path)?;
        for (name, entry) in &expected {
            let problem = match found.get(name) {
                None => "is missing",
                Some(found) if found != entry => "is not what was written",
                Some(_) => continue,
            };
            return Err(Error::Checkpoint {
                path: self.path.join(name),
                problem: problem.to_owned(),
            });
        }
        Ok(())
    }
}

/// Where the optimiser's state of the checkpoint in `folder` is.
pub fn optimizer_file(folder: &Path) -> PathBuf {
    folder.join("state/optimizer.bin")
}

/// Where the policy that the loss is kept near stands in the checkpoint in `folder`.
pub(crate) fn reference_folder(folder: &Path) -> PathBuf {
    folder.join("state/reference")
}

/// All checkpoints in `folder`, the earliest first.
///
/// # Errors
/// The folder, or a checkpoint's state, can't be read.
pub fn list(folder: &Path) -> Result<Vec<Checkpoint>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(on_file("read", folder))? {
        let entry = entry.map_err(on_file("read", folder))?;
        if entry.file_name().to_str().and_then(step_of).is_some() {
            let path = entry.path();
            let state = read_state(&path)?.state;
            all.push(Checkpoint { path, state });
        }
    }
    all.sort_by_key(|checkpoint| checkpoint.state.step);
    Ok(all)
}

fn step_of(name: &str) -> Option<u64> {
    name.strip_prefix("step_")?.parse().ok()
}

/// Removes what processes that were ended left behind.
///
/// # Errors
/// The folder can't be read or written.
pub fn remove_partial(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(on_file("read", folder))? {
        let entry = entry.map_err(on_file("read", folder))?;
        if entry.file_name().to_string_lossy().ends_with(PARTIAL) {
            let path = entry.path();
            let is_folder = entry.file_type().map_err(on_file("read", &path))?.is_dir();
            let removed =
                if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(on_file("remove", &path))?;
        }
    }
    Ok(())
}

/// Removes the checkpoints after `step`: the run goes on from there another time. The links lead to
/// what is left.
///
/// # Errors
/// The folder can't be read or written.
pub fn remove_after(folder: &Path, step: u64, options: &CheckpointOptions) -> Result<(), Error> {
    for checkpoint in list(folder)?.iter().rev().filter(|one| one.state.step > step) {
        remove(folder, &checkpoint.path)?;
    }
    let all = list(folder)?;
    set_links(folder, &all, options)
}

/// `latest`, and `best` where it is kept.
fn set_links(folder: &Path, all: &[Checkpoint], options: &CheckpointOptions) -> Result<(), Error> {
    let best = if options.keep_best { best(all) } else { None };
    link(folder, "latest", all.last())?;
    link(folder, "best", best.map(|index| &all[index]))
}

/// A checkpoint that is removed is first renamed, so that it is never there in part.
fn remove(folder: &Path, path: &Path) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.join(format!("{name}{PARTIAL}"));
    fs::rename(path, &partial).map_err(on_file("remove", path))?;
    fs::remove_dir_all(&partial).map_err(on_file("remove", &partial))
}

/// Saves a checkpoint: `write` puts the model and the optimiser's state into the folder that it is
/// given. Then those that `options` don't keep are removed.
///
/// # Errors
/// Something can't be written; checkpoints that were there still are.
pub fn save(
    folder: &Path,
    state: &State,
    options: &CheckpointOptions,
    write: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let name = format!("step_{:06}", state.step);
    let partial = folder.join(format!("{name}{PARTIAL}"));
    let path = folder.join(name);
    let written = write_partial(&partial, state, write);
    if let Err(error) = written {
        // Room for whoever comes next; what can't be removed is removed at the next start.
        let _ = fs::remove_dir_all(&partial);
        return Err(error);
    }
    if path.exists() {
        fs::remove_dir_all(&path).map_err(on_file("replace", &path))?;
    }
    fs::rename(&partial, &path).map_err(on_file("write", &path))?;
    sync_folder(folder)?;
    prune(folder, options)?;
    Ok(path)
}

fn write_partial(
    partial: &Path,
    state: &State,
    write: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let inner = partial.join("state");
    fs::create_dir_all(&inner).map_err(on_file("make", &inner))?;
    write(partial)?;
    let files = entries(partial)?;
    let file = StateFile { format: FORMAT, state: state.clone(), files };
    let path = inner.join("state.json");
    let text = serde_json::to_string_pretty(&file)
        .map_err(|error| on_file("write", &path)(io::Error::other(error)))?;
    fs::write(&path, text + "\n").map_err(on_file("write", &path))?;
    sync_all(partial)
}

/// Keeps the last ones and, of all, the best; removes the rest and sets the links.
fn prune(folder: &Path, options: &CheckpointOptions) -> Result<(), Error> {
    let all = list(folder)?;
    let best = if options.keep_best { best(&all) } else { None };
    let first_kept = all.len().saturating_sub(options.keep_last.max(1));
    for (index, checkpoint) in all.iter().enumerate() {
        if index < first_kept && best != Some(index) {
            remove(folder, &checkpoint.path)?;
        }
    }
    set_links(folder, &all, options)
}

/// The checkpoint with the lowest evaluation loss, of equals the earliest. Only the latest stage that
/// was measured counts: stages may be measured on different data.
pub fn best(all: &[Checkpoint]) -> Option<usize> {
    let measured = || {
        all.iter().enumerate().filter_map(|(index, checkpoint)| {
            Some((index, checkpoint.state.evaluation_loss?, checkpoint.state.stage))
        })
    };
    let stage = measured().map(|(_, _, stage)| stage).max()?;
    let of_stage = measured().filter(|(_, _, of)| *of == stage);
    of_stage.min_by(|left, right| left.1.total_cmp(&right.1)).map(|(index, ..)| index)
}

fn link(folder: &Path, name: &str, to: Option<&Checkpoint>) -> Result<(), Error> {
    let path = folder.join(name);
    let Some(target) = to.and_then(|checkpoint| checkpoint.path.file_name()) else {
        // There may be none; one that can't be removed leads nowhere.
        let _ = fs::remove_file(&path);
        return Ok(());
    };
    let partial = folder.join(format!("{name}{PARTIAL}"));
    let _ = fs::remove_file(&partial);
    std::os::unix::fs::symlink(target, &partial)
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(on_file("link", &path))
}

fn read_state(path: &Path) -> Result<StateFile, Error> {
    let file = path.join("state/state.json");
    let damaged = |problem: String| Error::Checkpoint { path: file.clone(), problem };
    let text = fs::read_to_string(&file).map_err(on_file("read", &file))?;
    let state: StateFile =
        serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    if state.format != FORMAT {
        return Err(damaged(format!("its format is {}, and {FORMAT} can be read", state.format)));
    }
    Ok(state)
}

/// Size and SHA-256 of every file but the state's own, by path within `folder`.
fn entries(folder: &Path) -> Result<BTreeMap<String, FileEntry>, Error> {
    let mut all = BTreeMap::new();
    for path in files(folder)? {
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        if name != "state/state.json" {
            all.insert(name, digest(&path).map_err(on_file("read", &path))?);
        }
    }
    Ok(all)
}

fn digest(path: &Path) -> io::Result<FileEntry> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(FileEntry { bytes, sha256: hexadecimal(&hash.finalize()) });
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// All files below `folder`.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(on_file("read", folder))? {
        let path = entry.map_err(on_file("read", folder))?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}

fn sync_all(folder: &Path) -> Result<(), Error> {
    for path in files(folder)? {
        File::open(&path).and_then(|file| file.sync_all()).map_err(on_file("write", &path))?;
    }
    sync_folder(&folder.join("state"))?;
    sync_folder(folder)
}

/// Sees to it that the names in a folder are on the disk.
fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(on_file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(keep_last: usize) -> CheckpointOptions {
        CheckpointOptions { keep_last, ..CheckpointOptions::default() }
    }

    fn state(step: u64, evaluation_loss: Option<f64>) -> State {
        State { step, evaluation_loss, ..State::default() }
    }

    fn write(folder: &Path) -> Result<(), Error> {
        fs::write(folder.join("model"), "weights").unwrap();
        fs::write(optimizer_file(folder), "moments").unwrap();
        Ok(())
    }

    fn steps(folder: &Path) -> Vec<u64> {
        list(folder).unwrap().iter().map(|checkpoint| checkpoint.state.step).collect()
    }

    #[test]
    fn the_last_ones_and_the_best_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for (step, loss) in [(1, Some(2.0)), (2, Some(1.0)), (3, None), (4, Some(1.0)), (5, None)] {
            save(folder, &state(step, loss), &options(2), write).unwrap();
        }
        assert_eq!(steps(folder), [2, 4, 5]);
        assert_eq!(fs::read_link(folder.join("best")).unwrap(), Path::new("step_000002"));
        assert_eq!(fs::read_link(folder.join("latest")).unwrap(), Path::new("step_000005"));
        remove_after(folder, 4, &options(2)).unwrap();
        assert_eq!(steps(folder), [2, 4]);
        assert_eq!(fs::read_link(folder.join("latest")).unwrap(), Path::new("step_000004"));
        remove_after(folder, 0, &options(2)).unwrap();
        assert!(fs::read_link(folder.join("latest")).is_err());
    }

    #[test]
    fn a_failed_save_leaves_the_others_and_no_rest() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        save(folder, &state(1, None), &options(1), write).unwrap();
        let full = |partial: &Path| {
            write(partial)?;
            Err(on_file("write", partial)(io::Error::from(io::ErrorKind::StorageFull)))
        };
        let error = save(folder, &state(2, None), &options(1), full).unwrap_err();
        assert!(matches!(error, Error::File { .. }));
        assert_eq!(steps(folder), [1]);
        let names = fs::read_dir(folder).unwrap().count();
        assert_eq!(names, 2, "the checkpoint and its link");
        list(folder).unwrap()[0].verify().unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        save(folder, &state(1, None), &options(1), write).unwrap();
        fs::create_dir_all(folder.join("step_000002.partial/state")).unwrap();
        fs::write(folder.join("latest.partial"), "").unwrap();
        remove_partial(folder).unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
    }

    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = save(folder.path(), &state(1, None), &options(1), write).unwrap();
        fs::write(path.join("model"), "Weights").unwrap();
        let checkpoint = &list(folder.path()).unwrap()[0];
        let error = checkpoint.verify().unwrap_err().to_string();
        assert!(error.contains("model is damaged: is not what was written"), "{error}");
        fs::remove_file(path.join("model")).unwrap();
        assert!(checkpoint.verify().unwrap_err().to_string().contains("is missing"));
    }
}
