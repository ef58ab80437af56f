//! Text out of tokens one at a time, without ever showing half a character.
//!
//! Invariant: the pieces that [`StreamDecoder::push`] and [`StreamDecoder::finish`] give, joined,
//! are what [`Tokenizer::decode`] gives for all tokens at once. Bytes that can't become UTF-8 are
//! shown as U+FFFD as soon as that is certain.

use crate::tokenizer::{Show, Tokenizer};

/// Decoder of a growing sequence of tokens.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    show: Show,
    /// The begin of a character whose rest is to come: three bytes at most.
    pending: Vec<u8>,
    is_at_start: bool,
}

impl StreamDecoder {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &Tokenizer, show: Show) -> Self {
        Self { tokenizer: tokenizer.clone(), show, pending: Vec::new(), is_at_start: true }
    }

    /// Takes one token and gives the text that is certain by now.
    pub fn push(&mut self, token: u32) -> String {
        self.tokenizer.append_bytes(token, self.show, &mut self.is_at_start, &mut self.pending);
        take_certain(&mut self.pending)
    }

    /// Ends the text: what is left of a broken character becomes U+FFFD. The decoder is as new
    /// afterwards.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        self.is_at_start = true;
        text
    }

    /// Bytes held back because their character isn't complete.
    pub fn pending_bytes(&self) -> &[u8] {
        &self.pending
    }
}

/// Removes from the front what no later byte can change.
fn take_certain(bytes: &mut Vec<u8>) -> String {
    let incomplete = incomplete_tail_bytes(bytes);
    let rest = bytes.split_off(bytes.len() - incomplete);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

/// How many bytes at the end may still become one character.
fn incomplete_tail_bytes(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Err(error) = std::str::from_utf8(rest) {
        let after_valid = &rest[error.valid_up_to()..];
        match error.error_len() {
            None => return after_valid.len(),
            Some(invalid) => rest = &after_valid[invalid..],
        }
    }
    0
}
