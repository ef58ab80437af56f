//! `/v1/chat/completions`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::models::{random, scripted};
use crate::{CHAT, Server};

#[expect(clippy::needless_pass_by_value, reason = "callers write the fields in place")]
fn hello(more: Value) -> Value {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn add_tool() -> Value {
    json!([{"type": "function", "function": {
        "name": "add",
        "description": "Adds",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}
    }}])
}

/// The pieces put together, as OpenAI's clients do.
fn joined(pieces: &[Value], index: usize) -> Value {
    let mut content = String::new();
    let (mut calls, mut tokens, mut log_probs) = (Vec::new(), Vec::new(), Vec::new());
    let mut finish = Value::Null;
    for piece in pieces {
        for choice in piece["choices"].as_array().unwrap() {
            if choice["index"] != json!(index) {
                continue;
            }
            content += choice["delta"]["content"].as_str().unwrap_or_default();
            calls.extend(choice["delta"]["tool_calls"].as_array().into_iter().flatten().cloned());
            tokens.extend(choice["token_ids"].as_array().into_iter().flatten().cloned());
            let new = choice["logprobs"]["content"].as_array();
            log_probs.extend(new.into_iter().flatten().cloned());
            if !choice["finish_reason"].is_null() {
                assert!(finish.is_null(), "two ends");
                finish = choice["finish_reason"].clone();
            }
        }
    }
    json!({
        "content": content, "calls": calls, "tokens": tokens, "log_probs": log_probs,
        "finish": finish
    })
}

#[tokio::test]
async fn a_whole_answer_has_openais_form() {
    let server = Server::start(scripted(&["Good", " day"])).await;
    let answer = server.answer(CHAT, &hello(json!({"temperature": 0, "seed": 5}))).await;
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "tiny");
    let choice = json!({
        "index": 0,
        "message": {"role": "assistant", "content": "Good day", "refusal": null},
        "logprobs": null,
        "finish_reason": "stop",
        "rocstar": {
            "seed": 5,
            "draw": {"step": 0, "task": 0, "sample": 0, "turn": 0},
            "ended_by": "stop_token",
            "weight_versions": [{"version": 0, "tokens": 3}]
        }
    });
    assert_eq!(answer["choices"], json!([choice]));
    let usage = &answer["usage"];
    let prompt_tokens = usage["prompt_tokens"].as_u64().unwrap();
    assert!(prompt_tokens > 5);
    assert_eq!(usage["completion_tokens"], 3);
    assert_eq!(usage["total_tokens"], prompt_tokens + 3);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
}

#[tokio::test]
async fn a_second_turn_finds_the_first_in_the_cache() {
    let server = Server::start(scripted(&["Good", " day"])).await;
    let body = hello(json!({"temperature": 0}));
    let first = server.answer(CHAT, &body).await;
    let second = server.answer(CHAT, &body).await;
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached > 0 && cached < first["usage"]["prompt_tokens"].as_u64().unwrap());
}

