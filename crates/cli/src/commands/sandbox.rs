//! `rocstar sandbox …`: the code environment.

pub(crate) mod attack;
pub(crate) mod bench;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod setup;

use clap::Subcommand;

use crate::failure::Finish;
use crate::terminal::Terminal;

/// Run Python that nobody trusts: isolated, limited, fast
#[derive(Debug, Subcommand)]
pub(crate) enum Sandbox {
    Serve(Box<serve::Serve>),
    Run(Box<run::Run>),
    Setup(setup::Setup),
    Bench(Box<bench::Bench>),
    Attack(Box<attack::Attack>),
    Mcp(Box<mcp::Mcp>),
}

impl Sandbox {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self {
            Self::Serve(command) => command.run(terminal),
            Self::Run(command) => command.run(terminal),
            Self::Setup(command) => command.run(terminal),
            Self::Bench(command) => command.run(terminal),
            Self::Attack(command) => command.run(terminal),
            Self::Mcp(command) => command.run(terminal),
        }
    }
}
