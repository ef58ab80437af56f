//! The commands and global options, as the argument parser sees them.

use clap::{Parser, Subcommand};

use crate::commands::{attack, bench, doctor, mcp, reference, run, serve, setup};
use crate::failure::Finish;
use crate::terminal::Terminal;

/// Agentic reinforcement learning with a Python tool, in one binary
#[derive(Debug, Parser)]
#[command(name = "rocstar", version, max_term_width = 100)]
#[command(
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Draw no progress bars
    #[arg(long, global = true, display_order = 1_000)]
    no_progress: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Python that nobody trusts: isolated, limited, fast
    #[command(subcommand, arg_required_else_help = true)]
    Sandbox(SandboxCommand),
    Doctor(doctor::Doctor),
    Reference(reference::Reference),
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    Serve(Box<serve::Serve>),
    Run(Box<run::Run>),
    Setup(setup::Setup),
    Bench(Box<bench::Bench>),
    Attack(Box<attack::Attack>),
    Mcp(Box<mcp::Mcp>),
}

impl Cli {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self) -> anyhow::Result<Finish> {
        let terminal = Terminal::new(!self.no_progress);
        match self.command {
            Command::Doctor(command) => command.run(terminal),
            Command::Reference(command) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Serve(command)) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Run(command)) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Setup(command)) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Bench(command)) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Attack(command)) => command.run(terminal),
            Command::Sandbox(SandboxCommand::Mcp(command)) => command.run(terminal),
        }
    }
}
