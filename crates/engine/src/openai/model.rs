//! What is served: an engine with the words to speak to it.

use rocstar_chat::calls::CallFormat;
use rocstar_chat::{Special, Tokenizer};
use rocstar_record::message::{Message, ToolSpec};

use super::ask::Ask;
use super::error::{ApiError, Code};
use crate::Engine;

/// How conversations become prompts.
#[derive(Debug)]
pub enum ChatForm {}

/// What is served.
#[derive(Debug)]
pub struct Model {
    /// The name that clients ask for.
    pub id: String,
    /// Generates.
    pub engine: Engine,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// How conversations become prompts; `None` where the model has no template, and chats are
    /// refused.
    pub chat: Option<ChatForm>,
    /// How the model writes tool calls.
    pub calls: CallFormat,
    /// Tokens that end an answer.
    pub end_tokens: Vec<u32>,
}

impl Model {
    /// Checks the name that a client asked for; no name means the one that is served.
    ///
    /// # Errors
    /// Another model was asked for.
    pub(super) fn require(&self, id: Option<&str>) -> Result<(), ApiError> {
        match id {
            Some(id) if id != self.id => Err(ApiError {
                code: Code::ModelNotFound,
                message: format!("the model `{id}` is not served here; `{}` is", self.id),
                param: Some("model".to_owned()),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Tokens that end an answer to this request.
    pub(super) fn stop_tokens(&self, ask: &Ask) -> Vec<u32> {
        let own: &[u32] = if ask.ignore_end { &[] } else { &self.end_tokens };
        own.iter().chain(&ask.stop_tokens).copied().collect()
    }

    /// Tokens of a text that is to be continued. Names of control tokens in it become those tokens:
    /// who sends a raw prompt writes the template's part as well.
    ///
    /// # Errors
    /// The tokenizer can't encode it.
    pub(super) fn encode_prompt(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<u32>, ApiError> {
        let tokens = self.tokenizer.encode(text, Special::Parse);
        let tokens =
            tokens.map_err(|error| ApiError::invalid("prompt", format_args!("{error}")))?;
        let begin = self.tokenizer.begin_token();
        let adds = add_special_tokens && self.tokenizer.expects_begin_token();
        Ok(begin.filter(|_| adds).into_iter().chain(tokens).collect())
    }

    /// The prompt of a conversation, up to where the assistant begins to speak.
    ///
    /// # Errors
    /// The model has no template, or its template refuses the conversation.
    pub(super) fn chat_prompt(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Vec<u32>, ApiError> {
        let _ = (messages, tools);
        Err(ApiError::new(Code::Unsupported, "this model has no chat template"))
    }
}
