//! `rocstar eval --list`: what can be measured.

use rocstar_eval::suite::{KNOWN, Where};
use serde::Serialize;

use crate::data::DataFolder;
use crate::failure::Finish;
use crate::terminal::Terminal;

/// A suite, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown {
    name: &'static str,
    problems: usize,
    scorer: &'static str,
    is_here: bool,
    summary: &'static str,
}

/// Shows the suites, and whether their data is here.
///
/// # Errors
/// There is no cache directory, or standard output can't be written.
pub(super) fn show(data: &DataFolder, json: bool, terminal: Terminal) -> anyhow::Result<Finish> {
    let places = data.places()?;
    let all: Vec<Shown> = KNOWN
        .iter()
        .map(|known| Shown {
            name: known.name,
            problems: known.problems,
            scorer: known.scorer.name(),
            is_here: !matches!(known.place(&places), Where::Nowhere),
            summary: known.summary,
        })
        .collect();
    if json {
        terminal.json(&all)?;
        return Ok(Finish::Good);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|shown| {
            let is_here = if shown.is_here { "yes" } else { "no" };
            let problems = shown.problems.to_string();
            [shown.name, &problems, shown.scorer, is_here, shown.summary].map(str::to_owned).into()
        })
        .collect();
    terminal.table(
        &["suite", "problems", "scored by", "here", "what it asks"],
        &rows,
        usize::MAX,
    )?;
    terminal
        .note("data that is not here comes by `rocstar data fetch NAME`; `--data-dir` says where");
    Ok(Finish::Good)
}
