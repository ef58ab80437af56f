//! The commands and global options, as the argument parser sees them.

use clap::{Parser, Subcommand};

use crate::commands::bench::Bench;
use crate::commands::config::Config;
use crate::commands::data::Data;
use crate::commands::model::Model;
use crate::commands::sandbox::Sandbox;
use crate::commands::{
    chat, compare, dash, doctor, eval, generate, plan, quickstart, reference, replay, report,
    rollout, serve, train, verify, watch,
};
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
    Quickstart(quickstart::Quickstart),
    #[command(subcommand, arg_required_else_help = true)]
    Sandbox(Sandbox),
    #[command(subcommand, arg_required_else_help = true)]
    Model(Model),
    #[command(subcommand, arg_required_else_help = true)]
    Data(Data),
    Train(train::Train),
    Plan(Box<plan::Plan>),
    Rollout(rollout::Rollout),
    Replay(replay::Replay),
    Dash(dash::Dash),
    Report(report::Report),
    Watch(watch::Watch),
    #[command(subcommand, arg_required_else_help = true)]
    Config(Config),
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Bench),
    Verify(verify::Verify),
    Serve(Box<serve::Serve>),
    Generate(Box<generate::Generate>),
    Chat(Box<chat::Chat>),
    Eval(Box<eval::Eval>),
    Compare(compare::Compare),
    Doctor(doctor::Doctor),
    Reference(reference::Reference),
}

impl Cli {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self) -> anyhow::Result<Finish> {
        let terminal = Terminal::new(!self.no_progress);
        match self.command {
            Command::Quickstart(command) => command.run(terminal),
            Command::Sandbox(command) => command.run(terminal),
            Command::Model(command) => command.run(terminal),
            Command::Data(command) => command.run(terminal),
            Command::Train(command) => command.run(terminal),
            Command::Plan(command) => command.run(terminal),
            Command::Rollout(command) => command.run(terminal),
            Command::Replay(command) => command.run(terminal),
            Command::Dash(command) => command.run(terminal),
            Command::Report(command) => command.run(terminal),
            Command::Watch(command) => command.run(terminal),
            Command::Config(command) => command.run(terminal),
            Command::Bench(command) => command.run(terminal),
            Command::Verify(command) => command.run(terminal),
            Command::Serve(command) => command.run(terminal),
            Command::Generate(command) => command.run(terminal),
            Command::Chat(command) => command.run(terminal),
            Command::Eval(command) => command.run(terminal),
            Command::Compare(command) => command.run(terminal),
            Command::Doctor(command) => command.run(terminal),
            Command::Reference(command) => command.run(terminal),
        }
    }
}
