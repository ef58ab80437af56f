//! `rocstar data list`: the suites, and which of their data is here.

use std::path::PathBuf;

use clap::Args;
use rocstar_eval::suite::{KNOWN, Known, Scorer, Where};
use serde::Serialize;

use crate::data::DataFolder;
use crate::failure::Finish;
use crate::terminal::Terminal;

/// List the suites and where their data is
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) folder: DataFolder,
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A suite as `--json` prints it.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    scorer: Scorer,
    prompt: &'static str,
    problems: usize,
    licence: &'static str,
    /// The hub's data set; absent where problems are made up.
    dataset: Option<&'static str>,
    revision: Option<&'static str>,
    is_gated: bool,
    /// Whether it can be evaluated here and now.
    is_here: bool,
    path: Option<PathBuf>,
    /// Categories or versions that are here, of a suite that has some.
    parts: Vec<&'static str>,
}

impl List {
    /// Runs the command.
    ///
    /// # Errors
    /// There is no cache directory.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let places = self.folder.places()?;
        let listed: Vec<Listed> =
            KNOWN.iter().map(|known| Listed::new(known, known.place(&places))).collect();
        if self.json {
            terminal.json(&listed)?;
            return Ok(Finish::Good);
        }
        let rows: Vec<Vec<String>> = listed.iter().map(Listed::row).collect();
        terminal.table(&["suite", "what", "scored by", "data", "problems"], &rows, 4)?;
        if listed.iter().any(|suite| !suite.is_here) {
            terminal.note("note: `rocstar data fetch NAME` brings what is not here");
        }
        Ok(Finish::Good)
    }
}

impl Listed {
    fn new(known: &'static Known, place: Where) -> Self {
        let (is_here, path, parts) = match place {
            Where::MadeUp => (true, None, Vec::new()),
            Where::Here { path, parts } => (true, Some(path), parts),
            Where::Nowhere => (false, None, Vec::new()),
        };
        Self {
            name: known.name,
            summary: known.summary,
            scorer: known.scorer,
            prompt: known.prompt.name(),
            problems: known.problems,
            licence: known.licence,
            dataset: known.hub.map(|hub| hub.dataset),
            revision: known.hub.map(|hub| hub.revision),
            is_gated: known.hub.is_some_and(|hub| hub.is_gated),
            is_here,
            path,
            parts,
        }
    }

    fn row(&self) -> Vec<String> {
        let data = match (&self.path, self.is_here) {
            (Some(path), _) if self.parts.is_empty() => path.display().to_string(),
            (Some(path), _) => format!("{} ({})", path.display(), self.parts.join(", ")),
            (None, true) => "made up".to_owned(),
            (None, false) => "not here".to_owned(),
        };
        vec![
            self.name.to_owned(),
            self.summary.to_owned(),
            self.scorer.name().to_owned(),
            data,
            self.problems.to_string(),
        ]
    }
}
