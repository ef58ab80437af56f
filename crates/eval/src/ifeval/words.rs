//! What a word is: letters, digits and underscores, as `\w` of regular expressions has it.

/// How many runs of word characters `text` has: an apostrophe or a hyphen parts words.
pub(super) fn count(text: &str) -> usize {
    text.split(|it| !is_word(it)).filter(|word| !word.is_empty()).count()
}

pub(super) fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// Whether a word starts or ends at this byte: the two sides differ in being word characters.
pub(super) fn is_boundary(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back().is_some_and(is_word);
    let after = text[at..].chars().next().is_some_and(is_word);
    before != after
}
