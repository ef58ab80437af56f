//! Training: from a recipe and a model to a run directory with checkpoints.
//!
//! ```text
//! Recipe ─> Prepared (sequences, steps, needs) ─┐
//! Start (a new run, or a checkpoint of one) ────┴─> run ─> metrics.jsonl, checkpoints/
//! ```
//!
//! Synchronous, without a terminal: what happens is told to an [`Observer`], which is also how a run
//! is asked to stop. Every number that a run writes, except times, depends on the recipe, the data
//! and the model alone, so a run that was stopped or killed goes on from its last checkpoint as if
//! nothing had happened.
//!
//! Why is there no state of the data's order in a checkpoint, nor of a random generator? Both follow
//! from the number of the step: the order of an epoch is one keyed draw, and what a step learns from
//! is computed, not remembered. What isn't there can't be restored wrongly.

pub mod checkpoint;
pub mod data;
mod error;
pub mod examples;
mod learner;
mod observer;
pub mod packing;
mod plan;
mod prepare;
pub mod recipe;
pub mod rl;
mod run;
mod sft;

pub use error::{Error, Place};
pub use observer::{EvaluationMetrics, Event, Observer, Outcome, StepMetrics};
pub use plan::{BYTES_PER_EPISODE_TOKEN, Needs, RolloutPlan, StagePlan, available_memory_bytes};
pub use prepare::{Outline, Prepared};
pub use run::{Start, World, directory_of, measure, run};
