//! An answer of `/v1/chat/completions`, whole or streamed.
//!
//! Invariant: both ways give the same [`ChatReply`]. A streamed answer is complete with a
//! `finish_reason` and `[DONE]`, and with nothing less.

use rocstar_record::message::{Arguments, ToolCall};
use serde::Deserialize;
use serde_json::Value;

use super::super::ask::ChatEnd;
use super::{ChatReply, Events, MOST_TOKENS, Reach, WireError, server_error};

/// Largest piece of a stream, in bytes.
const MOST_EVENT_BYTES: usize = 8 << 20;
/// Most calls of one answer: a server that counts up without end is given up.
const MOST_CALLS: usize = 1024;
/// A streamed piece holds at least a token, but for a few that hold a name or a role.
const PIECES_BESIDE_TOKENS: usize = 16;

/// Reads one answer.
#[derive(Debug)]
pub struct ChatReading {
    is_streamed: bool,
    /// Of a streamed answer.
    events: Option<Events>,
    /// Of a whole one.
    body: Vec<u8>,
    most_bytes: usize,
    max_tokens: Option<usize>,
    /// Bytes so far.
    bytes: usize,
    /// Pieces with something of the model in them.
    pieces: usize,
    reply: ChatReply,
    calls: Vec<PartialCall>,
    finish_reason: Option<String>,
    ended_by: Option<String>,
    is_done: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: Option<String>,
    name: String,
    arguments: String,
}

#[derive(Debug, Deserialize)]
struct Body {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    rocstar: Option<Notes>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Written>,
}

/// Arguments are text; some servers send the object itself.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Object(serde_json::Map<String, Value>),
}

#[derive(Debug, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<usize>,
    #[serde(default)]
    completion_tokens: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
struct Notes {
    #[serde(default)]
    ended_by: Option<String>,
    #[serde(default)]
    malformed_tool_calls: Vec<Malformed>,
}

#[derive(Debug, Deserialize)]
struct Malformed {
    message: String,
}

impl ChatReading {
    /// Reads an answer that comes as events, or whole. `max_tokens` is what was asked for: a stream
    /// that goes on beyond it is cut off.
    pub fn new(is_streamed: bool, max_tokens: Option<usize>, most_bytes: usize) -> Self {
        Self {
            is_streamed,
            events: is_streamed.then(|| Events::new(MOST_EVENT_BYTES.min(most_bytes))),
            body: Vec::new(),
            most_bytes,
            max_tokens,
            bytes: 0,
            pieces: 0,
            reply: ChatReply::default(),
            calls: Vec::new(),
            finish_reason: None,
            ended_by: None,
            is_done: false,
        }
    }

    /// Takes the next bytes, and lets the model's text be heard as it comes.
    ///
    /// # Errors
    /// They are no such answer, or too many.
    pub fn push(&mut self, bytes: &[u8], hear: &mut dyn FnMut(&str)) -> Result<Reach, WireError> {
        self.bytes += bytes.len();
        if self.bytes > self.most_bytes {
            return Err(WireError::TooLong { what: "the answer", most_bytes: self.most_bytes });
        }
        let Some(mut events) = self.events.take() else {
            self.body.extend_from_slice(bytes);
            return Ok(Reach::More);
        };
        let reach = events.push(bytes, &mut |data| self.event(data, hear));
        self.events = Some(events);
        reach
    }

    /// The answer, when all bytes are here.
    ///
    /// # Errors
    /// Something is missing, or doesn't fit.
    pub fn finish(mut self) -> Result<ChatReply, WireError> {
        if self.events.is_none() {
            let body = std::mem::take(&mut self.body);
            let whole: Body =
                serde_json::from_slice(&body).map_err(|error| WireError::malformed(&error))?;
            self.take(whole, &mut |_| {})?;
            if self.finish_reason.is_none() {
                return Err(WireError::Cut { missing: "there is no `finish_reason`" });
            }
        } else if !self.reply.is_over_limit {
            if self.finish_reason.is_none() {
                return Err(WireError::Cut { missing: "no `finish_reason` came" });
            }
            if !self.is_done {
                return Err(WireError::Cut { missing: "no `[DONE]` came" });
            }
        }
        self.complete()
    }

