//! Files of JSON that are whole or absent, and the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use rocstar_record::run::replace_file;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{StoreError, on_file};

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other);
    let mut text = text.map_err(on_file("write", path))?;
    text.push(b'\n');
    Ok(replace_file(path, &text)?)
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
