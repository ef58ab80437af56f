//! The one binary. It wires the crates together, reads configuration and speaks to the person.
//!
//! Data goes to standard output, everything else to standard error. Exit status: 0 all is well,
//! 1 the work failed or found something bad, 2 wrong use.

mod cli;
mod commands;
mod data;
mod env_vars;
mod episode_text;
mod failure;
mod host;
mod hub;
mod inference;
mod layers;
mod models;
mod partial;
mod python;
mod quantity;
mod service;
mod settings;
mod speaker;
mod sums;
mod target;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    failure::conclude(cli::Cli::parse().run())
}
