//! Formulas between their delimiters, and the last number of a text.
//!
//! Invariant: a text is gone through once.

/// What stands between `$…$`, `$$…$$`, `\(…\)`, `\[…\]`, in order.
pub(super) fn formulas(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(['$', '\\']) {
        if at < from {
            continue;
        }
        let rest = &text[at..];
        let delimiters = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
        let opening = delimiters.into_iter().find(|(open, _)| rest.starts_with(open));
        let Some((open, close)) = opening else {
            // Whatever is escaped opens nothing: `\$` is money.
            from = at + 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let begin = at + open.len();
        let Some(end) = closing(&text[begin..], close).map(|it| begin + it) else { return found };
        let inside = text[begin..end].trim();
        if !inside.is_empty() {
            found.push(inside);
        }
        from = end + close.len();
    }
    found
}

/// Where `close` stands first, not counting `\$`.
fn closing(text: &str, close: &str) -> Option<usize> {
    let escaped = |at: usize| close == "$" && text[..at].ends_with('\\');
    text.match_indices(close).map(|it| it.0).find(|at| !escaped(*at))
}

/// From the sign of the last number to the end of the text.
pub(super) fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut start = bytes.iter().rposition(u8::is_ascii_digit)?;
    while start > 0 {
        let before = bytes[start - 1];
        let inside = before.is_ascii_digit()
            || (matches!(before, b'.' | b',' | b'/')
                && start > 1
                && bytes[start - 2].is_ascii_digit());
        if !inside {
            break;
        }
        start -= 1;
    }
    // A minus sign, unless it subtracts.
    let signed = start > 0
        && bytes[start - 1] == b'-'
        && (start == 1 || !bytes[start - 2].is_ascii_alphanumeric());
    text.get(start - usize::from(signed)..)
}

/// Whether the number is one, and no part of mathematics that could not be read: `x^2`, `∛8`, `5!`.
pub(super) fn stands_alone(text: &str, number: &str) -> bool {
    let before = &text[..text.len() - number.len()];
    let after = &number[bare_number(number).len()..];
    let opens = |c: char| "*=:$€£¥~\"'“`#>".contains(c) || c.is_whitespace();
    let last = before.chars().next_back();
    let apart =
        last.is_none_or(|c| opens(c) || c == '(' && before.trim_end_matches('(').ends_with(opens));
    let word_before = before.trim_end_matches(|c: char| opens(c) || c == '(');
    // A word, or the end of a clause; no sign and no command.
    let command = word_before.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let follows_prose = word_before.is_empty()
        || (word_before.ends_with(|c: char| c.is_alphabetic() || ".,;:!?|".contains(c))
            && !command.ends_with('\\'));
    let mut rest = after.chars();
    let ends = match rest.next() {
        None => true,
        Some('\\') => {
            rest.next().is_some_and(|c| "%$)],; ".contains(c)) || after.starts_with("\\text")
        }
        Some('!') => false,
        Some(c) => c.is_whitespace() || c.is_alphabetic() || ".,;:?%°$€£¥*)\"'”`<".contains(c),
    };
    let continues = after.trim_start().starts_with(['+', '^', '/', '×', '·', '=', '−']);
    apart && follows_prose && ends && !continues
}

/// The number itself, with what parts and separates its digits.
pub(super) fn bare_number(text: &str) -> &str {
    let length = text
        .char_indices()
        .find(|(index, c)| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '/') || *index == 0))
        .map_or(text.len(), |(index, _)| index);
    text[..length].trim_end_matches(['.', ',', '/'])
}
