//! What must hold for any bytes that claim to be a model server's answer: an answer whose parts fit
//! each other or a fault with a reason in plain text, the same however the bytes were cut, and never
//! more of it than was asked for.
//!
//! Shared by the fuzz target `endpoint_answers` and by the replay of its corpus in an ordinary test.

use rocstar_rollout::remote::ChatReply;
use rocstar_rollout::remote::wire::{
    ChatReading, CompletionReading, GeneratedTokens, Reach, SglangReading, WireError,
};

const MOST_TOKENS: usize = 8;
const MOST_BYTES: usize = 1 << 20;

/// Panics where an answer depends on cuts, contradicts itself, or a fault has no reason.
pub(crate) fn check(data: &[u8]) {
    // The last byte says where it is cut.
    let step = usize::from(data.last().copied().unwrap_or(0) % 17) + 1;
    for is_streamed in [true, false] {
        let whole = chat(data, data.len().max(1), is_streamed);
        assert_eq!(whole, chat(data, step, is_streamed));
        told(whole.as_ref().err());
        let whole = completion(data, data.len().max(1), is_streamed);
        assert_eq!(
            bits(whole.as_ref().ok()),
            bits(completion(data, step, is_streamed).as_ref().ok())
        );
        fits(whole.as_ref().ok());
        told(whole.as_ref().err());
    }
    let mut reading = SglangReading::new(MOST_TOKENS, MOST_BYTES);
    let read = reading.push(data).and_then(|()| reading.finish());
    fits(read.as_ref().ok());
    told(read.as_ref().err());
}

fn chat(data: &[u8], step: usize, is_streamed: bool) -> Result<ChatReply, WireError> {
    let mut reading = ChatReading::new(is_streamed, Some(MOST_TOKENS), MOST_BYTES);
    let mut heard = String::new();
    for part in data.chunks(step) {
        if reading.push(part, &mut |text| heard.push_str(text))? != Reach::More {
            break;
        }
    }
    let reply = reading.finish()?;
    let counts = [reply.prompt_tokens, reply.completion_tokens];
    assert!(counts.into_iter().flatten().all(|tokens| tokens <= u32::MAX as usize));
    if is_streamed {
        assert_eq!(heard, reply.text);
    }
    Ok(reply)
}

fn completion(data: &[u8], step: usize, is_streamed: bool) -> Result<GeneratedTokens, WireError> {
    let mut reading = CompletionReading::new(is_streamed, MOST_TOKENS, MOST_BYTES);
    for part in data.chunks(step) {
        if reading.push(part)? != Reach::More {
            break;
        }
    }
    reading.finish()
}

fn told(error: Option<&WireError>) {
    let Some(error) = error else { return };
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
}

/// Floats by their bits: what isn't a number equals nothing.
fn bits(read: Option<&GeneratedTokens>) -> Option<(Vec<u32>, Vec<u32>, bool)> {
    let read = read?;
    let floats = read.log_probs.iter().chain(&read.model_log_probs).map(|it| it.to_bits());
    Some((read.tokens.clone(), floats.collect(), read.is_stopped))
}

fn fits(read: Option<&GeneratedTokens>) {
    let Some(read) = read else { return };
    let tokens = read.tokens.len();
    assert!(tokens <= MOST_TOKENS);
    for told in [&read.log_probs, &read.sampling_log_probs, &read.model_log_probs] {
        assert!(told.len() <= tokens, "{read:?}");
    }
}
