//! The body of `/v1/chat/completions`.
//!
//! Invariant: a field of OpenAI's API that would change the answer and isn't implemented is refused
//! by name, never ignored; its neutral value is accepted, since clients send those.

use rocstar_record::message::{Message, ToolSpec};
use serde_json::Value;

use crate::openai::ask::{self, Ask};
use crate::openai::error::ApiError;
use crate::openai::fields::Fields;

/// Most alternatives told for each token.
pub(in crate::openai) const MAX_TOP_LOG_PROBS: usize = 20;

/// A checked request.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::openai) struct ChatRequest {
    /// Which model; `None` the one that is served.
    pub(in crate::openai) model: Option<String>,
    /// The conversation.
    pub(in crate::openai) messages: Vec<Message>,
    /// Tools that the model is told of; calls are parsed only where there are some.
    pub(in crate::openai) tools: Vec<ToolSpec>,
    /// Log-probabilities go back, with so many alternatives for each token.
    pub(in crate::openai) log_probs: Option<usize>,
    /// The rest.
    pub(in crate::openai) ask: Ask,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// It is not JSON, or a field can't be accepted.
    pub(in crate::openai) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::read(body)?;
        refuse_unsupported(&mut fields)?;
        let request = Self {
            model: fields.take("model")?,
            messages: messages(&mut fields)?,
            tools: tools(&mut fields)?,
            log_probs: log_probs(&mut fields)?,
            ask: {
                let bound = max_new_tokens(&mut fields)?;
                Ask::take(&mut fields, bound)?
            },
        };
        fields.finish()?;
        Ok(request)
    }
}

/// The conversation, also of `/tokenize`.
///
/// # Errors
/// There is none, or a message can't be read.
pub(in crate::openai) fn messages(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    let messages: Vec<Message> = fields.require("messages")?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "must hold at least one message"));
    }
    Ok(messages)
}

fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let is_text = |value: &Value| value["type"] == "text";
    fields.refuse_unless("response_format", is_text)?;
    fields.refuse_unless("modalities", |value| *value == serde_json::json!(["text"]))?;
    fields.refuse_unless("functions", |value| value.as_array().is_some_and(Vec::is_empty))?;
    fields.refuse_unless("function_call", |value| value == "none")?;
    fields.refuse_unless("parallel_tool_calls", |value| *value == Value::Bool(true))?;
    fields.refuse_unless("add_generation_prompt", |value| *value == Value::Bool(true))?;
    fields.refuse_unless("continue_final_message", |value| *value == Value::Bool(false))?;
    let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    fields.refuse_unless("chat_template_kwargs", is_empty)?;
    for name in
        ["audio", "prediction", "reasoning_effort", "verbosity", "web_search_options", "moderation"]
    {
        fields.refuse_unless(name, |_| false)?;
    }
    Ok(())
}

fn tools(fields: &mut Fields) -> Result<Vec<ToolSpec>, ApiError> {
    let tools: Vec<ToolSpec> = fields.take("tools")?.unwrap_or_default();
    let nameless = tools.iter().position(|tool| tool.name.is_empty());
    if let Some(index) = nameless {
        let param = format!("tools[{index}].function.name");
        return Err(ApiError::invalid(param, "must not be empty"));
    }
    match fields.take::<Value>("tool_choice")? {
        None => Ok(tools),
        Some(choice) if choice == "auto" => Ok(tools),
        // The model that is not to call tools is not told of them.
        Some(choice) if choice == "none" => Ok(Vec::new()),
        Some(_) => Err(ApiError::unsupported(
            "tool_choice",
            "may be `auto` or `none`: a call can't be forced, since tokens are never constrained",
        )),
    }
}

fn log_probs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.take::<bool>("logprobs")?.unwrap_or(false);
    let top = fields.take::<usize>("top_logprobs")?;
    match (wanted, top) {
        (false, Some(1..)) => {
            Err(ApiError::invalid("top_logprobs", "is for requests with `logprobs: true` only"))
        }
        (false, Some(0) | None) => Ok(None),
        (true, top) => match top.unwrap_or(0) {
            top if top <= MAX_TOP_LOG_PROBS => Ok(Some(top)),
            _ => {
                let problem = format_args!("must be from 0 to {MAX_TOP_LOG_PROBS}");
                Err(ApiError::invalid("top_logprobs", problem))
            }
        },
    }
}

fn max_new_tokens(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let new_name = ask::max_new_tokens(fields, "max_completion_tokens", 1)?;
    let old_name = ask::max_new_tokens(fields, "max_tokens", 1)?;
    match (new_name, old_name) {
        (Some(new), Some(old)) if new != old => {
            let problem = "says something else than `max_completion_tokens`; send one of them";
            Err(ApiError::invalid("max_tokens", problem))
        }
        (new_name, old_name) => Ok(new_name.or(old_name)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::openai::error::Code;

    fn read(more: &Value) -> Result<ChatRequest, ApiError> {
        let mut body = json!({"messages": [{"role": "user", "content": "Hello"}]});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        ChatRequest::read(body.to_string().as_bytes())
    }

    #[test]
    fn a_model_that_may_not_call_is_not_told_of_tools() {
        let tools = json!([{"type": "function", "function": {"name": "f", "strict": true}}]);
        assert_eq!(read(&json!({"tools": tools})).unwrap().tools.len(), 1);
        let none = read(&json!({"tools": tools, "tool_choice": "none"})).unwrap();
        assert_eq!(none.tools.len(), 0);
    }

    #[test]
    fn either_name_of_the_bound_is_read() {
        for name in ["max_tokens", "max_completion_tokens"] {
            let mut body = json!({});
            body[name] = json!(7);
            assert_eq!(read(&body).unwrap().ask.max_new_tokens, Some(7));
        }
    }

    #[test]
    fn neutral_values_are_accepted() {
        read(&json!({
            "response_format": {"type": "text"}, "modalities": ["text"], "audio": null,
            "parallel_tool_calls": true, "tool_choice": "auto", "top_logprobs": 0, "functions": []
        }))
        .unwrap();
    }

    #[test]
    fn what_would_change_the_answer_is_refused_by_name() {
        let required = json!("required");
        let named = json!({"type": "function", "function": {"name": "f"}});
        for (name, value, code) in [
            ("response_format", json!({"type": "json_object"}), Code::Unsupported),
            ("modalities", json!(["text", "audio"]), Code::Unsupported),
            ("audio", json!({"voice": "x", "format": "wav"}), Code::Unsupported),
            ("tool_choice", required, Code::Unsupported),
            ("tool_choice", named, Code::Unsupported),
            ("parallel_tool_calls", json!(false), Code::Unsupported),
            ("reasoning_effort", json!("high"), Code::Unsupported),
            ("top_logprobs", json!(3), Code::InvalidValue),
            ("messages", json!([]), Code::InvalidValue),
            ("max_tokens", json!(0), Code::InvalidValue),
        ] {
            let mut body = json!({});
            body[name] = value;
            let error = read(&body).unwrap_err();
            assert_eq!((error.param.as_deref(), error.code), (Some(name), code));
        }
    }

    #[test]
    fn an_image_is_refused_where_it_stands() {
        let image = json!([{"type": "image_url", "image_url": {"url": "data:"}}]);
        let error = read(&json!({"messages": [{"role": "user", "content": image}]})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[0].content"));
        assert!(error.message.contains("image_url"), "{}", error.message);
    }
}
