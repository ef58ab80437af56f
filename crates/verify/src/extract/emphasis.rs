//! Emphasis as Markdown writes it: `**B**`, `__5__`.
//!
//! Invariant: only marks that open before something and close behind it go; `2**3` is a power.

use std::borrow::Cow;

/// The text without marks of strong emphasis.
pub(crate) fn without_emphasis(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for mark in ["**", "__"] {
        if text.contains(mark) {
            text = Cow::Owned(without(&text, mark));
        }
    }
    text
}

fn without(text: &str, mark: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside, after)) = emphasised(rest, plain.chars().next_back(), mark) {
        plain.push_str(before);
        plain.push_str(inside);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// The text before the first emphasis, what is emphasised, and the text behind.
fn emphasised<'t>(
    text: &'t str,
    last: Option<char>,
    mark: &str,
) -> Option<(&'t str, &'t str, &'t str)> {
    let opens = |at: usize| {
        let before = text[..at].chars().next_back().or(last);
        let after = text[at + mark.len()..].chars().next();
        let is_operand = |c: char| c.is_alphanumeric() || ")]}".contains(c);
        !before.is_some_and(is_operand) && after.is_some_and(|c| !c.is_whitespace() && c != '*')
    };
    let open = text.match_indices(mark).map(|(at, _)| at).find(|at| opens(*at))?;
    let inside = &text[open + mark.len()..];
    let closes = |at: usize| {
        let before = inside[..at].chars().next_back();
        let after = inside[at + mark.len()..].chars().next();
        before.is_some_and(|c| !c.is_whitespace()) && !after.is_some_and(char::is_alphanumeric)
    };
    // Emphasis does not go on over a paragraph.
    let paragraph = inside.find("\n\n").unwrap_or(inside.len());
    let mut ends = inside[..paragraph].match_indices(mark).map(|(at, _)| at);
    let close = ends.find(|at| closes(*at))?;
    Some((&text[..open], &inside[..close], &inside[close + mark.len()..]))
}
