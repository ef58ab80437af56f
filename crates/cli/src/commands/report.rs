//! `rocstar report`: one file that tells of a run, or compares several.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_dash::Run;
use rocstar_dash::report;

use crate::failure::{Finish, WrongUse};
use crate::terminal::Terminal;

/// Write a report of a run, or of several side by side, as one file
///
/// Curves, results, the best and the worst episodes, settings and environment, to attach to a paper or
/// an issue. The page is whole in itself: it loads nothing and has no scripts. Without `--out` one run's
/// report is written to its directory as `report.html` or `report.md`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Directories of runs; the first one's name comes first
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// File to write, or `-` for standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page
    Html,
    /// Markdown
    Md,
}

impl Report {
    /// Runs the command.
    ///
    /// # Errors
    /// A run can't be read, or the file can't be written.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let default = self.default_file()?;
        let runs: Vec<Run> =
            self.runs.iter().map(|path| Run::open(path)).collect::<Result<_, _>>()?;
        let report = report::Report::of(&runs.iter().collect::<Vec<_>>())?;
        let text = match self.format {
            Format::Html => report.to_html(),
            Format::Md => report.to_markdown(),
        };
        let out = self.out.as_deref().unwrap_or(&default);
        if out == Path::new("-") {
            terminal.data(text.as_bytes())?;
            return Ok(Finish::Good);
        }
        if self.out.is_some() {
            std::fs::write(out, text).with_context(|| format!("can't write {}", out.display()))?;
        } else {
            // What stands in a run's directory may be a link to anywhere.
            rocstar_record::run::replace_file(out, text.as_bytes())?;
        }
        terminal.note(format_args!("report: {}", out.display()));
        Ok(Finish::Good)
    }

    /// Where the report goes that no `--out` names a place for; nowhere where one does.
    fn default_file(&self) -> anyhow::Result<PathBuf> {
        let name = match self.format {
            Format::Html => "report.html",
            Format::Md => "report.md",
        };
        match (&self.out, self.runs.as_slice()) {
            (Some(_), _) => Ok(PathBuf::new()),
            (None, [run]) => Ok(run.join(name)),
            (None, _) => Err(WrongUse::error("name the file of several runs' report by `--out`")),
        }
    }
}
