//! Reads files back from a run's private directory, after every process of it is gone.
//!
//! Invariant: only plain files below the directory are opened, no link is followed, and reading
//! stops at a fixed size, so a program can only give away what it could have printed.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use crate::report::FetchedFile;
use crate::request::inside_private_directory;

/// Largest file that is given back, in bytes, and most of all files together.
const MAX_FETCH_BYTES: u64 = 64 << 20;

/// Reads `paths`, in order.
pub(crate) fn fetch(directory: &OwnedFd, paths: &[String]) -> Vec<FetchedFile> {
    let mut left = MAX_FETCH_BYTES;
    let read = |path: &String| {
        let result = read_one(directory, path, left);
        if let Ok(content) = &result {
            left -= content.len() as u64;
        }
        let (content, problem) = match result {
            Ok(content) => (Some(content), None),
            Err(problem) => (None, Some(problem)),
        };
        FetchedFile { path: path.clone(), content, problem }
    };
    paths.iter().map(read).collect()
}

fn read_one(directory: &OwnedFd, path: &str, most_bytes: u64) -> Result<Vec<u8>, String> {
    let relative = inside_private_directory(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let file =
        openat2(directory, relative, flags, Mode::empty(), resolve).map_err(
            |error| match error {
                rustix::io::Errno::NOENT => "no such file".to_owned(),
                rustix::io::Errno::LOOP => "a link is not followed".to_owned(),
                error => error.to_string(),
            },
        )?;
    let status = fstat(&file).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err("not a plain file".to_owned());
    }
    if u64::try_from(status.st_size).unwrap_or(u64::MAX) > most_bytes {
        return Err(format!("larger than the {most_bytes} bytes that may be read back"));
    }
    let mut content = Vec::new();
    let read = File::from(file).take(most_bytes).read_to_end(&mut content);
    read.map(|_| content).map_err(|error| error.to_string())
}
