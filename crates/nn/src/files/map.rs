//! A file as memory.
//!
//! The only `unsafe` of this module's files. Why mapping and not reading: a loader touches each
//! byte of a large file once, from several threads, and a copy in memory would double its need.
#![expect(unsafe_code, reason = "mapping a file into memory has no safe interface")]

use std::fs::File;
use std::path::Path;

use super::Error;

/// A file mapped for reading. An empty file has no bytes.
#[derive(Debug)]
pub(super) struct Mapped(Option<memmap2::Mmap>);

impl Mapped {
    /// Maps the regular file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        if !metadata.is_file() {
            let problem = "it is not a regular file".into();
            return Err(Error::NoModel { path: path.into(), problem });
        }
        if metadata.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: The map is private and read-only, and lives as long as `Mmap`. What Rust can't
        // rule out is another process that writes to the file meanwhile: then the bytes may change
        // under us, and they are only ever read as plain integers, for which every bit pattern is a
        // value; or the file is cut short, and touching the lost part ends this process with
        // SIGBUS, which is the limit that the module documentation names.
        let map = unsafe { memmap2::Mmap::map(&file) };
        map.map(|map| Self(Some(map))).map_err(Error::io("map", path))
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
