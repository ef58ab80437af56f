//! A continuation while its tokens come: text and the columns of log-probabilities.
//!
//! Invariant: what is told piece by piece, put together, is the whole; offsets count the characters
//! of the whole text, an echoed prompt included.

use std::sync::Arc;

use indexmap::IndexMap;
use rocstar_record::draw::Key;

use super::answer::{Choice, LogProbs};
use crate::generation::{PromptToken, SampledToken};
use crate::openai::choice::{Step, finish_reason};
use crate::openai::extension::{ChoiceNotes, Versions};
use crate::openai::text::ModelText;
use crate::request::TokenText as _;

/// What goes back beside the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) echo: bool,
    pub(super) log_probs: bool,
    pub(super) tokens: bool,
}

/// One choice, being put together.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) index: u32,
    pub(super) key: Key,
    pub(super) wanted: Wanted,
    pub(super) text: Arc<ModelText>,
    pub(super) stop_strings: Vec<String>,
    /// The prompt, for clients that want token ids.
    pub(super) prompt_tokens: Vec<u32>,
    /// The prompt's text, for an echo.
    pub(super) prompt_text: String,
    pub(super) columns: Columns,
    pub(super) versions: Versions,
}

/// Where the next token's text begins.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Bytes of the text of all tokens so far: a character counts where its last byte is.
    bytes: Vec<u8>,
    /// Characters before `bytes`.
    characters: usize,
}

impl Writer {
    /// What comes before the first token: the echo and the prompt's ids.
    pub(super) fn opening(&mut self) -> Option<Choice> {
        let mut piece = self.empty();
        if self.wanted.tokens {
            piece.prompt_token_ids = Some(std::mem::take(&mut self.prompt_tokens));
        }
        if self.wanted.echo {
            piece.text = std::mem::take(&mut self.prompt_text);
        }
        let says_something = piece.prompt_token_ids.is_some() || !piece.text.is_empty();
        says_something.then_some(piece)
    }

    /// What a step adds; `None` where there is nothing to tell yet.
    pub(super) fn push(&mut self, step: Step) -> Option<Choice> {
        let mut piece = self.empty();
        let mut notes = ChoiceNotes::default();
        match step {
            Step::Prompt(prompt) => {
                if self.wanted.echo && self.wanted.log_probs && !prompt.is_empty() {
                    piece.logprobs = Some(self.prompt_log_probs(prompt));
                }
            }
            Step::Token(token, text) => {
                self.versions.add(token.version);
                piece.text = text;
                if self.wanted.log_probs || self.wanted.tokens {
                    notes.add_log_probs(&token);
                }
                if self.wanted.tokens {
                    piece.token_ids = Some(vec![token.token]);
                }
                if self.wanted.log_probs {
                    piece.logprobs = Some(self.token_log_probs(token));
                }
            }
            Step::Finished(finished, rest) => {
                piece.text = rest;
                piece.finish_reason = Some(finish_reason(&finished.reason));
                notes.end(self.key, &self.versions, &finished.reason, &self.stop_strings);
            }
        }
        piece.rocstar = (!notes.is_empty()).then_some(notes);
        let says_nothing = piece.text.is_empty()
            && piece.logprobs.is_none()
            && piece.token_ids.is_none()
            && piece.rocstar.is_none()
            && piece.finish_reason.is_none();
        (!says_nothing).then_some(piece)
    }

    fn empty(&self) -> Choice {
        Choice {
            index: self.index,
            text: String::new(),
            logprobs: None,
            finish_reason: None,
            prompt_token_ids: None,
            token_ids: None,
            rocstar: None,
        }
    }

    fn prompt_log_probs(&mut self, prompt: Vec<PromptToken>) -> LogProbs {
        let mut all = LogProbs::default();
        for PromptToken { token, model_log_prob, top, .. } in prompt {
            // Nothing precedes the first token, so nothing is known of its place.
            let top = model_log_prob.is_some().then_some(top);
            self.add_row(&mut all, token, model_log_prob, top);
        }
        all
    }

    fn token_log_probs(&mut self, token: SampledToken) -> LogProbs {
        let SampledToken { token, model_log_prob, top, .. } = token;
        let mut row = LogProbs::default();
        self.add_row(&mut row, token, Some(model_log_prob), Some(top));
        row
    }

    fn add_row(
        &mut self,
        rows: &mut LogProbs,
        token: u32,
        log_prob: Option<f32>,
        top: Option<Vec<(u32, f32)>>,
    ) {
        let named = |tokens: Vec<(u32, f32)>| {
            let names = tokens.into_iter().map(|(id, log_prob)| (self.text.alone(id).0, log_prob));
            // Two parts of characters may show alike; the likelier one comes first and stays.
            names.rev().collect::<IndexMap<_, _>>().into_iter().rev().collect()
        };
        rows.tokens.push(self.text.alone(token).0);
        rows.token_logprobs.push(log_prob);
        rows.top_logprobs.push(top.map(named));
        rows.text_offset.push(self.columns.characters);
        self.text.append(token, &mut self.columns.bytes);
        self.columns.settle();
    }
}

impl Columns {
    /// Counts the characters that are complete.
    fn settle(&mut self) {
        let mut used = 0;
        for chunk in self.bytes.utf8_chunks() {
            self.characters += chunk.valid().chars().count();
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            let may_go_on = std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if used + invalid.len() == self.bytes.len() && may_go_on {
                break;
            }
            self.characters += usize::from(!invalid.is_empty());
            used += invalid.len();
        }
        self.bytes.drain(..used);
    }
}

/// A whole choice, from all its pieces.
pub(super) fn whole(pieces: impl IntoIterator<Item = Choice>, index: u32) -> Choice {
    let mut choice = Choice {
        index,
        text: String::new(),
        logprobs: None,
        finish_reason: None,
        prompt_token_ids: None,
        token_ids: None,
        rocstar: None,
    };
    for piece in pieces {
        choice.text.push_str(&piece.text);
        if let Some(new) = piece.logprobs {
            let all = choice.logprobs.get_or_insert_default();
            all.tokens.extend(new.tokens);
            all.token_logprobs.extend(new.token_logprobs);
            all.top_logprobs.extend(new.top_logprobs);
            all.text_offset.extend(new.text_offset);
        }
        if let Some(new) = piece.token_ids {
            choice.token_ids.get_or_insert_default().extend(new);
        }
        if let Some(new) = piece.rocstar {
            choice.rocstar.get_or_insert_default().extend(new);
        }
        choice.prompt_token_ids = piece.prompt_token_ids.or(choice.prompt_token_ids);
        choice.finish_reason = piece.finish_reason.or(choice.finish_reason);
    }
    choice
}
