//! How long a sequence may be, and what is said where a request would make it longer.

/// A context that prompt and answer share. A request whose prompt and bound on new tokens exceed it
/// together is refused, as vLLM and SGLang do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Longest sequence, in tokens.
    pub tokens: usize,
    /// What a refusal says.
    pub wording: ContextWording,
}

/// What a refusal for the context says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextWording {
    /// Both lengths, as vLLM does.
    Vllm,
    /// Both lengths, as SGLang does.
    Sglang,
    /// No numbers.
    Bare,
}

impl Context {
    /// A context without end.
    pub const fn endless() -> Self {
        Self { tokens: usize::MAX, wording: ContextWording::Bare }
    }

    /// Most new tokens behind a prompt, or the words of a refusal.
    pub(crate) fn bound(self, prompt: usize, asked: Option<usize>) -> Result<usize, String> {
        let left = self.tokens.saturating_sub(prompt);
        let asked = asked.unwrap_or(left);
        if left > 0 && asked <= left {
            return Ok(asked);
        }
        let most = self.tokens;
        Err(match self.wording {
            ContextWording::Vllm => format!(
                "This model's maximum context length is {most} tokens. However, you requested \
                 {asked} output tokens and your prompt contains {prompt} input tokens. Please \
                 reduce the length of the input prompt or the number of requested output tokens."
            ),
            ContextWording::Sglang => format!(
                "Requested token count exceeds the model's maximum context length of {most} tokens. \
                 You requested a total of {} tokens: {prompt} tokens from the input messages and \
                 {asked} tokens for the completion.",
                prompt.saturating_add(asked)
            ),
            ContextWording::Bare => "longer than the maximum context length".to_owned(),
        })
    }
}
