//! What a person notes of a run: the one file of its directory that no run writes.
//!
//! Invariant: training neither reads nor touches it, and it is whole or absent.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Error, on_file};
use super::files::{read_ordinary, replace_file};

const NOTES: &str = "notes.json";
/// Largest file of notes.
const MAX_NOTES_BYTES: u64 = 1 << 20;

/// What a person noted of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// Words to find the run by.
    pub tags: Vec<String>,
    /// Anything.
    pub text: String,
}

pub(super) fn read(run: &Path) -> Result<Option<Notes>, Error> {
    let path = run.join(NOTES);
    if !path.exists() {
        return Ok(None);
    }
    let text = read_ordinary(&path, MAX_NOTES_BYTES)?;
    let notes = serde_json::from_slice(&text).map_err(io::Error::from);
    notes.map(Some).map_err(on_file("read", &path))
}

pub(super) fn write(run: &Path, notes: &Notes) -> Result<(), Error> {
    let path = run.join(NOTES);
    let text = serde_json::to_vec_pretty(notes).map_err(io::Error::from);
    let text = text.map_err(on_file("write", &path))?;
    if text.len() as u64 > MAX_NOTES_BYTES {
        let problem = format!("notes have at most {MAX_NOTES_BYTES} bytes");
        return Err(on_file("write", &path)(io::Error::other(problem)));
    }
    replace_file(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(read(run.path()).unwrap(), None);
        let notes = Notes { tags: vec!["ablation".into()], text: "lower rate".into() };
        write(run.path(), &notes).unwrap();
        assert_eq!(read(run.path()).unwrap(), Some(notes));
        let long = Notes { text: "x".repeat(MAX_NOTES_BYTES as usize), ..Notes::default() };
        assert!(write(run.path(), &long).is_err());
    }
}