#[tokio::test]
async fn streamed_and_whole_answers_are_the_same() {
    let server = Server::start(random()).await;
    let body = hello(json!({
        "seed": 11, "n": 3, "max_tokens": 60, "logprobs": true, "top_logprobs": 2,
        "return_token_ids": true
    }));
    let whole = server.answer(CHAT, &body).await;
    let mut streaming = body.clone();
    streaming["stream_options"] = json!({"include_usage": true});
    let pieces = server.pieces(CHAT, &streaming).await;
    assert_eq!(pieces[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(pieces[0]["prompt_token_ids"], whole["prompt_token_ids"]);
    for index in 0..3 {
        let choice = &whole["choices"][index];
        let expected = json!({
            "content": choice["message"]["content"],
            "calls": [],
            "tokens": choice["token_ids"],
            "log_probs": choice["logprobs"]["content"],
            "finish": choice["finish_reason"],
        });
        assert_eq!(joined(&pieces, index), expected);
    }
    let (last, others) = pieces.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    let counts = |usage: &Value| (usage["prompt_tokens"].clone(), usage["total_tokens"].clone());
    assert_eq!(counts(&last["usage"]), counts(&whole["usage"]));
    assert!(others.iter().all(|piece| piece["usage"].is_null()));
}

#[tokio::test]
async fn choices_differ_and_come_again_with_their_seed() {
    let server = Server::start(random()).await;
    let texts = |answer: &Value| -> Vec<Value> {
        let choices = answer["choices"].as_array().unwrap();
        choices.iter().map(|choice| choice["message"]["content"].clone()).collect()
    };
    let first = server.answer(CHAT, &hello(json!({"n": 2, "max_tokens": 20}))).await;
    let seed = first["choices"][0]["rocstar"]["seed"].clone();
    assert_ne!(texts(&first)[0], texts(&first)[1]);
    let again = hello(json!({"n": 2, "max_tokens": 20, "seed": seed}));
    assert_eq!(texts(&server.answer(CHAT, &again).await), texts(&first));
    // The second choice alone, by the name of its draws.
    let draw = first["choices"][1]["rocstar"]["draw"].clone();
    let alone = hello(json!({"max_tokens": 20, "seed": seed, "rocstar": {"draw": draw}}));
    assert_eq!(texts(&server.answer(CHAT, &alone).await), texts(&first)[1..]);
}

#[tokio::test]
async fn log_probabilities_have_their_alternatives() {
    let server = Server::start(random()).await;
    let body = hello(json!({
        "max_tokens": 4, "logprobs": true, "top_logprobs": 3, "temperature": 0.5, "seed": 2,
        "ignore_eos": true, "return_token_ids": true
    }));
    let answer = server.answer(CHAT, &body).await;
    let choice = &answer["choices"][0];
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len(), 4);
    let notes = &choice["rocstar"];
    for (index, token) in tokens.iter().enumerate() {
        let log_prob = token["logprob"].as_f64().unwrap();
        assert!(log_prob <= 0.0);
        assert_eq!(notes["model_logprobs"][index].as_f64().unwrap(), log_prob);
        // Sharpened by the temperature, so not the same.
        assert_ne!(notes["sampling_logprobs"][index].as_f64().unwrap(), log_prob);
        let top = token["top_logprobs"].as_array().unwrap();
        let top: Vec<f64> = top.iter().map(|one| one["logprob"].as_f64().unwrap()).collect();
        assert!(top.len() == 3 && top.is_sorted_by(|left, right| left >= right), "{top:?}");
        assert!(top[0] >= log_prob);
        // The embedding has rows without a token.
        assert!(token["bytes"].as_array().unwrap().len() <= 1);
    }
    assert_eq!(notes["weight_versions"], json!([{"version": 0, "tokens": 4}]));
}

#[tokio::test]
async fn a_call_is_parsed() {
    let words = [
        "I add.\n",
        "<tool_call>\n{\"name\": \"add\",",
        " \"arguments\": {\"a\": 1, \"text\": \"</tool_call>\"}}",
        "\n</tool_call>",
    ];
    let server = Server::start(scripted(&words)).await;
    let body = hello(json!({"temperature": 0, "tools": add_tool()}));
    let answer = server.answer(CHAT, &body).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "I add.");
    let call = &choice["message"]["tool_calls"][0];
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(call["type"], "function");
    assert_eq!(call["function"]["name"], "add");
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"a": 1, "text": "</tool_call>"}));

    let streamed = joined(&server.pieces(CHAT, &body).await, 0);
    assert_eq!(streamed["content"], "I add.");
    assert_eq!(streamed["finish"], "tool_calls");
    assert_eq!(streamed["calls"][0]["index"], 0);
    assert_eq!(streamed["calls"][0]["function"], call["function"]);

    // The client sends the result with the call; the model answers again.
    let id = call["id"].clone();
    let mut next = body.clone();
    next["messages"] = json!([
        {"role": "user", "content": "Hello"},
        choice["message"],
        {"role": "tool", "tool_call_id": id, "content": "3 <|im_end|>"}
    ]);
    server.answer(CHAT, &next).await;
}

