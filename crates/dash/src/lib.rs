//! Look at a run: the local web page, and the static report.
//!
//! Everything here is made from run directories ([`rocstar_record::run`]) and nothing else, so a run
//! that is going on, a dead one and one from another machine look the same. Tokens become text by the
//! vocabulary that the run saved with its weights; which rollouts other settings would have kept is
//! asked of [`rocstar_grpo`], the code that training calls.
//!
//! A directory may be torn, half written, of a newer schema or made to harm: what can be read is
//! shown, the rest is told in a notice, and nothing that a file says becomes a path or markup.
//! Nothing is written but a person's notes.
//!
//! Reading ahead of time into a database was rejected: it would have to be kept in step with runs
//! that go on from an earlier checkpoint. Metrics are small and are read whole; episodes are large
//! and are read a step at a time, when they are asked for. Only what must be known of all steps at
//! once ([`survey`]) is gathered in the background, a few bytes a group.

pub mod curves;
pub mod environment;
pub mod episode;
pub mod evaluations;
pub mod folder;
pub mod http;
pub mod recipe;
pub mod report;
pub mod run;
pub mod search;
pub mod sketch;
pub mod step;
pub mod survey;
pub mod timeline;
pub mod vocabulary;
pub mod what_if;

pub use environment::{Environment, Seen};
pub use folder::Folder;
pub use http::{Access, serve};
pub use run::Run;

/// What can't be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A run's directory can't be read.
    #[error(transparent)]
    Run(#[from] rocstar_record::run::Error),
    /// A file can't be read.
    #[error("can't read {path}: {source}", path = path.display())]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A name that can't be a run's.
    #[error(
        "`{0}` can't name a run: up to 100 letters, digits, `_`, `-` and dots, the first no dot"
    )]
    Name(String),
    /// A part of a run's directory is a link.
    #[error("`{0}` in the run is a link, which may lead anywhere: put the folder itself there")]
    Link(String),
    /// Something that a link or a name asks for is not there.
    #[error("there is no {what}")]
    Missing {
        /// What.
        what: String,
    },
    /// A report of none, or of too many.
    #[error("a report of {runs} runs is not made: give 1 to {most} runs")]
    ReportOf {
        /// Runs that it would be of.
        runs: usize,
        /// Most of one report.
        most: usize,
    },
    /// A record that can't be read.
    #[error("step {step}: {message}")]
    Record {
        /// The step.
        step: u64,
        /// What is wrong.
        message: String,
    },
    /// Settings of a selection that can't work.
    #[error(transparent)]
    Selection(#[from] rocstar_grpo::SelectionError),
}

impl Error {
    /// For what is not there.
    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Self::Missing { what: what.into() }
    }
}
