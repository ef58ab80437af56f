//! Why a suite can't be had.

use std::path::PathBuf;

use rocstar_rollout::data::DataError;
use rocstar_rollout::rows::{Place, RowsError};

use super::known::KNOWN;

/// Why a suite can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// No suite is called so, and no file is there.
    #[error("no suite is called `{name}`{}", did_you_mean(.nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The name that is most like it, if any is alike.
        nearest: Option<String>,
    },
    /// A suite has no such part.
    #[error("no part of a suite is called `{name}`{}", there_are(parts))]
    Part {
        /// What was asked for.
        name: String,
        /// The parts that there are; empty where it has none.
        parts: String,
    },
    /// Its data is in none of the folders.
    #[error(
        "the data of `{name}` is not here: bring it with `rocstar data fetch {}`, or name its folder \
         with `--data-dir` (looked for {})",
        suite_of(name),
        list(looked_for)
    )]
    Missing {
        /// The suite, or a part of it.
        name: String,
        /// The paths that would have done.
        looked_for: Vec<PathBuf>,
    },
    /// A file can't be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A file of one's own.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A row that is no problem.
    #[error("{place}: {field}: {problem}")]
    Row {
        /// Where.
        place: Place,
        /// Which field.
        field: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file without rows.
    #[error("{}: has no problems", .0.display())]
    Empty(PathBuf),
    /// The file that says where a fetched folder came from is damaged.
    #[error("{path}: {problem}: remove its folder and fetch again", path = path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A fetched file is not what was fetched.
    #[error(
        "{path}: was changed since it was fetched (its SHA-256 is {found}, it was {expected}): \
         remove its folder and fetch again, or copy it elsewhere and give that path",
        path = path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// SHA-256 when it was fetched.
        expected: String,
        /// SHA-256 now.
        found: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            format!("; there are {}, or the path of a file of your own", names.join(", "))
        },
        |name| format!("; did you mean `{name}`?"),
    )
}

fn there_are(parts: &str) -> String {
    if parts.is_empty() { "; it has no parts".to_owned() } else { format!("; there are {parts}") }
}

/// The suite's own name, without the part.
fn suite_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn list(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nothing, as no folder of data is set".to_owned();
    }
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}
