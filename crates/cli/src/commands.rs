//! One module a command. Each reads its options, does its work through the crates below, and
//! prints the result.

pub(crate) mod attack;
pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod mcp;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod setup;
