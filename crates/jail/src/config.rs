//! How a [`crate::Jail`] is set up: the interpreter, the number of slots, the layers that must
//! hold, the limits.
//!
//! Invariant: a [`Config`] says everything; nothing is read from the environment.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::effective::Layer;
use crate::request::ResolvedLimits;

/// Set-up of a jail. Read from a file or built by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The Python that runs programs: a name looked up in `PATH`, or a path. A virtual
    /// environment's `bin/python` gives its packages.
    pub python: PathBuf,
    /// Most programs of each kind alive at once, sessions not counted.
    pub slots: usize,
    /// Most live sessions.
    pub sessions: usize,
    /// Zygotes per kind. 0: one for each core.
    pub zygotes: usize,
    /// Start a scientific zygote where the packages are installed.
    pub scientific: bool,
    /// Milliseconds at full priority; a program that runs longer goes on at the lowest priority,
    /// and [`crate::Control::turn_over`] is called.
    pub turn_ms: u64,
    /// Limits of a request that names none.
    pub default_limits: ResolvedLimits,
    /// The most that a request may ask for.
    pub maximum_limits: ResolvedLimits,
    /// Layers without which the jail refuses to start.
    pub required: Vec<Layer>,
    /// Start even so, and mark each result `degraded`.
    pub allow_degraded: bool,
    /// First of the user ids that programs run under where the server is root (one id a slot).
    pub first_uid: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            python: PathBuf::from("python3"),
            slots: 32,
            sessions: 64,
            zygotes: 0,
            scientific: true,
            turn_ms: 50,
            default_limits: ResolvedLimits::default(),
            maximum_limits: ResolvedLimits::MAXIMUM,
            required: Layer::REQUIRED_BY_DEFAULT.to_vec(),
            allow_degraded: false,
            first_uid: 2_000_000_000,
        }
    }
}
