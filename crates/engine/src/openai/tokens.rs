//! `/tokenize` and `/detokenize`: what the served model's tokenizer makes of a text, a conversation,
//! or token ids.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use rocstar_chat::Show;
use rocstar_record::message::ToolSpec;
use serde_json::{Value, json};

use super::App;
use super::chat::request::messages;
use super::error::ApiError;
use super::fields::Fields;
use super::model::Model;

/// Text or messages to token ids.
pub(super) async fn tokenize(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let tokens = app.prepare(&headers, body, tokens).await?;
    let count = tokens.len();
    let most = app.model.engine.longest_tokens();
    Ok(Json(json!({"tokens": tokens, "count": count, "max_model_len": most})))
}

fn tokens(model: &Model, body: &[u8]) -> Result<Vec<u32>, ApiError> {
    let mut fields = Fields::read(body)?;
    let id: Option<String> = fields.take("model")?;
    model.require(id.as_deref())?;
    let text: Option<String> = fields.take("prompt")?;
    let add_special_tokens = fields.take("add_special_tokens")?.unwrap_or(true);
    let Some(text) = text else {
        let messages = messages(&mut fields)?;
        let tools: Vec<ToolSpec> = fields.take("tools")?.unwrap_or_default();
        fields.finish()?;
        let prompt = model.chat_prompt(&messages, &tools);
        return prompt.map_err(|problem| problem.refuse("messages"));
    };
    fields.finish()?;
    model.text_prompt(&text, add_special_tokens).map_err(|problem| problem.refuse("prompt"))
}

/// Token ids to text, control tokens shown.
pub(super) async fn detokenize(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let text = app.prepare(&headers, body, text).await?;
    Ok(Json(json!({"prompt": text})))
}

fn text(model: &Model, body: &[u8]) -> Result<String, ApiError> {
    let mut fields = Fields::read(body)?;
    let id: Option<String> = fields.take("model")?;
    model.require(id.as_deref())?;
    let tokens: Vec<u32> = fields.require("tokens")?;
    fields.finish()?;
    let unknown = tokens.iter().position(|&token| model.tokenizer.token_bytes(token).is_none());
    if let Some(index) = unknown {
        let param = format!("tokens[{index}]");
        return Err(ApiError::invalid(param, "is no token of this model"));
    }
    Ok(model.tokenizer.decode(&tokens, Show::All))
}
