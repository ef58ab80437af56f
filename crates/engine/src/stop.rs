//! Finds stop strings in text that comes in pieces.
//!
//! Invariant: what is found and where doesn't depend on how the text was cut into pieces: the match
//! that ends first, and of those that end at the same byte the one that begins first.

use std::cmp::Reverse;
use std::sync::Arc;

/// A stop string in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopFound {
    /// Which of the strings.
    pub index: usize,
    /// Bytes of text before it.
    pub text_bytes: usize,
}

/// Looks for stop strings in a text that grows.
///
/// A caller that streams text shows only [`Self::certain_bytes`] of it: what is behind might turn
/// out to begin a stop string.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    strings: Arc<[String]>,
    /// The end of the text, long enough for any match that is yet to end.
    tail: Vec<u8>,
    /// Bytes of the text before `tail`.
    before_tail: usize,
    longest: usize,
}

impl StopMatcher {
    /// A matcher for `strings`; empty ones never match.
    pub fn new(strings: impl Into<Arc<[String]>>) -> Self {
        let strings = strings.into();
        let longest = strings.iter().map(String::len).max().unwrap_or(0);
        Self { strings, tail: Vec::new(), before_tail: 0, longest }
    }

    /// There is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.longest == 0
    }

    /// Takes the next piece of the text; the first match in it, if any. After a match the matcher
    /// is spent.
    pub fn push(&mut self, piece: &[u8]) -> Option<StopFound> {
        let old = self.tail.len();
        self.tail.extend_from_slice(piece);
        for end in old + 1..=self.tail.len() {
            let text = &self.tail[..end];
            let ends = |string: &String| !string.is_empty() && text.ends_with(string.as_bytes());
            let matches = self.strings.iter().enumerate().filter(|(_, string)| ends(string));
            let longest = matches.max_by_key(|(index, string)| (string.len(), Reverse(*index)));
            if let Some((index, string)) = longest {
                return Some(StopFound {
                    index,
                    text_bytes: self.before_tail + end - string.len(),
                });
            }
        }
        let spare = self.tail.len().saturating_sub(self.longest.saturating_sub(1));
        self.tail.drain(..spare);
        self.before_tail += spare;
        None
    }

    /// How many bytes of the text no later piece can make part of a stop string.
    pub fn certain_bytes(&self) -> usize {
        let may_begin = |start: &usize| {
            let end = &self.tail[*start..];
            self.strings.iter().any(|string| string.as_bytes().starts_with(end))
        };
        let held = (0..self.tail.len()).find(may_begin).unwrap_or(self.tail.len());
        self.before_tail + held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|string| (*string).to_owned()).collect()
    }

    /// The definition, over the whole text at once.
    fn reference(text: &[u8], strings: &[String]) -> Option<StopFound> {
        let mut found = Vec::new();
        for (index, string) in strings.iter().enumerate() {
            for start in 0..text.len() {
                if text[start..].starts_with(string.as_bytes()) {
                    found.push((start + string.len(), start, index));
                }
            }
        }
        let (_, text_bytes, index) = found.into_iter().min()?;
        Some(StopFound { index, text_bytes })
    }

    #[test]
    fn a_string_across_pieces_is_found_and_its_beginning_was_held_back() {
        let mut matcher = StopMatcher::new(strings(&["</end>", "stop"]));
        assert_eq!(matcher.push(b"text </e"), None);
        assert_eq!(matcher.certain_bytes(), 5);
        assert_eq!(matcher.push(b"nd> more"), Some(StopFound { index: 0, text_bytes: 5 }));
    }

    #[test]
    fn without_strings_all_text_is_certain() {
        let mut matcher = StopMatcher::new(Vec::new());
        assert!(matcher.is_empty());
        assert_eq!(matcher.push(b"anything"), None);
        assert_eq!(matcher.certain_bytes(), 8);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            text in prop::collection::vec(prop::sample::select(b"ab".to_vec()), 0..40),
            strings in prop::collection::vec("[ab]{1,5}", 0..4),
            cuts in prop::collection::vec(1_usize..6, 1..40),
        ) {
            let expected = reference(&text, &strings);
            let mut matcher = StopMatcher::new(strings);
            let (mut rest, mut found, mut certain) = (text.as_slice(), None, 0);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() || found.is_some() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                found = matcher.push(piece);
                rest = after;
                if found.is_none() {
                    certain = matcher.certain_bytes();
                }
            }
            prop_assert_eq!(found, expected);
            // What was called certain stays in front of any stop string.
            if let Some(found) = found {
                prop_assert!(certain <= found.text_bytes);
            }
        }
    }
}
