//! How flawed a right rollout is, part by part.
//!
//! Invariant: a penalty is a function of typed facts alone, never of text, and lies in 0..=1. The
//! parts are reported one by one; their sum is what the selection weighs.

mod answer_format;
mod tool_errors;

pub use rocstar_record::episode::Penalties;

use crate::Facts;

/// The penalties of a rollout: p_err, equation 4, and p_format, equation 5.
pub fn of(facts: &Facts) -> Penalties {
    Penalties {
        tool_errors: tool_errors::penalty(facts),
        answer_format: answer_format::penalty(facts),
    }
}
