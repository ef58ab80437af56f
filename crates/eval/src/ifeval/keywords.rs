//! Keywords and letters that must or must not be there.

use super::words::is_boundary;
use super::{Bound, Finding};

/// Each keyword is somewhere in the text, in either case, be it within a word.
pub(super) fn exist(keywords: &[String], text: &str) -> Finding {
    let text = text.to_lowercase();
    let missing = keywords.iter().find(|it| !text.contains(&it.to_lowercase()));
    match missing {
        Some(keyword) => Finding::new(false, format!("`{keyword}` is missing")),
        None => Finding::new(true, format!("all of {} keywords", keywords.len())),
    }
}

/// How often the keyword is in the text, in either case, be it within a word.
pub(super) fn frequency(keyword: &str, bound: Bound, text: &str) -> Finding {
    let count = text.to_lowercase().matches(&keyword.to_lowercase()).count();
    bound.judge(count, &format!("times `{keyword}`"))
}

/// None of the words is in the text as a word of its own, in either case.
pub(super) fn forbidden(words: &[String], text: &str) -> Finding {
    let text = text.to_lowercase();
    let stands_alone = |word: &&String| {
        let word = word.to_lowercase();
        text.match_indices(&word)
            .any(|(at, _)| is_boundary(&text, at) && is_boundary(&text, at + word.len()))
    };
    match words.iter().find(stands_alone) {
        Some(word) => Finding::new(false, format!("`{word}` is there")),
        None => Finding::new(true, format!("none of {} forbidden words", words.len())),
    }
}

/// How often the letter is in the text, in either case.
pub(super) fn letter(letter: char, bound: Bound, text: &str) -> Finding {
    let count = text.to_lowercase().matches(letter).count();
    bound.judge(count, &format!("times `{letter}`"))
}
