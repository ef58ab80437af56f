//! How a response starts and ends.

use super::Finding;

/// The text ends with the phrase, in either case; quotation marks after it don't count.
pub(super) fn end_phrase(phrase: &str, text: &str) -> Finding {
    let text = text.trim().trim_matches('"').to_lowercase();
    let followed = text.ends_with(&phrase.to_lowercase());
    let message = if followed { "ends" } else { "does not end" };
    Finding::new(followed, format!("the response {message} with `{phrase}`"))
}

/// The whole text stands in double quotation marks.
pub(super) fn quotation(text: &str) -> Finding {
    let text = text.trim();
    let followed = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let message = if followed { "in" } else { "not in" };
    Finding::new(followed, format!("{message} double quotation marks"))
}
