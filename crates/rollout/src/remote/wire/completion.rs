//! An answer of `/v1/completions` with token ids: vLLM's and rocstar's, whole or streamed.
//!
//! Invariant: what comes out are the ids that the server says it sampled, with what it says of each.
//! The text is not looked at.

use serde::Deserialize;
use serde_json::Value;

use super::{Events, Reach, WireError, server_error};

const MOST_EVENT_BYTES: usize = 64 << 20;

/// Tokens that a server sampled, and what it tells of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GeneratedTokens {
    /// Their ids.
    pub tokens: Vec<u32>,
    /// The log-probability that the server's own interface has; empty where it has none.
    pub log_probs: Vec<f32>,
    /// Under the distribution that they were drawn from; rocstar only.
    pub sampling_log_probs: Vec<f32>,
    /// At temperature 1, without cuts; rocstar only.
    pub model_log_probs: Vec<f32>,
    /// Versions of the weights, with the number of tokens of each; empty where unknown.
    pub weight_versions: Vec<(u64, usize)>,
    /// It ended at a stop token; else its tokens ran out.
    pub is_stopped: bool,
    /// The context is full, as far as the server says so.
    pub is_context_full: bool,
}

/// Reads one answer.
#[derive(Debug)]
pub struct CompletionReading {
    events: Option<Events>,
    body: Vec<u8>,
    most_bytes: usize,
    max_new_tokens: usize,
    bytes: usize,
    read: GeneratedTokens,
    finish_reason: Option<String>,
    ended_by: Option<String>,
    is_done: bool,
    is_over_limit: bool,
}

#[derive(Debug, Deserialize)]
struct Body {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
    #[serde(default)]
    logprobs: Option<LogProbs>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    rocstar: Option<Notes>,
}

#[derive(Debug, Deserialize)]
struct LogProbs {
    #[serde(default)]
    token_logprobs: Vec<Option<f32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Notes {
    ended_by: Option<String>,
    weight_versions: Vec<VersionRun>,
    sampling_logprobs: Vec<f32>,
    model_logprobs: Vec<f32>,
}

#[derive(Debug, Deserialize)]
struct VersionRun {
    version: u64,
    tokens: usize,
}

impl CompletionReading {
    /// Reads an answer of at most so many tokens; what goes on beyond them is cut off.
    pub fn new(is_streamed: bool, max_new_tokens: usize, most_bytes: usize) -> Self {
        Self {
            events: is_streamed.then(|| Events::new(MOST_EVENT_BYTES.min(most_bytes))),
            body: Vec::new(),
            most_bytes,
            max_new_tokens,
            bytes: 0,
            read: GeneratedTokens::default(),
            finish_reason: None,
            ended_by: None,
            is_done: false,
            is_over_limit: false,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// They are no such answer, or too many.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError> {
        self.bytes += bytes.len();
        if self.bytes > self.most_bytes {
            return Err(WireError::TooLong { what: "the answer", most_bytes: self.most_bytes });
        }
        let Some(mut events) = self.events.take() else {
            self.body.extend_from_slice(bytes);
            return Ok(Reach::More);
        };
        let reach = events.push(bytes, &mut |data| self.event(data));
        self.events = Some(events);
        reach
    }

    /// The tokens, when all bytes are here.
    ///
    /// # Errors
    /// Something is missing, or doesn't fit.
    pub fn finish(mut self) -> Result<GeneratedTokens, WireError> {
        if self.events.is_none() {
            let body = std::mem::take(&mut self.body);
            let whole: Body =
                serde_json::from_slice(&body).map_err(|error| WireError::malformed(&error))?;
            self.take(whole)?;
        } else if !self.is_done && !self.is_over_limit {
            return Err(WireError::Cut { missing: "no `[DONE]` came" });
        }
        self.complete()
    }

    fn event(&mut self, data: &[u8]) -> Result<Reach, WireError> {
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(Reach::Done);
        }
        let piece: Body =
            serde_json::from_slice(data).map_err(|error| WireError::malformed(&error))?;
        self.take(piece)?;
        self.is_over_limit = self.read.tokens.len() > self.max_new_tokens;
        Ok(if self.is_over_limit { Reach::CutOff } else { Reach::More })
    }

    fn take(&mut self, piece: Body) -> Result<(), WireError> {
        if let Some(error) = piece.error.filter(|error| !error.is_null()) {
            return Err(server_error(&error));
        }
        for choice in piece.choices.into_iter().filter(|choice| choice.index == 0) {
            let read = &mut self.read;
            read.tokens.extend(choice.token_ids.unwrap_or_default());
            for log_prob in choice.logprobs.into_iter().flat_map(|all| all.token_logprobs) {
                let missing = || WireError::Cut { missing: "a token has no log-probability" };
                read.log_probs.push(log_prob.ok_or_else(missing)?);
            }
            let notes = choice.rocstar.unwrap_or_default();
            read.sampling_log_probs.extend(notes.sampling_logprobs);
            read.model_log_probs.extend(notes.model_logprobs);
            let runs = notes.weight_versions.into_iter();
            read.weight_versions.extend(runs.map(|run| (run.version, run.tokens)));
            self.ended_by = notes.ended_by.or_else(|| self.ended_by.take());
            self.finish_reason = choice.finish_reason.or_else(|| self.finish_reason.take());
        }
        Ok(())
    }

