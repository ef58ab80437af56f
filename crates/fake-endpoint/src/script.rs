//! What is asked, and what a script answers.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A question in messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The conversation, as it was sent.
    pub messages: Vec<Value>,
    /// Names of the tools that it was sent with.
    pub tools: Vec<String>,
    /// The seed; 0 where none was sent.
    pub seed: u64,
    /// The whole body.
    pub body: Value,
}

impl Question {
    /// The text of the last message.
    pub fn last_text(&self) -> &str {
        self.messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default()
    }

    /// Turns of the assistant so far.
    pub fn turns(&self) -> usize {
        self.messages.iter().filter(|message| message["role"] == "assistant").count()
    }
}

/// What a model without bounds would answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// Thinking, kept apart.
    pub reasoning: String,
    /// The text.
    pub text: String,
    /// Calls, behind the text.
    pub calls: Vec<Call>,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments, well formed or not.
    pub arguments: String,
}

impl Reply {
    /// Text and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A call behind a text.
    pub fn call(text: impl Into<String>, name: &str, arguments: &Value) -> Self {
        let call = Call { name: name.to_owned(), arguments: arguments.to_string() };
        Self { calls: vec![call], ..Self::text(text) }
    }
}

/// A question in tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenQuestion {
    /// Tokens to continue.
    pub prompt: Vec<u32>,
    /// The seed; 0 where none was sent.
    pub seed: u64,
    /// The whole body.
    pub body: Value,
}

type Answer = dyn Fn(&Question) -> Reply + Send + Sync;
type TokenAnswer = dyn Fn(&TokenQuestion) -> Vec<u32> + Send + Sync;

/// Answers questions in messages.
#[derive(Clone)]
pub struct Script(pub(crate) Arc<Answer>);

/// Answers questions in tokens. The answer ends where a stop token stands in it.
#[derive(Clone)]
pub struct TokenScript(pub(crate) Arc<TokenAnswer>);

impl Script {
    /// From a function of the question alone.
    pub fn new(script: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(script))
    }
}

impl TokenScript {
    /// From a function of the question alone.
    pub fn new(script: impl Fn(&TokenQuestion) -> Vec<u32> + Send + Sync + 'static) -> Self {
        Self(Arc::new(script))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Script").finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenScript {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenScript").finish_non_exhaustive()
    }
}
