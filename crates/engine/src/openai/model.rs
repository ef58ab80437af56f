//! What is served: an engine with the words to speak to it.
//!
//! Invariant: tokenizer, template and engine fit each other: every token that the tokenizer makes is
//! a row of the embedding.

use rocstar_chat::calls::CallFormat;
use rocstar_chat::{Family, RenderOptions, Special, Template, Tokenizer};
use rocstar_record::message::{Message, ToolSpec};

use super::ask::Ask;
use super::error::{ApiError, Code};
use super::text::ModelText;
use crate::Engine;

/// Begins a call in models of the Llama 3 family.
const PYTHON_TAG: &str = "<|python_tag|>";

/// What is served.
#[derive(Debug)]
pub struct Model {
    pub(super) id: String,
    pub(super) engine: Engine,
    pub(super) tokenizer: Tokenizer,
    pub(super) template: Option<Template>,
    pub(super) calls: CallFormat,
    pub(super) end_tokens: Vec<u32>,
    /// The template has a place for tools.
    shows_tools: bool,
    /// The time that templates may show, in seconds since 1970.
    now_unix_s: i64,
}

/// A tokenizer that makes tokens which the model doesn't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tokenizer makes {tokenizer} tokens, but the model's embedding has {embedding} rows; they \
     belong to different models"
)]
pub struct TokenizerDoesNotFit {
    /// Tokens of the tokenizer.
    pub tokenizer: usize,
    /// Rows of the embedding.
    pub embedding: usize,
}

impl TokenizerDoesNotFit {
    /// Checks that each token has a row. An embedding may have more, for padding.
    ///
    /// # Errors
    /// It has fewer.
    pub fn check(tokenizer: &Tokenizer, embedding: usize) -> Result<(), Self> {
        let tokenizer = tokenizer.vocabulary_size();
        if tokenizer > embedding { Err(Self { tokenizer, embedding }) } else { Ok(()) }
    }
}

/// What a client sent can't become a prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptProblem {
    /// There is no template for conversations.
    #[error(
        "this model has no chat template: choose one with `--template`, or continue plain text"
    )]
    NoTemplate,
    /// The template would drop the tools silently.
    #[error(
        "the chat template does not show tools to the model: choose one that does, such as \
         `--template chatml`"
    )]
    ToolsNotShown,
    /// The template refuses the conversation, or the tokenizer can't encode it.
    #[error(transparent)]
    Chat(#[from] rocstar_chat::Error),
}

impl PromptProblem {
    /// As a refusal of `field`, with all causes on one line.
    pub(super) fn refuse(&self, field: &'static str) -> ApiError {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        let (code, field) = match self {
            Self::NoTemplate => (Code::Unsupported, field),
            Self::ToolsNotShown => (Code::Unsupported, "tools"),
            Self::Chat(_) => (Code::InvalidValue, field),
        };
        ApiError { code, message: text, param: Some(field.to_owned()) }
    }
}

impl Model {
    /// Puts a model together. `id` is the name that clients ask for. Without a template chats are
    /// refused; without a format of calls the template's family decides, and `hermes` where it is
    /// unknown.
    ///
    /// `now_unix_s` is the time that templates may show. It stays as it is, so that the same request
    /// always makes the same prompt.
    ///
    /// # Errors
    /// The tokenizer belongs to another model.
    pub fn new(
        id: String,
        engine: Engine,
        tokenizer: Tokenizer,
        template: Option<Template>,
        calls: Option<CallFormat>,
        now_unix_s: i64,
    ) -> Result<Self, TokenizerDoesNotFit> {
        TokenizerDoesNotFit::check(&tokenizer, engine.config().vocabulary_size)?;
        let family = template.as_ref().and_then(|template| Family::detect(template).ok());
        let calls = calls.or_else(|| family.as_ref()?.call_format());
        let is_llama_3 = tokenizer.token_id(PYTHON_TAG).is_some();
        let usual = if is_llama_3 { CallFormat::Llama3Json } else { CallFormat::Hermes };
        let mut end_tokens = engine.config().end_tokens.clone();
        end_tokens.extend(tokenizer.end_token());
        end_tokens.extend(family.and_then(|family| tokenizer.token_id(family.end_of_turn())));
        end_tokens.sort_unstable();
        end_tokens.dedup();
        Ok(Self {
            id,
            engine,
            tokenizer,
            shows_tools: template.as_ref().is_some_and(Template::shows_tools),
            template,
            calls: calls.unwrap_or(usual),
            end_tokens,
            now_unix_s,
        })
    }

    /// The name that clients ask for.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tokenizer.
    pub const fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Tokens that end an answer.
    pub fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// How tool calls are written and read.
    pub const fn calls(&self) -> &CallFormat {
        &self.calls
    }

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

    /// The bytes of this model's tokens; control tokens have some only where `show_special`.
    pub fn text(&self, show_special: bool) -> ModelText {
        ModelText::new(self.tokenizer.clone(), show_special)
    }

    /// Tokens of a text that is to be continued. Names of control tokens in it become those tokens:
    /// who sends a raw prompt writes the template's part as well.
    ///
    /// # Errors
    /// The tokenizer can't encode it.
    pub fn text_prompt(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<u32>, PromptProblem> {
        let tokens = self.tokenizer.encode(text, Special::Parse)?;
        let begin = self.tokenizer.begin_token();
        let adds = add_special_tokens && self.tokenizer.expects_begin_token();
        Ok(begin.filter(|_| adds).into_iter().chain(tokens).collect())
    }

    /// The prompt of a conversation, up to where the assistant begins to speak. Names of control
    /// tokens inside messages stay text.
    ///
    /// # Errors
    /// The model has no template, or its template refuses the conversation.
    pub fn chat_prompt(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Vec<u32>, PromptProblem> {
        let Some(template) = &self.template else { return Err(PromptProblem::NoTemplate) };
        if !tools.is_empty() && !self.shows_tools {
            return Err(PromptProblem::ToolsNotShown);
        }
        let mut options = RenderOptions::with_generation_prompt();
        options.now_unix_s = Some(self.now_unix_s);
        Ok(template.encode(&self.tokenizer, messages, tools, &options)?)
    }
}