    fn complete(mut self) -> Result<GeneratedTokens, WireError> {
        let most = self.max_new_tokens;
        if self.read.tokens.len() > most {
            self.read.cut(most);
            return Ok(self.read);
        }
        let read = &mut self.read;
        match self.finish_reason.as_deref() {
            None => return Err(WireError::Cut { missing: "no `finish_reason` came" }),
            Some("stop") => read.is_stopped = true,
            Some("length") => {
                let says_context = self.ended_by.as_deref() == Some("context");
                read.is_context_full = says_context || read.tokens.len() < most;
            }
            Some(other) => return Err(WireError::ended(other)),
        }
        read.check()?;
        Ok(self.read)
    }
}

impl GeneratedTokens {
    /// The first `most` tokens, which ran out.
    pub(super) fn cut(&mut self, most: usize) {
        self.tokens.truncate(most);
        self.log_probs.truncate(most);
        self.sampling_log_probs.truncate(most);
        self.model_log_probs.truncate(most);
        let mut left = most;
        for (_, tokens) in &mut self.weight_versions {
            *tokens = left.min(*tokens);
            left -= *tokens;
        }
        self.weight_versions.retain(|(_, tokens)| *tokens > 0);
        self.is_stopped = false;
        self.is_context_full = false;
    }

    /// # Errors
    /// What is told of the tokens is for another number of them.
    pub(super) fn check(&self) -> Result<(), WireError> {
        let versions: usize =
            self.weight_versions.iter().fold(0, |sum, run| sum.saturating_add(run.1));
        let lengths = [
            ("log-probabilities", self.log_probs.len()),
            ("sampling log-probabilities", self.sampling_log_probs.len()),
            ("model log-probabilities", self.model_log_probs.len()),
            ("tokens by weight version", versions),
        ];
        match lengths.iter().find(|(_, length)| *length != 0 && *length != self.tokens.len()) {
            Some((name, length)) => {
                let problem = format!("{} token ids, but {length} {name}", self.tokens.len());
                Err(WireError::Contradiction { problem })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn streamed(pieces: &[Value], most: usize) -> Result<GeneratedTokens, WireError> {
        let mut reading = CompletionReading::new(true, most, 1 << 20);
        for piece in pieces {
            let text = piece.as_str().map_or_else(|| piece.to_string(), str::to_owned);
            if reading.push(format!("data: {text}\n\n").as_bytes())? != Reach::More {
                break;
            }
        }
        reading.finish()
    }

    fn piece(ids: &[u32], finish: Option<&str>) -> Value {
        let log_probs: Vec<f32> = ids.iter().map(|id| -(*id as f32)).collect();
        json!({"choices": [{"index": 0, "text": "", "token_ids": ids, "finish_reason": finish,
                            "logprobs": {"token_logprobs": log_probs, "tokens": []}}]})
    }

    #[test]
    fn tokens_are_put_together() {
        let pieces =
            [piece(&[1, 2], None), piece(&[], None), piece(&[3], Some("stop")), json!("[DONE]")];
        let read = streamed(&pieces, 8).expect("tokens");
        assert_eq!(read.tokens, [1, 2, 3]);
        assert_eq!(read.log_probs, [-1.0, -2.0, -3.0]);
        assert!(read.is_stopped);
    }

    #[test]
    fn what_goes_on_is_cut_off_and_what_breaks_off_is_none() {
        let endless = vec![piece(&[1, 2], None); 9];
        let read = streamed(&endless, 5).expect("cut off");
        assert_eq!((read.tokens.len(), read.log_probs.len(), read.is_stopped), (5, 5, false));
        let cut = streamed(&endless, 50);
        assert_eq!(cut, Err(WireError::Cut { missing: "no `[DONE]` came" }));
        let unended = streamed(&[piece(&[1], None), json!("[DONE]")], 50);
        assert_eq!(unended, Err(WireError::Cut { missing: "no `finish_reason` came" }));
    }

    #[test]
    fn fewer_tokens_than_asked_for_are_a_full_context() {
        let read = streamed(&[piece(&[1], Some("length")), json!("[DONE]")], 50).expect("tokens");
        assert!(read.is_context_full && !read.is_stopped);
        let read = streamed(&[piece(&[1], Some("length")), json!("[DONE]")], 1).expect("tokens");
        assert!(!read.is_context_full);
    }

    #[test]
    fn notes_for_another_number_of_tokens_are_refused() {
        let mut wrong = piece(&[1, 2], Some("stop"));
        wrong["choices"][0]["rocstar"] = json!({"weight_versions": [{"version": 3, "tokens": 1}]});
        let read = streamed(&[wrong, json!("[DONE]")], 50);
        assert!(matches!(read, Err(WireError::Contradiction { .. })), "{read:?}");
    }
}
