//! What one request's sequence yields: events for its caller, and when it ends.
//!
//! Invariant: a token is reported exactly once, in order, with the version of the weights that made
//! it, however often its keys and values were computed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::Job;
use crate::generation::{
    Event, FinishReason, Finished, PromptToken, SampledToken, Usage, WeightVersion,
};
use crate::mailbox::Writer;
use crate::request::{Request, TokenText};
use crate::sampler::{Outcome, Want};
use crate::stop::StopMatcher;

/// A request's side of its sequence.
#[derive(Debug)]
pub(crate) struct Output {
    writer: Writer,
    request: Request,
    matcher: Option<(StopMatcher, Arc<dyn TokenText>)>,
    /// Working memory of `matcher`.
    text: Vec<u8>,
    prompt_tokens: usize,
    new_tokens: usize,
    /// Log-probabilities of the prompt so far, where they are wanted and not told yet.
    prompt_rows: Option<Vec<PromptToken>>,
    accepted: Instant,
    started: Option<Instant>,
    first_token: Option<Instant>,
}

impl Output {
    /// For a job whose prompt, of `prompt_tokens` tokens, went to the scheduler.
    pub(crate) fn new(job: Job, prompt_tokens: usize) -> Self {
        let Job { mut request, writer, accepted } = job;
        let strings = std::mem::take(&mut request.stop.strings);
        let text = request.stop.text.take().filter(|_| !strings.is_empty());
        Self {
            writer,
            matcher: text.map(|text| (StopMatcher::new(strings), text)),
            text: Vec::new(),
            prompt_tokens,
            new_tokens: 0,
            prompt_rows: request.prompt_log_probs.then(Vec::new),
            accepted,
            started: None,
            first_token: None,
            request,
        }
    }

    pub(crate) const fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    pub(crate) const fn top(&self) -> usize {
        self.request.top_log_probs
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.writer.is_cancelled()
    }

    /// It runs; true the first time.
    pub(crate) fn note_start(&mut self, now: Instant) -> bool {
        let first = self.started.is_none();
        self.started.get_or_insert(now);
        first
    }

    /// What is wanted of the logits that say which token has this index; `known` if it is there.
    pub(crate) fn wanted(&self, index: usize, known: Option<u32>) -> Option<Want> {
        let Some(token) = known else {
            let (sampling, key) = (self.request.sampling, self.request.draw);
            return Some(Want::Draw { sampling, key, position: index as u64 });
        };
        // After a pre-emption, rows that were reported come again.
        let rows = self.prompt_rows.as_ref()?;
        (index > rows.len().saturating_sub(1)).then_some(Want::Given { token })
    }

    /// The log-probability of the next token of the prompt.
    pub(crate) fn take_prompt_row(
        &mut self,
        first_token: u32,
        outcome: Outcome,
        version: WeightVersion,
    ) {
        let Some(rows) = &mut self.prompt_rows else {
            return;
        };
        if rows.is_empty() {
            let (model_log_prob, top) = (None, Vec::new());
            rows.push(PromptToken { token: first_token, model_log_prob, top, version });
        }
        let Outcome { token, model_log_prob, top, .. } = outcome;
        rows.push(PromptToken { token, model_log_prob: Some(model_log_prob), top, version });
    }

    /// The prompt's log-probabilities are complete, where they were wanted.
    pub(crate) fn tell_prompt(&mut self, first_token: u32, version: WeightVersion) {
        if let Some(mut rows) = self.prompt_rows.take() {
            if rows.is_empty() {
                let (model_log_prob, top) = (None, Vec::new());
                rows.push(PromptToken { token: first_token, model_log_prob, top, version });
            }
            self.writer.push([Event::Prompt(rows)]);
        }
    }

    /// No token is to be sampled: only the prompt's log-probabilities were wanted.
    pub(crate) const fn wants_no_token(&self) -> bool {
        self.request.stop.max_new_tokens == 0
    }

    /// A token was sampled; how that ends the generation, if it does. `full`: there is no room for
    /// another.
    pub(crate) fn take_token(
        &mut self,
        outcome: Outcome,
        version: WeightVersion,
        now: Instant,
        full: bool,
    ) -> Option<FinishReason> {
        let Outcome { token, log_prob, model_log_prob, top } = outcome;
        self.new_tokens += 1;
        self.first_token.get_or_insert(now);
        let sampled = SampledToken { token, log_prob, model_log_prob, version, top };
        self.writer.push([Event::Token(sampled)]);
        self.stop(token, full)
    }

    fn stop(&mut self, token: u32, full: bool) -> Option<FinishReason> {
        if self.request.stop.tokens.contains(&token) {
            return Some(FinishReason::StopToken(token));
        }
        if let Some((matcher, text)) = &mut self.matcher {
            self.text.clear();
            text.append(token, &mut self.text);
            if let Some(found) = matcher.push(&self.text) {
                let (index, text_bytes) = (found.index, found.text_bytes);
                return Some(FinishReason::StopString { index, text_bytes });
            }
        }
        if self.new_tokens >= self.request.stop.max_new_tokens {
            return Some(FinishReason::Length);
        }
        full.then_some(FinishReason::Context)
    }

    /// Leaves the end.
    pub(crate) fn finish(
        mut self,
        reason: FinishReason,
        cached_tokens: usize,
        pre_emptions: usize,
    ) {
        let since = |instant: Option<Instant>| {
            instant.map_or(Duration::ZERO, |instant| instant.duration_since(self.accepted))
        };
        let total = self.accepted.elapsed();
        let usage = Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens,
            new_tokens: self.new_tokens,
            pre_emptions,
            waited: self.started.map_or(total, |started| started.duration_since(self.accepted)),
            first_token: since(self.first_token),
            total,
        };
        self.writer.push([Event::Finished(Finished { reason, usage })]);
    }
}
