//! The built binary, driven as a person drives it: in an empty folder, with an empty environment.

#![cfg(test)]

mod chat;
mod config;
mod dash;
mod data;
mod endpoint;
mod eval;
mod generate;
mod harness;
mod live;
mod model;
mod plan;
mod quickstart;
mod reinforcement;
mod serve;
mod servers;
mod settings;
mod setup;
mod terminal;
mod texts;
mod tiny_model;
mod train;
mod verify;
