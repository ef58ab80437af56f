//! Tokenizers, templates and transcripts, through the public interface.
#![cfg(test)]

mod bad_tokenizers;
mod families;
mod gguf;
mod shielding;
mod support;
mod templates;
mod tokenizers;
mod transcripts;
