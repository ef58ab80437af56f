//! Chat templates: a conversation as the text that a model was trained to see.
//!
//! What is hidden: that models ship their format as a Jinja program written for Python's jinja2 as
//! transformers runs it, and everything by which another Jinja differs from that (Python's methods,
//! JSON and text forms, block trimming, `{% generation %}`). Invariant: a template gives the same
//! text here as there, or an error (`'%s' % value` is the one expression of Python known to fail). It
//! is a pure function of its arguments: the time of day comes in as one.
//!
//! [`Template::encode`] keeps apart what the template wrote and what people wrote: a message that
//! contains the text of a control token is encoded as text, with any template.

mod append_only;
mod built_in;
mod environment;
pub(crate) mod python;
mod shield;
mod time;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use minijinja::{Environment, Value as JinjaValue};
use rocstar_record::message::{Arguments, Message, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

pub(crate) use self::shield::{Piece, Shield};
use crate::{
    error::Error,
    tokenizer::{Special, TemplateSources, Tokenizer, TokenizerConfig},
};

/// A compiled template; cloning shares it.
#[derive(Clone)]
pub struct Template {
    environment: Arc<Environment<'static>>,
    sources: TemplateSources,
    /// What templates find under `bos_token` and the like.
    variables: BTreeMap<String, String>,
}

/// What a rendering depends on beside the conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// Whether the text ends with the opening of the assistant's next turn.
    pub add_generation_prompt: bool,
    /// The time that `strftime_now` shows, in seconds since 1970 (UTC). A template that asks for
    /// the time fails without it.
    pub now_unix_s: Option<i64>,
    /// Further variables, such as `enable_thinking`.
    pub variables: Map<String, Value>,
}

impl RenderOptions {
    /// The conversation and the opening of the assistant's next turn.
    pub fn with_generation_prompt() -> Self {
        Self { add_generation_prompt: true, ..Self::default() }
    }
}

