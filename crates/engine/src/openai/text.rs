//! The text of an answer while its tokens come: bytes, stop strings, characters.
//!
//! Invariant: whatever the pieces, their concatenation is the text of all tokens up to the stop
//! string, with what is no UTF-8 replaced; nothing is shown that might turn out to be part of a stop
//! string or of a character. The engine counts the bytes of the same [`ModelText`], so both agree
//! where a stop string begins.

use std::sync::Arc;

use rocstar_chat::Tokenizer;

use crate::generation::FinishReason;
use crate::request::TokenText;
use crate::stop::StopMatcher;

/// The bytes of a model's tokens.
#[derive(Debug, Clone)]
pub struct ModelText {
    tokenizer: Tokenizer,
    show_special: bool,
}

impl ModelText {
    /// Control tokens have bytes only where `show_special`.
    pub(super) const fn new(tokenizer: Tokenizer, show_special: bool) -> Self {
        Self { tokenizer, show_special }
    }

    /// The text of a token alone, control tokens included; parts of characters show as U+FFFD.
    pub(super) fn alone(&self, token: u32) -> (String, Vec<u8>) {
        let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
        (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
    }

    /// The text of all tokens.
    pub(super) fn of(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &token in tokens {
            self.append(token, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl TokenText for ModelText {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        if !self.show_special && self.tokenizer.is_special(token) {
            return;
        }
        if let Some(text) = self.tokenizer.token_bytes(token) {
            bytes.extend_from_slice(text);
        }
    }
}

/// A text that grows token by token.
#[derive(Debug)]
pub struct GrowingText {
    text: Arc<ModelText>,
    stops: StopMatcher,
    /// Bytes that were not shown yet.
    held: Vec<u8>,
    /// Bytes before those.
    shown: usize,
}

impl GrowingText {
    /// An empty text.
    pub fn new(text: Arc<ModelText>, stop_strings: &[String]) -> Self {
        let stops = StopMatcher::new(stop_strings);
        Self { text, stops, held: Vec::new(), shown: 0 }
    }

    /// Takes a token; what can be shown now.
    pub fn push(&mut self, token: u32) -> String {
        let before = self.held.len();
        self.text.append(token, &mut self.held);
        let certain = match self.stops.push(&self.held[before..]) {
            // The engine finds it as well, and ends the text there.
            Some(found) => found.text_bytes,
            None => self.stops.certain_bytes(),
        };
        self.show(certain, End::Open)
    }

    /// The rest.
    pub fn finish(&mut self, reason: &FinishReason) -> String {
        let end = match reason {
            FinishReason::StopString { text_bytes, .. } => *text_bytes,
            FinishReason::StopToken(_)
            | FinishReason::Length
            | FinishReason::Context
            | FinishReason::Cancelled
            | FinishReason::EngineFailed { .. } => self.shown + self.held.len(),
        };
        self.show(end, End::Closed)
    }

    fn show(&mut self, up_to: usize, end: End) -> String {
        let ready = up_to.saturating_sub(self.shown).min(self.held.len());
        let (text, used) = characters(&self.held[..ready], end);
        self.held.drain(..used);
        self.shown += used;
        text
    }
}

/// Whether more bytes may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

/// The characters at the beginning of `bytes`, and how many bytes they took. A character that isn't
/// complete is left where more may follow.
fn characters(bytes: &[u8], end: End) -> (String, usize) {
    let mut text = String::new();
    let mut used = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        used += chunk.valid().len();
        let invalid = chunk.invalid();
        if invalid.is_empty() {
            continue;
        }
        let is_last = used + invalid.len() == bytes.len();
        let may_go_on = std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
        if end == End::Open && is_last && may_go_on {
            break;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        used += invalid.len();
    }
    (text, used)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn characters_do_not_depend_on_pieces(
            bytes in prop::collection::vec(
                prop::sample::select("aß€😀\u{7f}".bytes().chain([0xff, 0x80, 0xe2]).collect::<Vec<_>>()),
                0..40,
            ),
            cuts in prop::collection::vec(1_usize..5, 1..40),
        ) {
            let (mut held, mut text, mut rest) = (Vec::new(), String::new(), bytes.as_slice());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                held.extend_from_slice(piece);
                let (shown, used) = characters(&held, End::Open);
                text += &shown;
                held.drain(..used);
            }
            text += &characters(&held, End::Closed).0;
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