#[tokio::test]
async fn several_calls_have_indices_and_ids_of_their_own() {
    let call = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
    let again = format!("\n{call}");
    let server = Server::start(scripted(&[call, &again])).await;
    let body = hello(json!({"temperature": 0, "tools": add_tool()}));
    let answer = server.answer(CHAT, &body).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let streamed = joined(&server.pieces(CHAT, &body).await, 0);
    assert_eq!(streamed["calls"][1]["index"], 1);
    assert_eq!(streamed["content"], "");
}

#[tokio::test]
async fn a_malformed_call_stays_text_and_is_marked() {
    let words = ["Now: ", "<tool_call>{\"name\": \"add\", 'arguments': {}}", "</tool_call>"];
    let server = Server::start(scripted(&words)).await;
    let body = hello(json!({"temperature": 0, "tools": add_tool()}));
    let answer = server.answer(CHAT, &body).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], words.concat());
    assert_eq!(choice["finish_reason"], "stop");
    let malformed = choice["rocstar"]["malformed_tool_calls"].as_array().unwrap();
    assert_eq!(malformed.len(), 1);
    assert_eq!(malformed[0]["start"], 5);
    assert!(malformed[0]["message"].as_str().unwrap().starts_with("Tool call could not be read"));
    assert_eq!(joined(&server.pieces(CHAT, &body).await, 0)["content"], words.concat());
}

#[tokio::test]
async fn without_tools_nothing_is_a_call() {
    let call = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
    let server = Server::start(scripted(&[call])).await;
    for more in [json!({}), json!({"tools": add_tool(), "tool_choice": "none"})] {
        let mut body = hello(more);
        body["temperature"] = json!(0);
        let choice = &server.answer(CHAT, &body).await["choices"][0];
        assert_eq!(choice["message"]["content"], call);
        assert_eq!(choice["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn a_stop_string_ends_the_text_before_it_even_across_tokens() {
    let server = Server::start(scripted(&["one tw", "o three", " four"])).await;
    for stop in [json!("two"), json!(["zzz", "two", " four"])] {
        let body = hello(json!({"temperature": 0, "stop": stop, "return_token_ids": true}));
        let answer = server.answer(CHAT, &body).await;
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["content"], "one ");
        assert_eq!(choice["finish_reason"], "stop");
        assert_eq!(choice["rocstar"]["stop_string"], "two");
        // What was sampled is told as it was.
        assert_eq!(choice["token_ids"].as_array().unwrap().len(), 2);
        assert_eq!(joined(&server.pieces(CHAT, &body).await, 0)["content"], "one ");
    }
}

#[tokio::test]
async fn ends_have_their_reasons() {
    let server = Server::start(scripted(&["one", " two", " three"])).await;
    let reason = async |more: Value| {
        let mut body = hello(more);
        body["temperature"] = json!(0);
        let answer = server.answer(CHAT, &body).await;
        let choice = &answer["choices"][0];
        (choice["finish_reason"].clone(), choice["rocstar"]["ended_by"].clone())
    };
    assert_eq!(reason(json!({})).await, (json!("stop"), json!("stop_token")));
    assert_eq!(reason(json!({"max_tokens": 2})).await, (json!("length"), json!("max_tokens")));
    let endless = json!({"ignore_eos": true, "max_completion_tokens": 100_000});
    assert_eq!(reason(endless).await, (json!("length"), json!("context")));
}

#[tokio::test]
async fn control_tokens_in_messages_are_text() {
    let server = Server::start(random()).await;
    let count = async |content: &str| {
        let body = json!({"messages": [{"role": "user", "content": content}]});
        let answer = server.answer("/tokenize", &body).await;
        let tokens = answer["tokens"].as_array().unwrap();
        tokens.iter().filter(|token| **token == json!(257)).count()
    };
    assert_eq!(count("a<|im_end|>b").await, count("ab").await);
}
