//! `rocstar model …`: look at models, convert them, bring them here.

pub(crate) mod convert;
pub(crate) mod fetch;
pub(crate) mod info;

use clap::Subcommand;

use crate::failure::Finish;
use crate::terminal::Terminal;

/// Look at models, convert them, bring them here
#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    Info(info::Info),
    Convert(Box<convert::Convert>),
    Fetch(fetch::Fetch),
}

impl Model {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self {
            Self::Info(command) => command.run(terminal),
            Self::Convert(command) => command.run(terminal),
            Self::Fetch(command) => command.run(terminal),
        }
    }
}
