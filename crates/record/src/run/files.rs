//! Files that are whole or absent, and logs of whole lines.
//!
//! Invariant: a file that is written at once appears under its name when it is on the disk, or not at
//! all; a log's line is written by one call, and what a failed call left of it is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::{Error, on_file};

/// Longest line of metrics or events.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;
/// How names of files end that are being written.
pub(super) const PARTIAL: &str = ".partial";

/// Puts a file of this content where one may be, whole or not at all. A link of its name is replaced, and
/// what it leads to stays as it is: a run's directory may come from anywhere.
///
/// # Errors
/// The folder can't be written.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    write_whole(path, |file| file.write_all(content))
}

/// Writes a file under another name, to the disk, and renames it into place. Neither name is followed
/// where it is a link.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL);
    let partial = path.with_file_name(name);
    remove_if_there(&partial)?;
    let mut file = File::create_new(&partial).map_err(on_file("write", path))?;
    let written =
        write(&mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    if let Err(error) = written {
        // Room on a full disk; what stays is removed when the run goes on.
        let _ = fs::remove_file(&partial);
        return Err(on_file("write", path)(error));
    }
    sync_folder(path.parent().unwrap_or_else(|| Path::new(".")))
}

/// Sees to it that the names in a folder are on the disk.
pub(super) fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(on_file("write", path))
}

/// Removes a file, unless there is none.
pub(super) fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(on_file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Names in a folder that are text; none where there is no folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(on_file("read", folder))?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(on_file("read", folder))?;
        all.extend(entry.file_name().into_string().ok());
    }
    all.sort_unstable();
    Ok(all)
}

/// Opens an ordinary file to read. Nothing else, links included: a run's directory may come from
/// anywhere, and a pipe in it would never end.
pub(super) fn open_ordinary(path: &Path) -> Result<File, Error> {
    let metadata = fs::symlink_metadata(path).map_err(on_file("read", path))?;
    if !metadata.is_file() {
        let problem = io::Error::other("it is no ordinary file");
        return Err(on_file("read", path)(problem));
    }
    File::open(path).map_err(on_file("read", path))
}

/// The content of an ordinary file of at most `limit_bytes`.
pub(super) fn read_ordinary(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let mut limited = open_ordinary(path)?.take(limit_bytes + 1);
    limited.read_to_end(&mut content).map_err(on_file("read", path))?;
    if content.len() as u64 > limit_bytes {
        let problem = format!("it has more than {limit_bytes} bytes");
        return Err(on_file("read", path)(io::Error::other(problem)));
    }
    Ok(content)
}

/// A log of lines of JSON that grows by whole lines.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Lines {
    /// Opens a log to add to, or makes it.
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path).map_err(on_file("open", &path))?;
        let bytes = file.metadata().map_err(on_file("read", &path))?.len();
        Ok(Self { path, file, bytes })
    }

    /// Bytes of its lines.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, by one write, so that a kill tears at most the last.
    pub(super) fn push(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_vec(line).map_err(io::Error::other);
        let mut text = text.map_err(on_file("write", &self.path))?;
        if text.len() > MAX_LINE_BYTES {
            let length = text.len();
            let problem = format!("a line of {length} bytes; at most {MAX_LINE_BYTES} are read");
            return Err(on_file("write", &self.path)(io::Error::other(problem)));
        }
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            // A full disk may have taken a part. Should this fail too, the next opening mends it.
            let _ = self.file.set_len(self.bytes);
            return Err(on_file("write", &self.path)(error));
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Sees to it that every line is on the disk.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(on_file("write", &self.path))
    }

    /// Forgets everything after the first `bytes`.
    pub(super) fn cut(&mut self, bytes: u64) -> Result<(), Error> {
        self.file.set_len(bytes).map_err(on_file("cut", &self.path))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Cuts a torn last line off, so that the next line stands alone.
    pub(super) fn mend(&mut self) -> Result<(), Error> {
        let text = fs::read(&self.path).map_err(on_file("read", &self.path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        self.cut(whole as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_link_leads_to_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, path) = (folder.path().join("outside"), folder.path().join("notes.json"));
        fs::write(&outside, "kept").unwrap();
        for name in ["notes.json", "notes.json.partial"] {
            let _ = fs::remove_file(&path);
            symlink(&outside, folder.path().join(name)).unwrap();
            replace_file(&path, b"new").unwrap();
            assert_eq!(fs::read_to_string(&outside).unwrap(), "kept", "{name}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "new", "{name}");
            assert!(!fs::symlink_metadata(&path).unwrap().is_symlink(), "{name}");
        }
    }
}
