//! Look at a run.
