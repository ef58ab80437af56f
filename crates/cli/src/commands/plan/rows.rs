//! How many rows a stage's data have, as far as that can be known without reading them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// Rows of files that are here, or else what the recipe limits them to, or else what was assumed;
/// never more than the limit.
pub(super) fn of(paths: &[PathBuf], limit: Option<usize>, assumed: Option<u64>) -> Option<u64> {
    let limit = limit.map(|limit| limit as u64);
    let rows = assumed.or_else(|| counted(paths)).or(limit)?;
    Some(limit.map_or(rows, |limit| rows.min(limit)))
}

/// Lines of files of JSON lines; `None` if a file isn't here or is of another kind.
fn counted(paths: &[PathBuf]) -> Option<u64> {
    let mut rows = None;
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            return None;
        }
        let lines = BufReader::new(std::fs::File::open(path).ok()?).split(b'\n');
        let full = lines.map_while(Result::ok).filter(|line| !line.trim_ascii().is_empty());
        rows = Some(rows.unwrap_or(0) + full.count() as u64);
    }
    rows
}
