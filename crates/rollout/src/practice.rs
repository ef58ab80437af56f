//! What a tiny model practises on: problems that need the tool, a vocabulary that makes them short,
//! and demonstrations for a cold start.
//!
//! Hides which problems there are, how they are worded and which programs solve them. Invariants:
//! everything is drawn by keys, so the same seed gives the same tasks and demonstrations; a problem
//! for training is never one that is held out, whatever the seeds; a demonstration's tool answers
//! are those of the real tool.
//!
//! The demonstrations teach how to write a call, how to mend a faulty one and to copy the tool's
//! answer, but hardly which program solves which problem: of the four programs that a kind of problem
//! has, a demonstration shows the right one in 28 % of cases, and each other one in 24 %. So a model
//! that has learnt them perfectly is right in less than a third of all cases, has an inkling of what
//! the words mean, and finds out the rest by reinforcement. About a third of the demonstrated calls are faulty in a way
//! that the next call mends: the noise of the tool that a policy should unlearn.

mod demonstration;
mod problem;
mod program;
mod vocabulary;

pub use demonstration::{Demonstration, demonstrations};
pub use problem::{Kind, Split, tasks};
pub use vocabulary::tokenizer;
