//! `\boxed{…}` and `\fbox{…}`: the outermost ones, and which of them are one answer.

use std::borrow::Cow;

use super::unescaped;
use crate::lexer::closing_brace;

/// Longest gap between boxes that belong together.
const MAX_GAP_BYTES: usize = 80;

/// A box and where it stands.
pub(super) struct Boxed<'t> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) inside: &'t str,
}

/// Every `\boxed` and `\fbox` that is not inside another.
pub(super) fn boxes(text: &str) -> Vec<Boxed<'_>> {
    let mut found: Vec<Boxed<'_>> = Vec::new();
    let mut from = 0;
    for (start, _) in text.match_indices('\\') {
        let name = ["\\boxed", "\\fbox"].into_iter().find(|it| text[start..].starts_with(it));
        let Some(name) = name.filter(|_| start >= from) else { continue };
        let after = &text[start + name.len()..];
        let trimmed = after.trim_start();
        let (inside, end) = match trimmed.strip_prefix('{') {
            Some(open) => {
                let length = closing_brace(open);
                let begin = text.len() - open.len();
                (&open[..length], (begin + length + 1).min(text.len()))
            }
            // `\boxed 5`.
            None => {
                let length = trimmed.find([' ', '$', '\n']).unwrap_or(trimmed.len());
                (&trimmed[..length], text.len() - trimmed.len() + length)
            }
        };
        from = end;
        if !inside.trim().is_empty() {
            found.push(Boxed { start, end, inside: inside.trim() });
        }
    }
    found
}

/// The last box, together with those before it that only commas, "and" or names part from it.
pub(super) fn joined_boxes(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let boxes = boxes(text);
    let mut first = boxes.len().checked_sub(1)?;
    while first > 0 && belong_together(&text[boxes[first - 1].end..boxes[first].start]) {
        first -= 1;
    }
    let parts: Vec<Cow<'_, str>> = boxes[first..].iter().map(|it| unescaped(it.inside)).collect();
    let joined = match parts.as_slice() {
        [one] => one.clone(),
        many => Cow::Owned(many.join(" , ")),
    };
    Some((joined, boxes.last()?.end))
}

/// A gap between two boxes of one answer holds signs and joining words, and a name before `=`.
fn belong_together(gap: &str) -> bool {
    if gap.len() > MAX_GAP_BYTES || gap.contains('\n') && gap.trim().is_empty() {
        return false;
    }
    let mut plain = gap.to_owned();
    for noise in
        ["\\quad", "\\qquad", "\\text", "\\textbf", "\\(", "\\)", "\\[", "\\]", "\\,", "\\;", "\\ "]
    {
        plain = plain.replace(noise, " ");
    }
    let plain = plain.replace(['{', '}', '$', ',', ';', '(', ')'], " ");
    let words: Vec<&str> = plain.split_whitespace().collect();
    let joining = ["and", "or", "for", "part", "a", "b", "c", "d"];
    words.iter().enumerate().all(|(index, word)| {
        let named =
            word.ends_with('=') || words.get(index + 1).is_some_and(|it| it.starts_with('='));
        joining.contains(word) || named
    })
}
