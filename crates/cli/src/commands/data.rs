//! `rocstar data …`: bring the data of suites here, and see what is here.

pub(crate) mod fetch;
pub(crate) mod list;

use clap::Subcommand;

use crate::failure::Finish;
use crate::terminal::Terminal;

/// Bring the data of suites here, and see what is here
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    Fetch(fetch::Fetch),
    List(list::List),
}

impl Data {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self {
            Self::Fetch(command) => command.run(terminal),
            Self::List(command) => command.run(terminal),
        }
    }
}
