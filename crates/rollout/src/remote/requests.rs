//! The bodies of requests, for each kind of server.

use rocstar_engine::Sampling;
use rocstar_record::draw::Key;
use rocstar_record::message::{Message, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value};

use super::ask::ChatAsk;
use super::endpoints::Endpoint;
use super::error::Fault;
use super::options::{EndpointKind, LimitField};
use crate::generator::Ask;

/// Bits of a seed that every JSON reader keeps.
const SEED_BITS: u32 = 53;
/// Tokens that are expected of an answer without bound.
const USUAL_TOKENS: usize = 4096;
/// Characters of a token, roughly; for the balance between servers only.
const TOKEN_CHARS: usize = 4;

#[derive(Debug, Serialize)]
struct Chat<'a> {
    model: &'a str,
    messages: &'a [Message],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [ToolSpec],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<usize>,
    #[serde(flatten)]
    draw: Draw,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Completion<'a> {
    model: &'a str,
    prompt: &'a [u32],
    max_tokens: usize,
    stop_token_ids: &'a [u32],
    ignore_eos: bool,
    skip_special_tokens: bool,
    return_token_ids: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<u32>,
    #[serde(flatten)]
    draw: Draw,
    stream: bool,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// How tokens are drawn. What is as usual is left out: not every server knows every name.
#[derive(Debug, Serialize)]
struct Draw {
    temperature: f32,
    top_p: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rocstar: Option<Extension>,
}

#[derive(Debug, Serialize)]
struct Extension {
    draw: DrawName,
}

#[derive(Debug, Serialize)]
struct DrawName {
    step: u32,
    task: u64,
    sample: u32,
    turn: u32,
}

#[derive(Debug, Serialize)]
struct Sglang<'a> {
    input_ids: &'a [u32],
    sampling_params: SglangSampling<'a>,
    return_logprob: bool,
    stream: bool,
}

#[derive(Debug, Serialize)]
struct SglangSampling<'a> {
    max_new_tokens: usize,
    stop_token_ids: &'a [u32],
    skip_special_tokens: bool,
    temperature: f32,
    top_p: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    sampling_seed: u64,
}

impl Draw {
    fn new(kind: EndpointKind, sampling: Sampling, key: Key) -> Self {
        let Key { seed, step, task, sample, turn, purpose: _ } = key;
        let is_rocstar = kind == EndpointKind::Rocstar;
        Self {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: (sampling.min_p > 0.0).then_some(sampling.min_p),
            seed: if is_rocstar { seed } else { drawn_seed(key) },
            rocstar: is_rocstar
                .then_some(Extension { draw: DrawName { step, task, sample, turn } }),
        }
    }
}

/// A seed for servers that know one number only: drawn from all that names the draws.
pub(super) fn drawn_seed(key: Key) -> u64 {
    key.at(0).bits() >> (u64::BITS - SEED_BITS)
}

/// The body of a chat request.
pub(super) fn chat_body(endpoint: &Endpoint, ask: &ChatAsk) -> Result<Vec<u8>, Fault> {
    let options = &endpoint.options;
    let limit = |field| ask.max_tokens.filter(|_| options.limit_field == field);
    json(&Chat {
        model: &endpoint.model,
        messages: &ask.messages,
        tools: &ask.tools,
        max_tokens: limit(LimitField::MaxTokens),
        max_completion_tokens: limit(LimitField::MaxCompletionTokens),
        draw: Draw::new(endpoint.kind, ask.sampling, ask.draw),
        stream: options.stream,
        stream_options: options.stream.then_some(StreamOptions { include_usage: true }),
        extra: &options.extra,
    })
}

/// The body for vLLM's and rocstar's `/v1/completions`: exactly the stop tokens that are asked for
/// end it.
pub(super) fn completion_body(endpoint: &Endpoint, ask: &Ask) -> Result<Vec<u8>, Fault> {
    json(&Completion {
        model: &endpoint.model,
        prompt: &ask.prompt,
        max_tokens: ask.max_new_tokens,
        stop_token_ids: &ask.stop_tokens,
        ignore_eos: true,
        skip_special_tokens: false,
        return_token_ids: true,
        // vLLM: the sampled token's own log-probability, no others. rocstar sends its two anyway.
        logprobs: (endpoint.kind == EndpointKind::Vllm).then_some(0),
        draw: Draw::new(endpoint.kind, ask.sampling, ask.draw),
        stream: endpoint.options.stream,
    })
}

/// The body for SGLang's `/generate`. `ignore_eos` would make it pass over stop tokens, too.
pub(super) fn sglang_body(ask: &Ask) -> Result<Vec<u8>, Fault> {
    let sampling = ask.sampling;
    json(&Sglang {
        input_ids: &ask.prompt,
        sampling_params: SglangSampling {
            max_new_tokens: ask.max_new_tokens,
            stop_token_ids: &ask.stop_tokens,
            skip_special_tokens: false,
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: (sampling.min_p > 0.0).then_some(sampling.min_p),
            sampling_seed: drawn_seed(ask.draw),
        },
        return_logprob: true,
        stream: false,
    })
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(body).map_err(|error| Fault::Refused {
        status: 0,
        code: None,
        message: format!("the request can't be written: {error}"),
    })
}

/// About how many tokens a question and its answer take.
pub(super) fn expected_tokens(ask: &ChatAsk) -> usize {
    let chars: usize = ask.messages.iter().map(|message| message.content.len()).sum();
    (chars / TOKEN_CHARS).saturating_add(ask.max_tokens.unwrap_or(USUAL_TOKENS))
}
