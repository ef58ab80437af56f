//! `/v1/chat/completions`, by the script.
//!
//! A token is four characters of text, or of a call's arguments; a name is one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::script::{Question, Reply};
use crate::server::{App, refuse_length};

const TOKEN_CHARS: usize = 4;

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Reasoning(String),
    Text(String),
    Name(usize, String),
    Arguments(usize, String),
}

pub(crate) async fn complete(State(app): State<Arc<App>>, Json(body): Json<Value>) -> Response {
    let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
    let tools = list("tools");
    let names = tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
    let question = Question {
        messages: list("messages"),
        tools: names.map(str::to_owned).collect(),
        seed: body["seed"].as_u64().unwrap_or(0),
        body: body.clone(),
    };
    let answering = app.admit(question.seed, body.clone()).await;
    if let Some(refusal) = answering.refusal().await {
        return refusal;
    }
    let texts = question.messages.iter().filter_map(|message| message["content"].as_str());
    let prompt_chars: usize = texts.map(|text| text.chars().count()).sum();
    let prompt_tokens = prompt_chars.div_ceil(TOKEN_CHARS);
    let asked = body["max_tokens"].as_u64().or_else(|| body["max_completion_tokens"].as_u64());
    let bound = app.behaviour.context.bound(prompt_tokens, asked.map(|asked| asked as usize));
    let limit = match (bound, answering.fault) {
        (Err(message), _) => return refuse_length(&message),
        (Ok(_), Some(Fault::IgnoresLimit | Fault::NeverStops)) => usize::MAX,
        (Ok(most), _) => most,
    };
    let mut reply = (app.behaviour.script.0)(&question);
    if answering.fault == Some(Fault::FalseEnd) {
        reply.calls.clear();
    }
    let all = pieces(&reply);
    let is_cut = all.len() > limit;
    let written: Vec<Piece> = all.into_iter().take(limit).collect();
    let reason = match (answering.fault, is_cut, reply.calls.is_empty()) {
        (Some(Fault::Aborted), ..) => "abort",
        (Some(Fault::FalseEnd), ..) => "tool_calls",
        (_, true, _) => "length",
        (_, false, true) => "stop",
        (_, false, false) => "tool_calls",
    };
    let usage = app.behaviour.tells_usage.then(|| {
        if let Some(Fault::Usage(tokens)) = answering.fault {
            return json!({"prompt_tokens": tokens, "completion_tokens": tokens});
        }
        json!({"prompt_tokens": prompt_tokens, "completion_tokens": written.len(),
               "total_tokens": prompt_tokens + written.len()})
    });
    let is_endless = answering.fault == Some(Fault::NeverStops);
    if body["stream"] != true {
        if is_endless {
            return std::future::pending().await;
        }
        return answering.whole(&whole(&app.behaviour.model, &written, reason, usage));
    }
    let model = app.behaviour.model.clone();
    let opening = piece(&model, &json!({"role": "assistant", "content": ""}), None);
    let texts: Vec<String> =
        written.iter().map(|token| piece(&model, &delta(token), None)).collect();
    if is_endless {
        let again = piece(&model, &json!({"content": "more"}), None);
        let endless =
            stream::iter([opening]).chain(stream::iter(texts)).chain(stream::repeat(again));
        let endless = endless.then(async |text| {
            tokio::task::yield_now().await;
            text
        });
        return answering.streamed(endless);
    }
    let mut rest = vec![piece(&model, &json!({}), Some(reason))];
    rest.extend(
        usage.map(|usage| json!({"model": model, "choices": [], "usage": usage}).to_string()),
    );
    rest.push("[DONE]".to_owned());
    answering.streamed(stream::iter([opening]).chain(stream::iter(texts)).chain(stream::iter(rest)))
}

fn pieces(reply: &Reply) -> Vec<Piece> {
    let chunks = |text: &str| {
        let chars: Vec<char> = text.chars().collect();
        let chunks = chars.chunks(TOKEN_CHARS);
        chunks.map(|chunk| chunk.iter().collect::<String>()).collect::<Vec<_>>()
    };
    let mut pieces: Vec<Piece> =
        chunks(&reply.reasoning).into_iter().map(Piece::Reasoning).collect();
    pieces.extend(chunks(&reply.text).into_iter().map(Piece::Text));
    for (index, call) in reply.calls.iter().enumerate() {
        pieces.push(Piece::Name(index, call.name.clone()));
        let arguments = chunks(&call.arguments).into_iter();
        pieces.extend(arguments.map(|chunk| Piece::Arguments(index, chunk)));
    }
    pieces
}

fn piece(model: &str, delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    json!({"object": "chat.completion.chunk", "model": model, "choices": [choice]}).to_string()
}

fn delta(piece: &Piece) -> Value {
    match piece {
        Piece::Reasoning(text) => json!({"reasoning_content": text}),
        Piece::Text(text) => json!({"content": text}),
        Piece::Name(index, name) => {
            let function = json!({"name": name, "arguments": ""});
            json!({"tool_calls": [{"index": index, "id": format!("call_{index}"),
                                   "type": "function", "function": function}]})
        }
        Piece::Arguments(index, text) => {
            json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        }
    }
}

fn whole(model: &str, pieces: &[Piece], reason: &str, usage: Option<Value>) -> Value {
    let (mut reasoning, mut content) = (String::new(), String::new());
    let mut calls: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Reasoning(text) => reasoning += text,
            Piece::Text(text) => content += text,
            Piece::Name(_, name) => calls.push((name.clone(), String::new())),
            Piece::Arguments(_, text) => {
                if let Some(last) = calls.last_mut() {
                    last.1 += text;
                }
            }
        }
    }
    let mut message = json!({"role": "assistant", "content": content});
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        let call = |(index, (name, arguments)): (usize, (String, String))| {
            json!({"id": format!("call_{index}"), "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        };
        message["tool_calls"] = calls.into_iter().enumerate().map(call).collect();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let mut body = json!({"object": "chat.completion", "model": model, "choices": [choice]});
    if let Some(usage) = usage {
        body["usage"] = usage;
    }
    body
}
