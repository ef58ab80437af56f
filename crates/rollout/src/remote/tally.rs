//! The tokens of an attempt, as far as the server counts them.
//!
//! Invariant: what a server didn't count stays open; an estimate goes into the budget and nowhere
//! else.

use rocstar_record::attempt::TokenCounts;
use rocstar_record::message::Message;

use super::ask::ChatReply;

/// Bytes that are taken for a token where nothing is known.
pub(super) const TOKEN_BYTES: usize = 4;

/// Tokens of an attempt so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Of the first prompt.
    prompt: Option<usize>,
    /// Sampled; `None` as soon as one turn isn't counted.
    policy: Option<usize>,
    /// After the first prompt.
    response: Option<usize>,
    /// For the budget: after the first prompt, estimated where nothing is told.
    pub(super) used: usize,
    /// Of the prompt before the last turn.
    last_prompt: Option<usize>,
    turns: usize,
    /// Bytes of the first prompt.
    prompt_bytes: usize,
}

impl Tally {
    /// Adds a turn that answered these messages.
    pub(super) fn add(&mut self, messages: &[Message], reply: &ChatReply) {
        let bytes = messages.iter().map(|message| message.content.len()).sum::<usize>();
        if self.turns == 0 {
            self.prompt = reply.prompt_tokens;
            self.policy = Some(0);
            self.prompt_bytes = bytes;
        }
        self.turns += 1;
        self.last_prompt = reply.prompt_tokens;
        self.policy = self.policy.zip(reply.completion_tokens).map(|(sum, new)| sum + new);
        let told = (reply.prompt_tokens, reply.completion_tokens, self.prompt);
        self.response = match told {
            (Some(prompt), Some(new), Some(first)) => {
                // Templates may leave thinking of earlier turns out: it was written all the same.
                Some((prompt + new).saturating_sub(first).max(self.policy.unwrap_or(0)))
            }
            _ => None,
        };
        let estimate = (bytes + written_bytes(reply)).saturating_sub(self.prompt_bytes);
        self.used = self.response.or(self.policy).unwrap_or(estimate / TOKEN_BYTES);
    }

    /// A first prompt that the model can't read was refused: it wrote nothing, for sure.
    pub(super) fn refuse(&mut self, prompt_tokens: Option<usize>) {
        self.prompt = prompt_tokens;
        (self.policy, self.response) = (Some(0), Some(0));
    }

    /// Tokens that the next prompt has at least, as far as it is told. What was written last may be
    /// left out of it where it is thinking.
    pub(super) const fn least_prompt(&self) -> usize {
        match self.last_prompt {
            Some(tokens) => tokens,
            None => 0,
        }
    }

    pub(super) fn counts(&self) -> TokenCounts {
        TokenCounts {
            prompt_tokens: self.prompt,
            policy_tokens: self.policy,
            response_tokens: self.response,
            are_exact: false,
        }
    }
}

fn written_bytes(reply: &ChatReply) -> usize {
    let reasoning = reply.reasoning.as_ref().map_or(0, String::len);
    let calls = reply.calls.iter().map(|call| call.name.len() + call.arguments.to_text().len());
    reply.text.len() + reasoning + calls.sum::<usize>()
}
