//! Finds a fixed tag in text that comes a character at a time.
//!
//! Invariant: only what can still become the tag is held back. A tag's first character must not
//! occur in it again; then a mismatch never hides a second beginning, and nothing is read twice.

use super::output::{Mark, Output};

/// A tag being looked for.
#[derive(Debug, Clone)]
pub(super) struct Tag {
    tag: &'static str,
    matched: usize,
    start: Mark,
}

/// What a character did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It may be part of the tag.
    Perhaps,
    /// It completes the tag, which began here.
    Tag(Mark),
    /// It is no part of the tag, nor is what was held back: the first so many bytes of the tag.
    No(&'static str),
}

impl Tag {
    pub(super) fn new(tag: &'static str) -> Self {
        debug_assert!(
            tag.chars().skip(1).all(|c| !tag.starts_with(c)),
            "the first character of `{tag}` occurs in it again"
        );
        Self { tag, matched: 0, start: Mark::default() }
    }

    /// Reads the character that stands at `here`. After [`Found::No`] the same character must be
    /// offered again where something was held back, as it may begin the tag anew.
    pub(super) fn step(&mut self, c: char, here: Mark) -> Found {
        if !self.tag[self.matched..].starts_with(c) {
            return Found::No(self.take_held());
        }
        if self.matched == 0 {
            self.start = here;
        }
        self.matched += c.len_utf8();
        if self.matched < self.tag.len() {
            return Found::Perhaps;
        }
        self.matched = 0;
        Found::Tag(self.start)
    }

    /// Looks for the tag in text: what is not part of it goes out as text.
    pub(super) fn in_text(&mut self, c: char, out: &mut Output) -> Option<Mark> {
        let mut found = self.step(c, out.here);
        if let Found::No(held) = found {
            out.text(held);
            found = self.step(c, out.here);
        }
        match found {
            Found::Tag(start) => Some(start),
            Found::Perhaps => None,
            Found::No(_) => {
                out.character(c);
                None
            }
        }
    }

    /// Looks for the tag in what is to be skipped. True where `c` completes it.
    pub(super) fn in_skipped(&mut self, c: char, here: Mark) -> bool {
        let mut found = self.step(c, here);
        if let Found::No(_) = found {
            found = self.step(c, here);
        }
        matches!(found, Found::Tag(_))
    }

    /// What is held back.
    pub(super) fn take_held(&mut self) -> &'static str {
        let held = &self.tag[..self.matched];
        self.matched = 0;
        held
    }
}
