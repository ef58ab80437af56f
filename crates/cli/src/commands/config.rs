//! `rocstar config`: what a recipe says in the end, and what its keys mean.
//!
//! Invariant: what is said of a key comes from the doc comment of its field, by way of the schema that
//! is derived from the types of a recipe; nothing here describes a key in words of its own.

mod explain;
mod keys;
mod show;

use clap::Subcommand;

use crate::failure::Finish;
use crate::terminal::Terminal;

/// Show a recipe as it is in the end, or explain its keys
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Show(show::Show),
    Explain(explain::Explain),
    Schema(Schema),
}

/// Print the JSON Schema of recipes, for editors and checks
#[derive(Debug, clap::Args)]
pub(crate) struct Schema {}

impl Config {
    /// Runs the command.
    ///
    /// # Errors
    /// The recipe can't be read, there is no such key, or standard output can't be written.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self {
            Self::Show(command) => command.run(terminal),
            Self::Explain(command) => command.run(terminal),
            Self::Schema(Schema {}) => {
                terminal.json(&keys::schema())?;
                Ok(Finish::Good)
            }
        }
    }
}
