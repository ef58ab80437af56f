//! The token interfaces of vLLM and SGLang, by the script.
//!
//! The log-probability of the token `t` at the place `i` of an answer is `-(t mod 7 + 1) / 8 - i / 64`,
//! which a float holds exactly.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::script::TokenQuestion;
use crate::server::{Answering, App, refuse_length};

/// A token that nobody stops at.
const NO_STOP: u32 = 3;

fn log_prob(index: usize, token: u32) -> f64 {
    -f64::from(token % 7 + 1) / 8.0 - index as f64 / 64.0
}

/// An answer in tokens.
struct Written {
    tokens: Vec<u32>,
    is_stopped: bool,
}

impl Written {
    fn new(answering: &Answering, question: &TokenQuestion, stops: &Value, limit: usize) -> Self {
        let app = &answering.app;
        let stops: Vec<u32> = serde_json::from_value(stops.clone()).unwrap_or_default();
        let mut tokens = (app.behaviour.token_script.0)(question);
        if let Some(at) = tokens.iter().position(|token| stops.contains(token)) {
            tokens.truncate(at + 1);
        }
        tokens.truncate(limit);
        if answering.fault == Some(Fault::FalseEnd) {
            return Self { tokens: vec![NO_STOP], is_stopped: true };
        }
        let is_stopped = tokens.last().is_some_and(|last| stops.contains(last));
        Self { tokens, is_stopped }
    }
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// Most new tokens, or the words of a refusal.
fn limit(app: &App, fault: Option<Fault>, prompt: usize, asked: &Value) -> Result<usize, String> {
    let asked = asked.as_u64().map_or(16, |limit| limit as usize);
    let bound = app.behaviour.context.bound(prompt, Some(asked))?;
    Ok(match fault {
        Some(Fault::IgnoresLimit | Fault::NeverStops) => usize::MAX,
        _ => bound,
    })
}

/// vLLM's `/v1/completions` with token ids.
pub(crate) async fn vllm(State(app): State<Arc<App>>, Json(body): Json<Value>) -> Response {
    let seed = body["seed"].as_u64().unwrap_or(0);
    let question = TokenQuestion { prompt: ids(&body["prompt"]), seed, body: body.clone() };
    let answering = app.admit(seed, body.clone()).await;
    if let Some(refusal) = answering.refusal().await {
        return refusal;
    }
    let prompt = question.prompt.len();
    let limit = match limit(&app, answering.fault, prompt, &body["max_tokens"]) {
        Ok(limit) => limit,
        Err(message) => return refuse_length(&message),
    };
    let written = Written::new(&answering, &question, &body["stop_token_ids"], limit);
    let reason = match answering.fault {
        Some(Fault::Aborted) => "abort",
        _ if written.is_stopped => "stop",
        _ => "length",
    };
    let choice = |start: usize, tokens: &[u32], reason: Option<&str>| {
        let log_probs: Vec<f64> =
            tokens.iter().enumerate().map(|(at, token)| log_prob(start + at, *token)).collect();
        json!({"index": 0, "text": "", "finish_reason": reason, "token_ids": tokens,
               "logprobs": {"tokens": [], "token_logprobs": log_probs}})
    };
    if body["stream"] != true {
        let choice = choice(0, &written.tokens, Some(reason));
        return answering.whole(&json!({"object": "text_completion", "choices": [choice]}));
    }
    let text =
        |choice: Value| json!({"object": "text_completion", "choices": [choice]}).to_string();
    let tokens = written.tokens.iter().enumerate();
    let mut pieces: Vec<String> = tokens
        .map(|(at, token)| {
            let is_last = at + 1 == written.tokens.len();
            text(choice(at, &[*token], is_last.then_some(reason)))
        })
        .collect();
    if answering.fault == Some(Fault::NeverStops) {
        let more = text(choice(0, &[1], None));
        let endless = stream::iter(pieces).chain(stream::repeat(more)).then(async |text| {
            tokio::task::yield_now().await;
            text
        });
        return answering.streamed(endless);
    }
    if pieces.is_empty() {
        pieces.push(text(choice(0, &[], Some(reason))));
    }
    pieces.push("[DONE]".to_owned());
    answering.streamed(stream::iter(pieces))
}

/// SGLang's `/generate`.
pub(crate) async fn sglang(State(app): State<Arc<App>>, Json(body): Json<Value>) -> Response {
    let sampling = &body["sampling_params"];
    let seed = sampling["sampling_seed"].as_u64().unwrap_or(0);
    let question = TokenQuestion { prompt: ids(&body["input_ids"]), seed, body: body.clone() };
    let answering = app.admit(seed, body.clone()).await;
    if let Some(refusal) = answering.refusal().await {
        return refusal;
    }
    if answering.fault == Some(Fault::NeverStops) {
        return std::future::pending().await;
    }
    let prompt = question.prompt.len();
    let limit = match limit(&app, answering.fault, prompt, &sampling["max_new_tokens"]) {
        Ok(limit) => limit,
        Err(message) => return refuse_length(&message),
    };
    let written = Written::new(&answering, &question, &sampling["stop_token_ids"], limit);
    let tokens = written.tokens.iter().enumerate();
    let log_probs: Vec<Value> =
        tokens.map(|(at, token)| json!([log_prob(at, *token), token, null])).collect();
    let finish_reason = match answering.fault {
        Some(Fault::Aborted) => json!({"type": "abort", "message": "abort"}),
        _ if written.is_stopped => json!({"type": "stop", "matched": written.tokens.last()}),
        _ => json!({"type": "length", "length": written.tokens.len()}),
    };
    let meta_info = json!({
        "id": "0", "finish_reason": finish_reason, "prompt_tokens": question.prompt.len(),
        "completion_tokens": written.tokens.len(), "weight_version": "7",
        "output_token_logprobs": log_probs,
    });
    answering.whole(&json!({"text": "", "output_ids": written.tokens, "meta_info": meta_info}))
}
