//! Content that shows: placeholders and postscripts.

use super::Finding;

/// At least so many `[…]`, each within a line.
pub(super) fn placeholders(at_least: usize, text: &str) -> Finding {
    let found: usize = text.split('\n').map(in_line).sum();
    Finding::new(found >= at_least, format!("{found} placeholders, at least {at_least} asked"))
}

fn in_line(line: &str) -> usize {
    let mut rest = line;
    let mut found = 0;
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']') else { break };
        found += 1;
        rest = &rest[open + close + 1..];
    }
    found
}

/// The marker is there, in either case. `P.S.` and `P.P.S` may have a space within.
pub(super) fn postscript(marker: &str, text: &str) -> Finding {
    let text = text.to_lowercase();
    let found = match marker {
        "P.P.S" => spaced(&text, &["p.", "p.", "s"]),
        "P.S." => spaced(&text, &["p.", "s."]),
        other => text.contains(&other.to_lowercase()),
    };
    let message = if found { "is there" } else { "is missing" };
    Finding::new(found, format!("the postscript `{marker}` {message}"))
}

/// The parts follow each other somewhere, with at most one white space between two.
fn spaced(text: &str, parts: &[&str]) -> bool {
    let starts = text.match_indices(parts[0]).map(|(at, _)| &text[at..]);
    starts.into_iter().any(|rest| {
        let mut rest = Some(rest);
        for part in parts {
            rest = rest.and_then(|it| {
                let direct = it.strip_prefix(part);
                direct.or_else(|| it.strip_prefix(char::is_whitespace)?.strip_prefix(part))
            });
        }
        rest.is_some()
    })
}
