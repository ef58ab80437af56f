//! The built binary, driven as a person drives it: in an empty folder, with an empty environment.

#![cfg(test)]

mod harness;
mod live;
mod model;
mod settings;
mod setup;
mod texts;
mod train;
mod verify;
