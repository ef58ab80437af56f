//! Rows of data files as JSON objects, each with its place.
//!
//! Hides which kinds of files there are and how each becomes rows. Invariants: rows come in the
//! file's order, and no fault passes without its place. What a row must hold is its reader's matter.

mod jsonl;
mod parquet;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// A row of a data file.
pub type Row = Map<String, Value>;

/// Where a row stands: lines of `.jsonl` and rows of `.parquet`, both from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Its line or row, from 1.
    pub row: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path.display(), self.row)
    }
}

/// Whether a reader of rows wants more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It does.
    More,
    /// The rest is not read.
    Stop,
}

/// Which columns of a column store are read. A file of lines is always read whole.
#[derive(Debug, Clone, Copy)]
pub enum Columns<'names> {
    /// Every one.
    All,
    /// Those with these names, as far as they are there.
    Named(&'names [&'names str]),
}

/// Why a data file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The file can't be opened or read.
    #[error("can't {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A data file of an unknown kind.
    #[error("{}: data is read from files of `.jsonl` and `.parquet`", .0.display())]
    Kind(PathBuf),
    /// A row that is no object.
    #[error("{place}: {field}: {problem}")]
    Row {
        /// Where.
        place: Place,
        /// Which field or column.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A parquet file that can't be read.
    #[error("{path}: {problem}", path = path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Gives each row of a file to `take`, in order, until it wants no more.
///
/// # Errors
/// The file or one of its rows can't be read, or `take` fails.
pub fn each<E: From<RowsError>>(
    path: &Path,
    columns: Columns<'_>,
    take: &mut dyn FnMut(Place, Row) -> Result<Next, E>,
) -> Result<(), E> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson") => jsonl::each(path, take),
        Some("parquet") => parquet::each(path, columns, take),
        _ => Err(RowsError::Kind(path.to_owned()).into()),
    }
}

/// As [`each`], of a file of lines of JSON whatever its name ends with.
///
/// # Errors
/// As for [`each`].
pub fn each_line<E: From<RowsError>>(
    path: &Path,
    take: &mut dyn FnMut(Place, Row) -> Result<Next, E>,
) -> Result<(), E> {
    jsonl::each(path, take)
}

/// For `map_err`: names the file that an input error is about.
fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RowsError {
    let path = path.to_owned();
    move |source| RowsError::File { action, path, source }
}