    fn event(&mut self, data: &[u8], hear: &mut dyn FnMut(&str)) -> Result<Reach, WireError> {
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(Reach::Done);
        }
        let piece: Body =
            serde_json::from_slice(data).map_err(|error| WireError::malformed(&error))?;
        if self.take(piece, hear)? {
            self.pieces += 1;
        }
        let most = self.max_tokens.map(|most| most.saturating_add(PIECES_BESIDE_TOKENS));
        if most.is_some_and(|most| self.pieces > most) {
            self.reply.is_over_limit = true;
            return Ok(Reach::CutOff);
        }
        Ok(Reach::More)
    }

    /// Adds what is new; whether the model wrote any of it.
    fn take(&mut self, piece: Body, hear: &mut dyn FnMut(&str)) -> Result<bool, WireError> {
        if let Some(error) = piece.error.filter(|error| !error.is_null()) {
            return Err(server_error(&error));
        }
        if let Some(usage) = piece.usage {
            let counts = [usage.prompt_tokens, usage.completion_tokens];
            if let Some(wild) = counts.into_iter().flatten().find(|tokens| *tokens > MOST_TOKENS) {
                let problem = format!("its usage is {wild} tokens");
                return Err(WireError::Contradiction { problem });
            }
            self.reply.prompt_tokens = usage.prompt_tokens.or(self.reply.prompt_tokens);
            self.reply.completion_tokens = usage.completion_tokens.or(self.reply.completion_tokens);
        }
        let mut is_of_model = false;
        // One answer is asked for.
        for choice in piece.choices.into_iter().filter(|choice| choice.index == 0) {
            let notes = choice.rocstar.unwrap_or_default();
            self.ended_by = notes.ended_by.or_else(|| self.ended_by.take());
            let malformed = notes.malformed_tool_calls.into_iter();
            self.reply.malformed.extend(malformed.map(|call| call.message));
            self.finish_reason = choice.finish_reason.or_else(|| self.finish_reason.take());
            is_of_model |= self.add(choice.delta.unwrap_or_default(), hear)?;
        }
        Ok(is_of_model)
    }

    fn add(&mut self, delta: Delta, hear: &mut dyn FnMut(&str)) -> Result<bool, WireError> {
        let mut is_of_model = false;
        // A refusal is what the model answers.
        for text in delta.content.into_iter().chain(delta.refusal) {
            is_of_model |= !text.is_empty();
            if !text.is_empty() {
                hear(&text);
            }
            self.reply.text += &text;
        }
        // Servers that send both names send the same text in both.
        if let Some(text) = delta.reasoning_content.or(delta.reasoning) {
            is_of_model |= !text.is_empty();
            *self.reply.reasoning.get_or_insert_default() += &text;
        }
        for (place, call) in delta.tool_calls.unwrap_or_default().into_iter().enumerate() {
            is_of_model = true;
            // Without an index a piece with an identity begins a call, another goes on with it.
            let next = self.calls.len().saturating_sub(usize::from(call.id.is_none()));
            let usual = if self.is_streamed { next } else { place };
            let index = call.index.unwrap_or(usual);
            if index >= MOST_CALLS || index > self.calls.len() {
                let problem = format!("a call has the index {index}");
                return Err(WireError::Contradiction { problem });
            }
            if index == self.calls.len() {
                self.calls.push(PartialCall::default());
            }
            self.calls[index].add(call);
        }
        Ok(is_of_model)
    }

    fn complete(mut self) -> Result<ChatReply, WireError> {
        let calls = std::mem::take(&mut self.calls).into_iter();
        self.reply.calls = calls.map(PartialCall::complete).collect();
        let (reply, max_tokens) = (&mut self.reply, self.max_tokens.unwrap_or(usize::MAX));
        reply.is_over_limit |= reply.completion_tokens.is_some_and(|tokens| tokens > max_tokens);
        let is_short = reply.completion_tokens.is_some_and(|tokens| tokens < max_tokens);
        reply.end = match self.finish_reason.as_deref() {
            Some("stop") if reply.calls.is_empty() => ChatEnd::Stop,
            // Some servers say `stop` behind calls, too.
            Some("stop") => ChatEnd::Calls,
            Some("tool_calls" | "function_call") if reply.calls.is_empty() => {
                let problem = "it says that there are tool calls, and there are none".to_owned();
                return Err(WireError::Contradiction { problem });
            }
            Some("tool_calls" | "function_call") => ChatEnd::Calls,
            Some("length") if self.ended_by.as_deref() == Some("context") => ChatEnd::Context,
            Some("length") if self.ended_by.is_none() && self.max_tokens.is_some() && is_short => {
                ChatEnd::Context
            }
            Some("length") | None => ChatEnd::Length,
            Some(other) => return Err(WireError::ended(other)),
        };
        if self.reply.is_over_limit {
            self.reply.end = ChatEnd::Length;
        }
        if self.reply.reasoning.as_deref() == Some("") {
            self.reply.reasoning = None;
        }
        Ok(self.reply)
    }
}

