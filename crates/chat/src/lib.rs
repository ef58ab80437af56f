//! Messages to tokens and back: what a conversation looks like to a model.
//!
//! Three decisions are hidden here. [`Tokenizer`] hides where a vocabulary comes from (a Hugging
//! Face folder or a GGUF file) and how its tokens spell bytes. [`Template`] hides the dialect of
//! Jinja in which models ship their prompt format. [`Transcript`] hides how a conversation grows:
//! only ever at its end, each token with its [`Provenance`], so that the ids that a policy sampled
//! are the ids that it is trained on. [`calls`] holds one file per format of tool calls.
//!
//! Why not render the whole conversation again for each turn, as the templates invite to? Decoding
//! and encoding is not the identity on sampled ids, and several templates rewrite earlier turns.
//! Either moves tokens under the log-probabilities that were recorded for them, and nothing shows
//! it. The price of appending is that each [`Family`] of templates must be known to be appendable;
//! that is checked against the model's own template, and a template that isn't is refused.
//!
//! What is not done here: sampling, running tools, reading GGUF files (a [`GgufTokenizer`] is filled
//! by whoever reads them), and choosing what is trained on beyond provenance.

pub mod calls;
mod difference;
mod error;
mod family;
mod gguf;
mod stream;
mod template;
mod tokenizer;
mod transcript;

pub use difference::Difference;
pub use error::{Error, FieldProblem};
pub use family::Family;
pub use gguf::GgufTokenizer;
pub use stream::StreamDecoder;
pub use template::{RenderOptions, Template};
pub use tokenizer::{Show, Special, Tokenizer};
pub use transcript::{Provenance, Transcript};
