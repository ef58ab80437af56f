//! How many tokens an answer may have in a context that prompt and answer share.
//!
//! Servers such as vLLM refuse a request whose prompt and bound together exceed the context, however
//! short the answer would have been. So a refusal is read for how much room there is. Invariant:
//! each number to ask for is smaller than the one that was refused, so asking comes to an end.

use super::error::RemoteError;
use super::wire::MOST_TOKENS;

/// A refused request for so few tokens means that the prompt alone is too long.
const FEWEST_TOKENS: usize = 16;
/// Farthest that a number stands behind its name.
const FARTHEST_BYTES: usize = 24;

/// What a refusal says of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// Longest sequence.
    pub(super) context_tokens: Option<usize>,
    /// The prompt.
    pub(super) prompt_tokens: Option<usize>,
}

/// What to ask for, after so many tokens were refused for the context: what the refusal says there
/// is room for, else half of it. `None` where the prompt alone is too long.
pub(super) fn fewer(refusal: &RemoteError, refused: usize) -> Option<usize> {
    let told = Told::read(refusal);
    match told.context_tokens.zip(told.prompt_tokens) {
        Some((context, prompt)) if prompt >= context => None,
        Some((context, prompt)) if context - prompt < refused => Some(context - prompt),
        _ => (refused > FEWEST_TOKENS).then_some(refused / 2),
    }
}

impl Told {
    /// Reads the words of rocstar, vLLM (three generations of them), SGLang and OpenAI.
    pub(super) fn read(refusal: &RemoteError) -> Self {
        let RemoteError::Refused { message, .. } = refusal else { return Self::default() };
        let text = message.to_lowercase();
        let behind = ["context length", "context window", "context size", "the context holds"];
        let before = [" maximum context length"];
        let context_tokens = behind.iter().find_map(|name| behind_name(&text, name));
        let context_tokens =
            context_tokens.or_else(|| before.iter().find_map(|name| before_name(&text, name)));
        let before = [
            " input tokens",
            " in the messages",
            " in your prompt",
            " in the prompt",
            " tokens in the messages",
            " tokens from the input",
        ];
        let behind = ["`prompt` has", "prompt contains", "the input ("];
        let prompt_tokens = before.iter().find_map(|name| before_name(&text, name));
        let prompt_tokens =
            prompt_tokens.or_else(|| behind.iter().find_map(|name| behind_name(&text, name)));
        Self { context_tokens, prompt_tokens }
    }
}

/// The first number behind a name, where it is close.
fn behind_name(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).find_map(|(at, _)| {
        let rest = text.get(at + name.len()..)?;
        let start = rest.find(|c: char| c.is_ascii_digit())?;
        let is_close = start <= FARTHEST_BYTES && !rest.get(..start)?.contains(['.', ';']);
        let digits = rest.get(start..)?;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        is_close.then(|| number(&digits[..end]))?
    })
}

/// The number right before a name.
fn before_name(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).find_map(|(at, _)| {
        let rest = text.get(..at)?;
        let start = rest
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |last| last + rest[last..].chars().next().map_or(1, char::len_utf8));
        number(&rest[start..])
    })
}

fn number(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|tokens| *tokens <= MOST_TOKENS)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn refusal(message: &str) -> RemoteError {
        let message = message.to_owned();
        RemoteError::Refused { url: "http://h".to_owned(), status: 400, code: None, message }
    }

    #[test]
    fn the_lengths_of_each_server_are_read() {
        let all = [
            (
                "This model's maximum context length is 16384 tokens. However, you requested 31000 \
                 tokens (280 in the messages, 30720 in the completion). Please reduce the length.",
                (16_384, 280),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 30720. This model's maximum \
                 context length is 16384 tokens and your request has 280 input tokens (30720 > 16384 \
                 - 280).",
                (16_384, 280),
            ),
            (
                "You passed 4097 input tokens and requested 1 output tokens. However, the model's \
                 context length is only 4096 tokens, resulting in a maximum input length of 4095 \
                 tokens.",
                (4096, 4097),
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 100 \
                 output tokens and your prompt contains at least 3997 input tokens.",
                (4096, 3997),
            ),
            (
                "Requested token count exceeds the model's maximum context length of 8192 tokens. \
                 You requested a total of 9000 tokens: 1000 tokens from the input messages and 8000 \
                 tokens for the completion.",
                (8192, 1000),
            ),
            (
                "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
                (8192, 9000),
            ),
            ("`prompt` has 3 tokens; the context holds 2, and a new token needs room", (2, 3)),
        ];
        for (message, (context, prompt)) in all {
            let expected = Told { context_tokens: Some(context), prompt_tokens: Some(prompt) };
            assert_eq!(Told::read(&refusal(message)), expected, "{message}");
        }
        let bare = refusal("longer than the maximum context length. Error 17");
        assert_eq!(Told::read(&bare), Told::default());
    }

    #[test]
    fn what_has_room_is_asked_for_and_else_half() {
        let vllm = "maximum context length is 100 tokens and your request has 30 input tokens";
        assert_eq!(fewer(&refusal(vllm), 500), Some(70));
        // Refused although it had room: the numbers mean something else.
        assert_eq!(fewer(&refusal(vllm), 70), Some(35));
        let full = "maximum context length is 100 tokens and your request has 100 input tokens";
        assert_eq!(fewer(&refusal(full), 500), None);
        let bare = refusal("maximum context length");
        assert_eq!([500, 17, 16].map(|refused| fewer(&bare, refused)), [Some(250), Some(8), None]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_asking_ends(
            message in "(context length|context window| input tokens|é|[0-9]{1,22}| is |\\.){0,8}",
            refused in 1_usize..100_000,
        ) {
            let refusal = refusal(&message);
            prop_assert!(fewer(&refusal, refused).is_none_or(|next| next > 0 && next < refused));
        }
    }
}
