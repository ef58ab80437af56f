//! Files that are whole or absent, and the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{StoreError, on_file};

/// Writes a file under another name, to the disk, and renames it into place.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(folder)?.sync_all()
    });
    if written.is_err() {
        // Room on a full disk.
        let _ = fs::remove_file(&partial);
    }
    written.map_err(on_file("write", path))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other);
    let mut text = text.map_err(on_file("write", path))?;
    text.push(b'\n');
    write_whole(path, &text)
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = fs::read(path).map_err(on_file("read", path))?;
    serde_json::from_slice(&text).map_err(io::Error::from).map_err(on_file("read", path))
}

pub(super) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(on_file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Takes the lock of a folder; it is held until the file is dropped.
pub(super) fn lock(folder: &Path, name: &str) -> Result<File, StoreError> {
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let file = options.open(&path).map_err(on_file("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(on_file("lock", &path)(source)),
    }
}
