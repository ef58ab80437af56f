//! Forms that show: bullet points, highlights, sections, JSON, titles, one of three answers.

use serde::de::IgnoredAny;

use super::Finding;

/// What may be answered where the answers are given.
const OPTIONS: [&str; 3] = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

/// Exactly so many bullet points: lines that start with `*`, not two of them, or with `-`.
pub(super) fn bullet_points(count: usize, text: &str) -> Finding {
    let mut found = 0;
    let mut stars = text.split('\n');
    while let Some(line) = stars.next() {
        let Some(after) = line.trim_start().strip_prefix('*') else { continue };
        // A lone `*` takes the next line for its text.
        let has_text = match after.chars().next() {
            Some(next) => next != '*',
            None => stars.next().is_some(),
        };
        found += usize::from(has_text);
    }
    found += text.split('\n').filter(|line| line.trim_start().starts_with('-')).count();
    Finding::new(found == count, format!("{found} bullet points, {count} asked"))
}

/// One of the three answers is in the text.
pub(super) fn constrained(text: &str) -> Finding {
    match OPTIONS.iter().find(|option| text.contains(*option)) {
        Some(option) => Finding::new(true, format!("`{option}` is there")),
        None => Finding::new(false, "none of the three answers is there"),
    }
}

/// At least so many highlights within a line, `*…*` or `**…**`, that are not blank.
pub(super) fn highlights(at_least: usize, text: &str) -> Finding {
    let found = marked(text, "*") + marked(text, "**");
    Finding::new(found >= at_least, format!("{found} highlights, at least {at_least} asked"))
}

/// Texts within a line between two `mark`, without a star in them, from the left, none twice.
fn marked(text: &str, mark: &str) -> usize {
    let mut found = 0;
    let mut rest = text;
    while let Some(start) = rest.find(mark) {
        let inside = &rest[start + mark.len()..];
        let end = inside.find(['*', '\n']).unwrap_or(inside.len());
        if inside[end..].starts_with(mark) {
            found += usize::from(!inside[..end].trim().is_empty());
            rest = &inside[end + mark.len()..];
        } else {
            rest = &rest[start + 1..];
        }
    }
    found
}

/// At least so many marks of a section: the word and a number, with at most one space between.
pub(super) fn sections(marker: &str, at_least: usize, text: &str) -> Finding {
    let is_numbered = |after: &str| {
        let after = after.strip_prefix(char::is_whitespace).unwrap_or(after);
        after.chars().next().is_some_and(char::is_numeric)
    };
    let marks = text.match_indices(marker);
    let found = marks.filter(|(at, _)| is_numbered(&text[at + marker.len()..])).count();
    Finding::new(found >= at_least, format!("{found} sections, at least {at_least} asked"))
}

/// The whole text is one JSON value, with or without a fence of backticks.
pub(super) fn json(text: &str) -> Finding {
    let mut inside = text.trim();
    for fence in ["```json", "```Json", "```JSON", "```"] {
        inside = inside.strip_prefix(fence).unwrap_or(inside);
    }
    let inside = inside.strip_suffix("```").unwrap_or(inside).trim();
    match serde_json::from_str::<IgnoredAny>(inside) {
        Ok(_) => Finding::new(true, "JSON"),
        Err(error) => Finding::new(false, format!("no JSON: {error}")),
    }
}

/// A title within a line in `<<…>>`, not blank.
pub(super) fn title(text: &str) -> Finding {
    let title = text.split('\n').find_map(|line| {
        let (start, end) = (line.find("<<")?, line.rfind(">>")?);
        let title = line.get(start..end.checked_add(2)?).filter(|it| it.len() > 4)?;
        let title = title.trim_start_matches('<').trim_end_matches('>').trim();
        (!title.is_empty()).then_some(title)
    });
    match title {
        Some(title) => Finding::new(true, format!("the title is `{title}`")),
        None => Finding::new(false, "no title in <<…>>"),
    }
}
