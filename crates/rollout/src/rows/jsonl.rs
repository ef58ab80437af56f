//! Rows of a `.jsonl` file: one JSON object a line; empty lines are skipped.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::{Next, Place, Row, RowsError, on_file};

pub(super) fn each<E: From<RowsError>>(
    path: &Path,
    take: &mut dyn FnMut(Place, Row) -> Result<Next, E>,
) -> Result<(), E> {
    let file = File::open(path).map_err(on_file("open", path))?;
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(on_file("read", path))?;
        // A byte order mark is no part of the first line.
        let line = if index == 0 { line.trim_start_matches('\u{feff}') } else { line.as_str() };
        if line.trim().is_empty() {
            continue;
        }
        let place = Place { path: path.to_owned(), row: index + 1 };
        let row = serde_json::from_str(line).map_err(|error| RowsError::Row {
            place: place.clone(),
            field: format!("column {}", error.column()),
            problem: format!("is not a JSON object: {error}"),
        })?;
        if take(place, row)? == Next::Stop {
            break;
        }
    }
    Ok(())
}
