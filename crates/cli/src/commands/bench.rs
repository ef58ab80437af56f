//! `rocstar bench …`: how fast models generate and train on this machine.
//!
//! Invariant: a rate comes with the machine's own rate of matrix products, measured in the same run,
//! so that it means something on any machine.

pub(crate) mod generate;
pub(crate) mod peak;
pub(crate) mod train;

use clap::{Subcommand, ValueEnum};
use rocstar_nn::config::ModelConfig;

use crate::failure::Finish;
use crate::terminal::Terminal;

/// Measure how fast models run on this machine
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    Generate(generate::Generate),
    Train(train::Train),
}

impl Bench {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self {
            Self::Generate(command) => command.run(terminal),
            Self::Train(command) => command.run(terminal),
        }
    }
}

/// Shapes of models with known figures of other systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// 4.6 million weights, a vocabulary of 512
    Tiny,
    /// SmolLM2-135M's
    Smol,
}

impl Shape {
    /// What it looks like.
    pub(crate) fn config(self) -> ModelConfig {
        match self {
            Self::Tiny => ModelConfig::tiny(),
            Self::Smol => ModelConfig::smol(),
        }
    }

    /// As on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Smol => "smol",
        }
    }
}
