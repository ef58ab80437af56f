//! How long a response is: words, sentences, paragraphs.

use super::{Bound, Finding, sentences, words};

pub(super) fn words(bound: Bound, text: &str) -> Finding {
    bound.judge(words::count(text), "words")
}

pub(super) fn sentences(bound: Bound, text: &str) -> Finding {
    bound.judge(sentences::count(text), "sentences")
}

/// Exactly `count` paragraphs between dividers `***`. What stands before the first divider and after
/// the last may be blank; an empty paragraph between two follows nothing.
pub(super) fn paragraphs(count: usize, text: &str) -> Finding {
    let pieces: Vec<&str> = text.split("***").collect();
    let is_blank = |index: usize| pieces.get(index).is_some_and(|it| it.trim().is_empty());
    let last = pieces.len() - 1;
    if (1..last).any(is_blank) {
        return Finding::new(false, "an empty paragraph between two dividers");
    }
    let at_ends = usize::from(is_blank(0)) + usize::from(last > 0 && is_blank(last));
    let found = pieces.len() - at_ends;
    Finding::new(found == count, format!("{found} paragraphs, {count} asked"))
}

/// Exactly `paragraphs` between blank lines, of which the `nth` starts with `first_word`.
pub(super) fn nth_paragraph(
    paragraphs: usize,
    nth: usize,
    first_word: &str,
    text: &str,
) -> Finding {
    let pieces: Vec<&str> = text.split("\n\n").collect();
    let found = pieces.iter().filter(|it| !it.trim().is_empty()).count();
    if found != paragraphs {
        return Finding::new(false, format!("{found} paragraphs, {paragraphs} asked"));
    }
    // The number counts blank pieces too, as the published checker does.
    let word = pieces.get(nth - 1).and_then(|it| it.split_whitespace().next()).unwrap_or_default();
    let word = word.trim_start_matches('\'').trim_start_matches('"');
    let end = word.find(['.', ',', '?', '!', '\'', '"']).unwrap_or(word.len());
    let word = word[..end].to_lowercase();
    let message = format!("paragraph {nth} starts with `{word}`, `{first_word}` asked");
    Finding::new(word == first_word, message)
}
