//! A code environment that is no run's: what somebody who can reach it saw last.
//!
//! Invariant: this crate asks nobody; whoever serves the page looks, and tells.

use rocstar_record::run::SandboxState;
use serde::Serialize;
use tokio::sync::watch;

/// A look at a code environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Seen {
    /// Where it is.
    pub url: String,
    /// What it did when it was last reached.
    pub state: Option<SandboxState>,
    /// Why it could not be reached since.
    pub notice: Option<String>,
}

/// The latest look.
#[derive(Debug, Clone)]
pub struct Environment(pub watch::Receiver<Seen>);

impl Environment {
    /// What was seen last.
    pub fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }
}
