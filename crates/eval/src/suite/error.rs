//! Why a suite can't be had.

use std::path::PathBuf;

use rocstar_rollout::rows::{Place, RowsError};

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
    /// Its data is in none of the folders.
    #[error("the data of `{name}` is not here; looked for {}", .looked_for.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Missing {
        /// The suite.
        name: String,
        /// The paths that would have done.
        looked_for: Vec<PathBuf>,
    },
    /// A file can't be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
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
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
