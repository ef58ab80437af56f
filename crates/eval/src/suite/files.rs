//! Files of data: their rows with places, their sums, and where a fetched copy came from.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rocstar_record::episode::TaskId;
use rocstar_rollout::rows::{self, Columns, Next, Place, Row, RowsError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SuiteError;

/// A file that problems were read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The hub's commit that it came from, where `rocstar data fetch` brought it.
    pub revision: Option<String>,
}

/// The name of the file in a fetched folder that says where it came from.
pub const SOURCE_FILE: &str = "source.json";

/// Where a fetched folder came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The hub's data set.
    pub dataset: String,
    /// Its commit.
    pub revision: String,
    /// Its files, by their paths within the folder.
    pub files: Vec<SourceFile>,
}

/// A file of a fetched folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its path within the folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Source {
    /// Reads a fetched folder's; `None` where it has none.
    ///
    /// # Errors
    /// The file can't be read, or is damaged.
    pub fn of(folder: &Path) -> Result<Option<Self>, SuiteError> {
        let path = folder.join(SOURCE_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read(&path).map_err(|source| unreadable(&path, source))?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| SuiteError::Source { path, problem: error.to_string() })
    }
}

/// Measures a file, and compares it with what its fetched folder says of it. `folder` is where that
/// would be.
///
/// # Errors
/// It can't be read, or was changed since it was fetched.
pub(super) fn data_file(path: &Path, folder: Option<&Path>) -> Result<DataFile, SuiteError> {
    let (bytes, sha256) = sum(path)?;
    let source = match folder {
        Some(folder) => Source::of(folder)?.map(|source| (folder, source)),
        None => None,
    };
    let mut revision = None;
    if let Some((folder, source)) = source
        && let Ok(inside) = path.strip_prefix(folder)
        && let Some(listed) = source.files.iter().find(|file| Path::new(&file.path) == inside)
    {
        if listed.sha256 != sha256 {
            return Err(SuiteError::Changed {
                path: path.to_owned(),
                expected: listed.sha256.clone(),
                found: sha256,
            });
        }
        revision = Some(source.revision);
    }
    Ok(DataFile { path: path.to_owned(), bytes, sha256, revision })
}

/// Size and SHA-256 of a file.
fn sum(path: &Path) -> Result<(u64, String), SuiteError> {
    let mut file = File::open(path).map_err(|source| unreadable(path, source))?;
    let (mut sum, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).map_err(|source| unreadable(path, source))? {
            0 => return Ok((bytes, hexadecimal(&sum.finalize()))),
            read => {
                sum.update(&piece[..read]);
                bytes += read as u64;
            }
        }
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unreadable(path: &Path, source: std::io::Error) -> SuiteError {
    SuiteError::Rows(RowsError::File { action: "read", path: path.to_owned(), source })
}

/// Gives each row of a file to `take`. Files of the hub that hold lines of JSON may be called
/// `.json`.
pub(super) fn each_row(
    path: &Path,
    mut take: impl FnMut(Place, Row) -> Result<(), SuiteError>,
) -> Result<(), SuiteError> {
    let mut more = |place, row| take(place, row).map(|()| Next::More);
    if path.extension().is_some_and(|extension| extension == "json") {
        rows::each_line(path, &mut more)
    } else {
        rows::each(path, Columns::All, &mut more)
    }
}

/// An error about a field of a row.
pub(super) fn fault(place: &Place, field: &str, problem: impl Into<String>) -> SuiteError {
    SuiteError::Row { place: place.clone(), field: field.to_owned(), problem: problem.into() }
}

/// Sees to it that no two problems have one identity.
#[derive(Debug, Default)]
pub(super) struct Identities(HashSet<TaskId>);

impl Identities {
    pub(super) fn has(&self, id: &TaskId) -> bool {
        self.0.contains(id)
    }

    pub(super) fn take(
        &mut self,
        id: TaskId,
        place: &Place,
        field: &str,
    ) -> Result<TaskId, SuiteError> {
        if self.0.insert(id.clone()) {
            return Ok(id);
        }
        Err(fault(place, field, format!("`{}` is there twice: remove one of the rows", id.0)))
    }
}
