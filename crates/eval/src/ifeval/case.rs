//! Capital and small letters.

use super::language::{Detected, detect};
use super::{Bound, Finding};

/// Endings that are words of their own where words are counted: `IT'S` is two.
const ENDINGS: [&str; 7] = ["n't", "'ll", "'re", "'ve", "'s", "'m", "'d"];
/// Two words written as one, with the length of the first.
const JOINED: [(&str, usize); 6] =
    [("cannot", 3), ("gimme", 3), ("gonna", 3), ("gotta", 3), ("lemme", 3), ("wanna", 3)];
/// Signs that are no part of a word.
const SIGNS: &str = "[](){}<>;@#$%&?!*\"`«»“”‘’„";

/// How many words are in capitals, as the Penn Treebank parts words: a hyphen joins, `I` counts.
pub(super) fn capital_words(bound: Bound, text: &str) -> Finding {
    let pieces = text.split(|it: char| it.is_whitespace() || SIGNS.contains(it));
    let count = pieces.flat_map(|piece| piece.split("--")).flat_map(between_points);
    bound.judge(count.map(capitals_in).sum(), "words in capitals")
}

/// Splits at colons and commas before anything but a digit, and at two full stops or more.
fn between_points(piece: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    for (at, sign) in piece.char_indices() {
        let next = piece[at + sign.len_utf8()..].chars().next();
        let parts = match sign {
            ':' | ',' => !next.is_some_and(|it| it.is_ascii_digit()),
            '.' => next == Some('.') || piece[..at].ends_with('.'),
            _ => false,
        };
        if parts {
            words.push(&piece[start..at]);
            start = at + sign.len_utf8();
        }
    }
    words.push(&piece[start..]);
    words
}

/// Words in capitals of a piece that holds one word, or one with its ending.
fn capitals_in(piece: &str) -> usize {
    let lower = piece.to_ascii_lowercase();
    let ending = ENDINGS.iter().find(|it| lower.len() > it.len() && lower.ends_with(**it));
    let parts: [&str; 2] = match ending {
        Some(ending) => piece.split_at(piece.len() - ending.len()).into(),
        None => match JOINED.iter().find(|(word, _)| lower == *word) {
            Some((_, first)) => piece.split_at(*first).into(),
            None => [piece, ""],
        },
    };
    parts.into_iter().filter(|it| is_capital(it)).count()
}

/// English, in capitals.
pub(super) fn english_capital(text: &str) -> Finding {
    english(text, is_capital(text), "in capitals")
}

/// English, in small letters.
pub(super) fn english_lowercase(text: &str) -> Finding {
    english(text, is_small(text), "in small letters")
}

/// A text without any letter counts as English, since nothing speaks against it; but it is in
/// neither case.
fn english(text: &str, in_case: bool, case: &str) -> Finding {
    if !in_case {
        return Finding::new(false, format!("not all {case}"));
    }
    match detect(text) {
        Detected::Unclear => Finding::new(true, format!("{case}, in no language that shows")),
        Detected::Language("en") => Finding::new(true, format!("English, {case}")),
        Detected::Language(code) => Finding::new(false, format!("{case}, in language `{code}`")),
    }
}

/// A capital letter, and no small one.
fn is_capital(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
}

/// A small letter, and no capital one.
fn is_small(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)
}
