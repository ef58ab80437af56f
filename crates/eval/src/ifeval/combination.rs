//! Responses made of parts: two answers, or the prompt again and then the answer.

use super::Finding;

/// Two different responses, parted by `******`. A divider may also open or close the whole.
pub(super) fn two_responses(text: &str) -> Finding {
    let pieces: Vec<&str> = text.split("******").map(str::trim).collect();
    let last = pieces.len() - 1;
    if pieces.iter().enumerate().any(|(at, it)| it.is_empty() && at != 0 && at != last) {
        return Finding::new(false, "an empty response between two dividers");
    }
    let responses: Vec<&str> = pieces.into_iter().filter(|it| !it.is_empty()).collect();
    match responses.as_slice() {
        [first, second] if first == second => Finding::new(false, "twice the same response"),
        [_, _] => Finding::new(true, "two responses"),
        others => Finding::new(false, format!("{} responses, 2 asked", others.len())),
    }
}

/// The text starts with the prompt, in either case.
pub(super) fn repeat_prompt(prompt: &str, text: &str) -> Finding {
    let followed = text.trim().to_lowercase().starts_with(&prompt.to_lowercase());
    let message = if followed { "starts" } else { "does not start" };
    Finding::new(followed, format!("the response {message} with the prompt"))
}
