//! What is written down, through the crate's public interface: its form, which is golden, and what a
//! reader makes of it.

#![cfg(test)]

mod episode;
mod golden;
mod run;
mod support;
mod tensorboard;
