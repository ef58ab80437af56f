//! One module a command. Each reads its options, does its work through the crates below, and
//! prints the result.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod dash;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod generate;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod quickstart;
pub(crate) mod reference;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rollout;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod train;
pub(crate) mod verify;
pub(crate) mod watch;
