//! Suites: named sets of problems, where their data lies and how they are asked.
//!
//! Hides where each suite's data comes from and in which layouts. Invariants: nothing is downloaded
//! here; every row becomes a problem or an error that names file, row and field; a suite says with
//! which bytes it was made ([`DataFile`]), so that a figure can name them.

mod error;
mod prompt;

use std::path::PathBuf;

use rocstar_verify::Extraction;
use serde::{Deserialize, Serialize};

use crate::bfcl::CallsIn;
use crate::problem::Problem;

pub use error::SuiteError;
pub use prompt::Prompt;

/// Problems, ready to be asked.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Its name, as `gsm8k` or `bfcl-v3/simple`; of a file of one's own, the file's stem.
    pub name: String,
    /// What its answers are scored by.
    pub scorer: Scorer,
    /// How its problems were worded; already applied.
    pub prompt: Prompt,
    /// The problems, in the data's order. A problem's index is its number in draws.
    pub problems: Vec<Problem>,
    /// What they were read from, in the order in which it was read; empty where they are made up.
    pub files: Vec<DataFile>,
}

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

/// Kinds of scorers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scorer {
    /// A value, compared by `rocstar-verify`.
    Math,
    /// The letter of a choice.
    Choice,
    /// Instructions that a program checks.
    Instructions,
    /// Calls of functions.
    Calls,
    /// A judging model.
    Judge,
}

/// Where data is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataPlaces {
    /// Folders, in the order in which they are looked at: a folder of one's own, then the one that
    /// `rocstar data fetch` fills.
    pub folders: Vec<PathBuf>,
}

/// How a suite is made of its data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadOptions {
    /// How problems are worded; `None`: as the suite does it.
    pub prompt: Option<Prompt>,
    /// How answers are looked for in mathematics; `None`: strict under [`Prompt::RStar2`], else
    /// lenient.
    pub extraction: Option<Extraction>,
    /// Only the first problems.
    pub limit: Option<usize>,
    /// Shuffles choices, and draws problems that are made up.
    pub seed: u64,
    /// Where calls of functions are looked for.
    pub calls_in: CallsIn,
}

/// Reads the suite of this name, or the file of problems at this path.
///
/// # Errors
/// No suite is called so, its data is not here, or a row is no problem.
pub fn load(
    name_or_path: &str,
    places: &DataPlaces,
    options: &LoadOptions,
) -> Result<Suite, SuiteError> {
    let _ = (name_or_path, places, options);
    unimplemented!()
}