const USUAL: &str = "chat_template";
const WITH_TOOLS: &str = "chat_template for tools";

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// Where the template isn't valid Jinja, with the line.
    pub fn from_source(source: &str) -> Result<Self, Error> {
        let file = "chat template".to_owned();
        let usual = Some(source.to_owned());
        Self::compile(TemplateSources { file, usual, with_tools: None }, BTreeMap::new())
    }

    /// Reads the template of a Hugging Face folder: `chat_template.jinja`, else `chat_template` of
    /// `tokenizer_config.json`, which may be a list of named templates.
    ///
    /// # Errors
    /// Where there is none, or it can't be read or compiled.
    pub fn from_folder(folder: &Path) -> Result<Self, Error> {
        let config = TokenizerConfig::read(folder)?;
        let found = Self::from_config(&config)?;
        found.ok_or_else(|| Error::NoTemplate { place: folder.display().to_string() })
    }

    /// The format of rStar2-Agent: reasoning and answer in tags of their own, tools as JSON lines,
    /// the question behind two fixed sentences. Unlike in the release, later assistant turns are
    /// rendered as they were written.
    ///
    /// # Errors
    /// Never in a released build; a test compiles it.
    pub fn rstar2() -> Result<Self, Error> {
        Self::compile(built_in::rstar2(), BTreeMap::new())
    }

    /// Plain ChatML with tools, for models that ship no template or one without tools.
    ///
    /// # Errors
    /// Never in a released build; a test compiles it.
    pub fn chatml() -> Result<Self, Error> {
        Self::compile(built_in::chatml(), BTreeMap::new())
    }

    /// The template that a tokenizer's files hold.
    pub(crate) fn from_config(config: &TokenizerConfig) -> Result<Option<Self>, Error> {
        if config.templates == TemplateSources::default()
            || (config.templates.usual.is_none() && config.templates.with_tools.is_none())
        {
            return Ok(None);
        }
        let named = config.named_tokens();
        let variables = named.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        Self::compile(config.templates.clone(), variables).map(Some)
    }

    fn compile(
        sources: TemplateSources,
        variables: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::TemplateSyntax { file: sources.file.clone(), source };
        let mut environment = environment::new().map_err(failed)?;
        let named = [(USUAL, &sources.usual), (WITH_TOOLS, &sources.with_tools)];
        for (name, source) in named {
            let Some(source) = source else { continue };
            environment
                .add_template_owned(name, environment::without_generation_tags(source))
                .map_err(failed)?;
        }
        Ok(Self { environment: Arc::new(environment), sources, variables })
    }

    /// The template's text, as the model ships it.
    pub fn source(&self) -> &str {
        let sources = [&self.sources.usual, &self.sources.with_tools];
        sources.into_iter().flatten().next().map_or("", String::as_str)
    }

    /// Where the template stands, for errors.
    pub(crate) fn file(&self) -> &str {
        &self.sources.file
    }

    /// Whether the template shows tools to the model. One that doesn't drops them silently.
    pub fn shows_tools(&self) -> bool {
        let message = [Message::text(rocstar_record::message::Role::User, "question")];
        let tool = ToolSpec {
            name: "name_of_a_tool".to_owned(),
            description: None,
            parameters: Some(json!({"type": "object", "properties": {}})),
        };
        let text = self.render(
            &message,
            &[tool],
            &RenderOptions { now_unix_s: Some(0), ..RenderOptions::default() },
        );
        text.is_ok_and(|text| text.contains("name_of_a_tool"))
    }

    /// The conversation as text.
    ///
    /// # Errors
    /// Where the template refuses the conversation (it may insist on alternating roles, say) or
    /// fails.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        options: &RenderOptions,
    ) -> Result<String, Error> {
        let conversation = Conversation::new(messages, tools)?;
        let template = self.environment.get_template(self.choose(&conversation));
        let failed = |error| environment::failure(&self.sources.file, error);
        let context = self.context(&conversation, options);
        template.and_then(|template| template.render(context)).map_err(failed)
    }

    /// The conversation as tokens. Control tokens come from the template only: their text inside
    /// messages or tools is encoded as text. Added tokens that aren't control tokens, such as
    /// `<think>` of Qwen3, are recognised everywhere, as the models expect.
    ///
    /// # Errors
    /// As [`Self::render`], and where the tokenizer fails.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        tools: &[ToolSpec],
        options: &RenderOptions,
    ) -> Result<Vec<u32>, Error> {
        let mut shield = Shield::new(tokenizer);
        let (messages, tools) = shield.hide_all(messages, tools);
        let text = self.render(&messages, &tools, options)?;
        let mut tokens = Vec::new();
        for (_, piece) in shield.pieces(&text) {
            tokens.extend(match piece {
                Piece::Open(text) => tokenizer.encode(text, Special::Parse)?,
                Piece::Hidden(text) => tokenizer.encode(text, Special::AsText)?,
            });
        }
        Ok(tokens)
    }

    /// The name of the template that fits the conversation.
    fn choose(&self, conversation: &Conversation) -> &'static str {
        let has_tools = !conversation.tools.is_empty();
        let prefers_tools = has_tools && self.sources.with_tools.is_some();
        if prefers_tools || self.sources.usual.is_none() { WITH_TOOLS } else { USUAL }
    }

    /// The variables that transformers gives to templates.
    fn context(&self, conversation: &Conversation, options: &RenderOptions) -> JinjaValue {
        let mut context: BTreeMap<&str, JinjaValue> = BTreeMap::new();
        for (name, text) in &self.variables {
            context.insert(name, text.as_str().into());
        }
        for (name, value) in &options.variables {
            context.insert(name, python::from_json(value));
        }
        let list = |values: &[Value]| values.iter().map(python::from_json).collect::<JinjaValue>();
        let none = JinjaValue::from(());
        let tools = &conversation.tools;
        context.insert("messages", list(&conversation.messages));
        context.insert("tools", if tools.is_empty() { none.clone() } else { list(tools) });
        context.insert("documents", none);
        context.insert("add_generation_prompt", options.add_generation_prompt.into());
        context.insert("strftime_now", time::strftime_now(options.now_unix_s));
        JinjaValue::from_pairs(context)
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Template").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// Messages and tools in the JSON form that templates read.
#[derive(Debug, Clone)]
struct Conversation {
    messages: Vec<Value>,
    tools: Vec<Value>,
}

impl Conversation {
    fn new(messages: &[Message], tools: &[ToolSpec]) -> Result<Self, Error> {
        let tools = tools.iter().map(serde_json::to_value).collect::<Result<_, _>>();
        let tools = tools.map_err(|source| Error::Json { file: "tools".to_owned(), source })?;
        Ok(Self { messages: messages.iter().map(message_json).collect(), tools })
    }
}

/// A message as templates expect it: arguments of calls as an object, not as text.
fn message_json(message: &Message) -> Value {
    let mut json = Map::new();
    json.insert("role".to_owned(), json!(message.role));
    json.insert("content".to_owned(), json!(message.content));
    if let Some(reasoning) = &message.reasoning_content {
        json.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    if !message.tool_calls.is_empty() {
        let calls: Vec<_> = message.tool_calls.iter().map(call_json).collect();
        json.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    if let Some(id) = &message.tool_call_id {
        json.insert("tool_call_id".to_owned(), json!(id));
    }
    if let Some(name) = &message.name {
        json.insert("name".to_owned(), json!(name));
    }
    Value::Object(json)
}

fn call_json(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Text(text) => Value::String(text.clone()),
    };
    let mut json = Map::new();
    if let Some(id) = &call.id {
        json.insert("id".to_owned(), json!(id));
    }
    json.insert("type".to_owned(), json!("function"));
    json.insert("function".to_owned(), json!({"name": call.name, "arguments": arguments}));
    Value::Object(json)
}
