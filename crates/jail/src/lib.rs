//! Run one hostile Python program, isolated, from a warmed interpreter, and say exactly what
//! happened.
//!
//! The interface is small: [`Jail::start`], [`Jail::run`], [`Jail::open_session`],
//! [`Jail::effective`]. All of it blocks; there is no async here, so that the code next to the
//! kernel can be read top to bottom. Callers bring threads.

mod branch;
mod bytes;
mod capture;
mod cgroup;
mod config;
mod effective;
mod fetch;
mod host;
mod jail;
mod kind;
mod pool;
mod probe;
mod report;
mod request;
mod run;
mod seccomp;
mod session;
mod slot;
mod socket;
mod view;
mod wire;
mod zygote;

pub use config::Config;
pub use effective::{Effective, Layer, LayerState};
pub use jail::{Cancel, Control, Error, Jail, Session};
pub use kind::Kind;
pub use report::{Captured, FetchedFile, Outcome, Report, Stream};
pub use request::{
    InputFile, InvalidRequest, Limits, MAX_FILES, MAX_INPUT_BYTES, MAX_PATH_BYTES,
    MAX_PROGRAM_BYTES, Request, ResolvedLimits, inside_private_directory,
};
