//! How good is a model? Measured so that the figure can be trusted and made again.
//!
//! ```text
//! Suite ─> Problem { task, gold }      suites: where problems come from, and which gold they have
//!            └─> Assignment per sample
//!                  └─ Player (rocstar-rollout) ─> Attempt      any model, any endpoint
//!                        └─ score(gold, attempt) ─> Score      one scorer a kind of gold
//!                              └─ metrics: avg@k ± error, pass@k, cons@k, rates
//! ```
//!
//! Attempts are saved as they end, with the protocol that they were made under; scores and metrics
//! follow from them without a model. Invariants: a figure never travels without its protocol; every
//! problem counts the same number of samples, or the result says that it is partial; a failure of
//! ours is missing, never wrong.

pub mod arena_hard;
pub mod bfcl;
pub mod compare;
pub mod gpqa;
pub mod ifeval;
pub mod metrics;
pub mod problem;
pub mod protocol;
pub mod report;
pub mod run;
pub mod score;
pub mod store;
pub mod suite;
