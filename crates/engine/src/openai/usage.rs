//! Token counts, as OpenAI's clients read them.

use serde::Serialize;

use super::choice::Step;

/// Tokens of a request and its answers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct UsageAnswer {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct PromptDetails {
    /// Tokens whose keys and values were there already.
    cached_tokens: usize,
}

impl UsageAnswer {
    /// Adds what a choice took. A prompt counts once, with its first choice, however many there are.
    pub(super) fn add(&mut self, is_first_of_prompt: bool, steps: &[Step]) {
        for step in steps {
            let Step::Finished(finished, _) = step else { continue };
            let usage = finished.usage;
            if is_first_of_prompt {
                self.prompt_tokens += usage.prompt_tokens;
                self.prompt_tokens_details.cached_tokens += usage.cached_tokens;
            }
            self.completion_tokens += usage.new_tokens;
            self.total_tokens = self.prompt_tokens + self.completion_tokens;
        }
    }
}
