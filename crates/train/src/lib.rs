//! Training: from a recipe and a model to a run directory with checkpoints.
//!
//! Synchronous, without a terminal: what happens is told to an observer, and a stop is asked for by
//! a flag. Every number that a run writes, except times, depends on the recipe, the data and the
//! model alone, so a run that was stopped or killed goes on from its last checkpoint as if nothing
//! had happened.

pub mod recipe;
