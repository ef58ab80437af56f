//! The algorithm: which rollouts of a group are learned from, how much each is worth, and what is
//! minimised.
//!
//! Pure functions over plain values: no input or output, no clock, no tensors; random draws come
//! from keys that are passed in. So the trainer, the dashboard's what-if view and a test call the
//! same code and get the same answer. Equations are numbered as in the rStar2-Agent report
//! (arXiv 2508.20722), where N = 2G rollouts of a task are reduced to G:
//!
//! 1. [`select()`] keeps G of a group's rollouts ("resample on correct", equations 4 and 5) and says of
//!    each other why it was dropped;
//! 2. [`advantages()`] compares the rewards of those that were kept (equation 7);
//! 3. [`choose()`] does both and writes the group down;
//! 4. [`loss`] is the clipped surrogate over their tokens (equation 6), as a scalar reference in
//!    float64 whose derivatives the trainer uses.
//!
//! Working on whole groups of typed facts, and not on tensors, was chosen because selection must be
//! exact and explainable; the sums over tokens, which are what takes time, stay with the trainer.

pub mod advantage;
mod choose;
mod facts;
pub mod loss;
pub mod penalty;
pub mod select;

pub use advantage::{AdvantageConfig, Baseline, advantages};
pub use choose::{Chosen, Rollouts, choose};
pub use facts::{Facts, selection_key};
pub use select::{
    DropCause, GroupVerdict, Mode, RocConfig, Selection, SelectionError, Survivors, select,
};
