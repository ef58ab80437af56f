//! An assistant's message while its text comes: content, tool calls, log-probabilities.
//!
//! Invariant: what is told piece by piece, put together, is the whole message. A call that can't be
//! read stays text of the content, and is marked; nothing is repaired. White space before a call, and
//! behind the last, is no content: templates put their own there.

use std::sync::Arc;

use rocstar_chat::calls::{CallFormat, CallParser, Event, ParsedCall};
use rocstar_record::draw::Key;

use super::answer::{
    Alternative, AssistantMessage, AssistantRole, CallAnswer, Choice, ChunkChoice, Delta,
    FunctionAnswer, LogProbs, TokenLogProb,
};
use crate::generation::SampledToken;
use crate::openai::choice::{Step, finish_reason};
use crate::openai::extension::{ChoiceNotes, Versions};
use crate::openai::text::ModelText;

/// What goes back beside the message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) log_probs: bool,
    pub(super) tokens: bool,
}

/// One choice, being put together.
#[derive(Debug)]
pub(super) struct Writer {
    index: u32,
    key: Key,
    wanted: Wanted,
    text: Arc<ModelText>,
    stop_strings: Vec<String>,
    parser: Option<CallParser>,
    /// All text so far, for the spans of failed calls; empty without a parser.
    whole: String,
    /// White space that is content only if more content follows.
    space: String,
    calls: usize,
    versions: Versions,
}

impl Writer {
    /// An empty message. Calls are looked for where `format` is given.
    pub(super) fn new(
        index: u32,
        key: Key,
        wanted: Wanted,
        text: Arc<ModelText>,
        stop_strings: Vec<String>,
        format: Option<&CallFormat>,
    ) -> Self {
        let parser = format.map(CallFormat::parser);
        let (whole, space, versions) = Default::default();
        Self { index, key, wanted, text, stop_strings, parser, whole, space, calls: 0, versions }
    }

    /// What comes before the first token.
    pub(super) fn opening(&self) -> ChunkChoice {
        let role = Some(AssistantRole::Assistant);
        let delta = Delta { role, content: Some(String::new()), ..Delta::default() };
        ChunkChoice { delta, ..self.empty() }
    }

    /// What a step adds; `None` where there is nothing to tell yet.
    pub(super) fn push(&mut self, step: Step) -> Option<ChunkChoice> {
        let mut piece = self.empty();
        let mut notes = ChoiceNotes::default();
        match step {
            Step::Prompt(_) => {}
            Step::Token(token, text) => {
                self.versions.add(token.version);
                self.add_text(&text, &mut piece.delta, &mut notes);
                if self.wanted.log_probs || self.wanted.tokens {
                    notes.add_log_probs(&token);
                }
                self.add_token(token, &mut piece);
            }
            Step::Finished(finished, rest) => {
                self.add_text(&rest, &mut piece.delta, &mut notes);
                self.end_text(&mut piece.delta, &mut notes);
                let reason = finish_reason(&finished.reason);
                let calls = reason == "stop" && self.calls > 0;
                piece.finish_reason = Some(if calls { "tool_calls" } else { reason });
                notes.end(self.key, &self.versions, &finished.reason, &self.stop_strings);
            }
        }
        piece.rocstar = (!notes.is_empty()).then_some(notes);
        let says_nothing = piece.delta.content.is_none()
            && piece.delta.tool_calls.is_empty()
            && piece.logprobs.is_none()
            && piece.token_ids.is_none()
            && piece.rocstar.is_none()
            && piece.finish_reason.is_none();
        (!says_nothing).then_some(piece)
    }

    fn empty(&self) -> ChunkChoice {
        ChunkChoice {
            index: self.index,
            delta: Delta::default(),
            logprobs: None,
            finish_reason: None,
            token_ids: None,
            rocstar: None,
        }
    }

