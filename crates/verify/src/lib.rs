//! Is this answer right? Exact, bounded, explained.
//!
//! Placeholder for the crate documentation.

mod expression;
mod extract;
mod lexer;
mod parser;
mod units;

pub use expression::*;
pub use extract::{Extraction, ExtractionRule};
pub use parser::{ParseError, Parsed, parse};
