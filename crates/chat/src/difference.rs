//! Where two texts part, shown shortly: for errors about templates.

use std::fmt;

/// How much of each text is shown, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// The first place where two texts differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Bytes that are equal before it.
    pub at_byte: usize,
    /// What the first text goes on with.
    pub expected: String,
    /// What the second text goes on with.
    pub found: String,
}

impl Difference {
    /// Compares two texts; for equal ones both continuations are empty.
    pub(crate) fn between(expected: &str, found: &str) -> Self {
        let pairs = expected.char_indices().zip(found.chars());
        let parting = pairs.into_iter().find(|((_, left), right)| left != right);
        let at_byte = parting.map(|((at, _), _)| at);
        let at_byte = at_byte.unwrap_or_else(|| expected.len().min(found.len()));
        let shown = |text: &str| text[at_byte..].chars().take(SHOWN_CHARACTERS).collect();
        Self { at_byte, expected: shown(expected), found: shown(found) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_byte, expected, found } = self;
        write!(formatter, "at byte {at_byte}: {expected:?} against {found:?}")
    }
}