impl PartialCall {
    fn add(&mut self, delta: CallDelta) {
        self.id = self.id.take().or(delta.id);
        let Some(function) = delta.function else { return };
        self.name += function.name.as_deref().unwrap_or_default();
        match function.arguments {
            Some(Written::Text(text)) => self.arguments += &text,
            Some(Written::Object(map)) => self.arguments += &Value::Object(map).to_string(),
            None => {}
        }
    }

    fn complete(self) -> ToolCall {
        let text = if self.arguments.is_empty() { "{}" } else { &self.arguments };
        ToolCall { id: self.id, name: self.name, arguments: Arguments::from_text(text) }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn streamed(pieces: &[Value], max_tokens: Option<usize>) -> Result<ChatReply, WireError> {
        let mut reading = ChatReading::new(true, max_tokens, 1 << 20);
        for piece in pieces {
            let text = piece.as_str().map_or_else(|| piece.to_string(), str::to_owned);
            if reading.push(format!("data: {text}\n\n").as_bytes(), &mut |_| {})? != Reach::More {
                break;
            }
        }
        reading.finish()
    }

    fn whole(body: &Value) -> Result<ChatReply, WireError> {
        let mut reading = ChatReading::new(false, Some(100), 1 << 20);
        reading.push(body.to_string().as_bytes(), &mut |_| {})?;
        reading.finish()
    }

    fn delta(delta: &Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn end(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    fn called() -> ChatReply {
        let arguments = Arguments::from_text(r#"{"a":1}"#);
        ChatReply {
            text: "so: ".to_owned(),
            reasoning: Some("hm".to_owned()),
            calls: vec![
                ToolCall { id: Some("c0".to_owned()), name: "f".to_owned(), arguments },
                ToolCall {
                    id: Some("c1".to_owned()),
                    name: "g".to_owned(),
                    arguments: Arguments::Text("{broken".to_owned()),
                },
            ],
            end: ChatEnd::Calls,
            prompt_tokens: Some(7),
            completion_tokens: Some(9),
            ..ChatReply::default()
        }
    }

    #[test]
    fn a_streamed_answer_is_the_whole_one() {
        let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
        let call = |index: usize, id: Value, function: Value| {
            delta(&json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
        };
        let pieces = [
            delta(&json!({"role": "assistant", "content": ""})),
            delta(&json!({"reasoning_content": "h", "reasoning": "h"})),
            delta(&json!({"reasoning_content": "m"})),
            delta(&json!({"content": "so"})),
            delta(&json!({"content": ": "})),
            call(0, json!("c0"), function("f", "")),
            call(0, json!(null), json!({"arguments": "{\"a\""})),
            call(0, json!(null), json!({"arguments": ":1}"})),
            call(1, json!("c1"), function("g", "{broken")),
            end("tool_calls"),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}),
            json!("[DONE]"),
        ];
        assert_eq!(streamed(&pieces, Some(100)), Ok(called()));
        let body = json!({
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "so: ", "reasoning": "hm", "tool_calls": [
                    {"id": "c0", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
                    {"id": "c1", "type": "function", "function": function("g", "{broken")},
                ],
            }}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 9},
        });
        assert_eq!(whole(&body), Ok(called()));
    }

    #[test]
    fn what_broke_off_is_no_answer() {
        let text = delta(&json!({"content": "a"}));
        let cut = |pieces: &[Value]| match streamed(pieces, None) {
            Err(WireError::Cut { missing }) => missing,
            other => panic!("{other:?}"),
        };
        assert_eq!(cut(&[]), "no `finish_reason` came");
        assert_eq!(cut(std::slice::from_ref(&text)), "no `finish_reason` came");
        assert_eq!(cut(&[text.clone(), json!("[DONE]")]), "no `finish_reason` came");
        assert_eq!(cut(&[text, end("stop")]), "no `[DONE]` came");
    }

    #[test]
    fn ends_are_told_apart() {
        let ended = |reason: &str, tokens: usize| {
            let usage = json!({"choices": [], "usage": {"completion_tokens": tokens}});
            streamed(&[end(reason), usage, json!("[DONE]")], Some(10)).map(|reply| reply.end)
        };
        assert_eq!(ended("stop", 3), Ok(ChatEnd::Stop));
        assert_eq!(ended("length", 10), Ok(ChatEnd::Length));
        assert_eq!(ended("length", 3), Ok(ChatEnd::Context));
        // It wrote more than it may: what it says of its end is not believed.
        assert_eq!(ended("stop", 11), Ok(ChatEnd::Length));
        let filtered = WireError::Ended { reason: "content_filter".to_owned() };
        assert_eq!(ended("content_filter", 3), Err(filtered));
        assert!(matches!(ended("tool_calls", 3), Err(WireError::Contradiction { .. })));
    }

    #[test]
    fn an_answer_without_end_is_cut_off() {
        let pieces = vec![delta(&json!({"content": "a"})); 200];
        let reply = streamed(&pieces, Some(100)).expect("cut off");
        assert!(reply.is_over_limit && reply.end == ChatEnd::Length);
        assert_eq!(reply.text.len(), 100 + PIECES_BESIDE_TOKENS + 1);
    }

    #[test]
    fn failures_within_a_stream_are_told() {
        let failed = streamed(&[json!({"error": {"message": "no memory"}})], None);
        assert_eq!(failed, Err(WireError::Server { message: "no memory".to_owned() }));
        let wild = delta(&json!({"tool_calls": [{"index": 5, "function": {"name": "f"}}]}));
        assert!(matches!(streamed(&[wild], None), Err(WireError::Contradiction { .. })));
    }

    #[test]
    fn a_usage_beyond_all_sequences_is_none() {
        let told = |name: &str, tokens: u64| {
            let usage = json!({"choices": [], "usage": {name: tokens}});
            streamed(&[end("stop"), usage, json!("[DONE]")], Some(10))
        };
        for name in ["prompt_tokens", "completion_tokens"] {
            let wild = told(name, u64::MAX);
            assert!(matches!(wild, Err(WireError::Contradiction { .. })), "{wild:?}");
        }
        assert!(told("prompt_tokens", MOST_TOKENS as u64).is_ok());
    }

    #[test]
    fn the_notes_of_rocstar_are_read() {
        let body = json!({"choices": [{"index": 0, "finish_reason": "length",
            "message": {"content": "x"},
            "rocstar": {"ended_by": "context", "malformed_tool_calls": [{"message": "m", "kind": "k"}]}}]});
        let reply = whole(&body).expect("an answer");
        assert_eq!((reply.end, reply.malformed), (ChatEnd::Context, vec!["m".to_owned()]));
    }
}
