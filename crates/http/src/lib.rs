//! What every HTTP server of rocstar shares: how connections come and end, who carries the token, and
//! how metrics are told.
//!
//! The code environment, the model server and the dashboard each have their own routes, errors and
//! rules of who may come; here is what must not differ between them. Invariants: connections are
//! bounded in number and in idle time, none outlives [`serve`], and the comparison of tokens takes
//! the same time wherever they differ.

mod connections;
pub mod metrics;
mod token;

pub use connections::{Bounds, Grace, half_of_open_files, serve};
pub use token::{carries_token, is_token};
