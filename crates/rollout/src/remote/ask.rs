//! One question to a server that speaks messages, and what comes back.

use rocstar_engine::Sampling;
use rocstar_record::draw::Key;
use rocstar_record::message::{Message, ToolCall, ToolSpec};

/// What is asked.
#[derive(Debug, Clone)]
pub struct ChatAsk {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools that the model is told of.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer; `None` as many as the server gives.
    pub max_tokens: Option<usize>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Names the draws. `rocstar serve` draws with it as the local engine does; other servers get a
    /// seed that is drawn from it.
    pub draw: Key,
}

/// What the model wrote.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatReply {
    /// Its text.
    pub text: String,
    /// Thinking that the server keeps apart.
    pub reasoning: Option<String>,
    /// Calls that the server found, in order.
    pub calls: Vec<ToolCall>,
    /// What looked like calls and couldn't be read, as the server describes it; their text is in
    /// `text`. Only `rocstar serve` tells.
    pub malformed: Vec<String>,
    /// Why it ended.
    pub end: ChatEnd,
    /// Tokens of the conversation; `None` where the server doesn't say.
    pub prompt_tokens: Option<usize>,
    /// Tokens of the answer; `None` where the server doesn't say.
    pub completion_tokens: Option<usize>,
    /// Tokens were bounded, and the server went on: it was cut off by us, or said that it wrote
    /// more.
    pub is_over_limit: bool,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChatEnd {
    /// The model was done.
    #[default]
    Stop,
    /// It called tools.
    Calls,
    /// Its tokens ran out.
    Length,
    /// The model's context is full.
    Context,
}