    fn add_token(&self, token: SampledToken, piece: &mut ChunkChoice) {
        if self.wanted.tokens {
            piece.token_ids = Some(vec![token.token]);
        }
        if self.wanted.log_probs {
            let alternative = |(id, logprob): (u32, f32)| {
                let (token, bytes) = self.text.alone(id);
                Alternative { token, logprob, bytes }
            };
            let content = vec![TokenLogProb {
                token: alternative((token.token, token.model_log_prob)),
                top_logprobs: token.top.into_iter().map(alternative).collect(),
            }];
            piece.logprobs = Some(LogProbs { content, refusal: None });
        }
    }

    fn add_text(&mut self, text: &str, delta: &mut Delta, notes: &mut ChoiceNotes) {
        let Some(parser) = &mut self.parser else {
            if !text.is_empty() {
                delta.content.get_or_insert_default().push_str(text);
            }
            return;
        };
        self.whole.push_str(text);
        let events = parser.push(text);
        self.add_events(events, delta, notes);
    }

    fn end_text(&mut self, delta: &mut Delta, notes: &mut ChoiceNotes) {
        if let Some(parser) = self.parser.take() {
            self.add_events(parser.finish(), delta, notes);
        }
        if self.calls == 0 && !self.space.is_empty() {
            let space = std::mem::take(&mut self.space);
            delta.content.get_or_insert_default().push_str(&space);
        }
    }

    fn add_events(&mut self, events: Vec<Event>, delta: &mut Delta, notes: &mut ChoiceNotes) {
        for event in events {
            match event {
                Event::Text(text) => self.add_content(&text, delta),
                Event::Call(ParsedCall { call, .. }) => {
                    self.space.clear();
                    let arguments = call.arguments.to_text();
                    delta.tool_calls.push(CallAnswer {
                        index: Some(self.calls),
                        id: format!("call_{}", uuid::Uuid::new_v4().simple()),
                        kind: "function",
                        function: FunctionAnswer { name: call.name, arguments },
                    });
                    self.calls += 1;
                }
                Event::Failed(failure) => {
                    notes.add_malformed(&failure);
                    let text = self.whole.get(failure.span).unwrap_or_default().to_owned();
                    self.add_content(&text, delta);
                }
            }
        }
    }

    /// Text goes out up to its last word; the white space behind waits for what follows.
    fn add_content(&mut self, text: &str, delta: &mut Delta) {
        let words = text.trim_end();
        if !words.is_empty() {
            let space = std::mem::take(&mut self.space);
            let content = delta.content.get_or_insert_default();
            content.push_str(&space);
            content.push_str(words);
        }
        self.space.push_str(&text[words.len()..]);
    }
}

/// A whole choice, from all its pieces.
pub(super) fn whole(pieces: impl IntoIterator<Item = ChunkChoice>, index: u32) -> Choice {
    let mut choice = Choice {
        index,
        message: AssistantMessage::default(),
        logprobs: None,
        finish_reason: "length",
        token_ids: None,
        rocstar: ChoiceNotes::default(),
    };
    for piece in pieces {
        let ChunkChoice { delta, logprobs, finish_reason, token_ids, rocstar, .. } = piece;
        if let Some(text) = delta.content {
            choice.message.content.get_or_insert_default().push_str(&text);
        }
        let calls = delta.tool_calls.into_iter();
        choice.message.tool_calls.extend(calls.map(|call| CallAnswer { index: None, ..call }));
        if let Some(new) = logprobs {
            choice.logprobs.get_or_insert_default().content.extend(new.content);
        }
        if let Some(new) = token_ids {
            choice.token_ids.get_or_insert_default().extend(new);
        }
        choice.rocstar.extend(rocstar.unwrap_or_default());
        choice.finish_reason = finish_reason.unwrap_or(choice.finish_reason);
    }
    let message = &mut choice.message;
    if message.tool_calls.is_empty() {
        message.content.get_or_insert_default();
    } else if message.content.as_deref() == Some("") {
        message.content = None;
    }
    choice
}
