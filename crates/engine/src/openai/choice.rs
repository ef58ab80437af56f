//! One answer being generated: the engine's events with the text that they add.
//!
//! Invariant: text, tokens and end are those that the engine gave, in its order; whole and streamed
//! answers are made of the same steps.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use rocstar_record::draw::Key;
use tokio_util::sync::CancellationToken;

use super::App;
use super::ask::Ask;
use super::error::{ApiError, Code};
use super::model::Model;
use super::text::{GrowingText, ModelText};
use crate::error::Refusal;
use crate::generation::{Event, FinishReason, Finished, Generation, PromptToken, SampledToken};
use crate::request::{Request, Stop};

/// What every choice of a request needs.
#[derive(Debug)]
pub(super) struct Plan {
    /// Tokens to continue.
    pub(super) prompts: Vec<Vec<u32>>,
    /// How.
    pub(super) ask: Ask,
    /// Alternatives of each token.
    pub(super) top_log_probs: usize,
    /// The prompt's log-probabilities, too.
    pub(super) prompt_log_probs: bool,
    /// Tokens that end an answer.
    pub(super) stop_tokens: Vec<u32>,
    /// The field to blame for a prompt that is too long.
    pub(super) prompt_field: &'static str,
}

/// One choice, under way.
#[derive(Debug)]
pub(super) struct Started {
    /// Which prompt.
    pub(super) prompt: usize,
    /// Names its draws.
    pub(super) key: Key,
    /// Its tokens.
    pub(super) generation: Generation,
    /// Its text.
    pub(super) text: GrowingText,
}

/// What one event of the engine adds.
#[derive(Debug)]
pub(super) enum Step {
    /// The prompt's log-probabilities.
    Prompt(Vec<PromptToken>),
    /// A token, and the text that can be shown now.
    Token(SampledToken, String),
    /// The end, and the rest of the text.
    Finished(Finished, String),
}

impl Plan {
    /// Hands all choices to the engine: all of the first prompt, then the second's.
    ///
    /// # Errors
    /// The engine refuses one; then none runs.
    pub(super) fn start(&self, model: &Model) -> Result<Vec<Started>, ApiError> {
        let text = Arc::new(model.text(self.ask.show_special));
        let prompts = self.prompts.iter().enumerate();
        let places: Vec<(usize, &Vec<u32>, Key)> = prompts
            .flat_map(|(prompt, tokens)| {
                let keys = (0..self.ask.choices).map(move |choice| self.ask.key_of(prompt, choice));
                keys.map(move |key| (prompt, tokens, key))
            })
            .collect();
        let requests =
            places.iter().map(|(_, tokens, key)| self.request(tokens, *key, &text)).collect();
        // All at once: what their prompts share is computed once.
        let generations = model.engine.generate_together(requests);
        let generations = generations.map_err(|refusal| self.refuse(&refusal))?;
        let started = places.into_iter().zip(generations);
        let started = started.map(|((prompt, _, key), generation)| {
            let text = GrowingText::new(Arc::clone(&text), &self.ask.stop_strings);
            Started { prompt, key, generation, text }
        });
        Ok(started.collect())
    }

    fn request(&self, prompt: &[u32], key: Key, text: &Arc<ModelText>) -> Request {
        Request {
            prompt: prompt.to_vec(),
            sampling: self.ask.draw,
            stop: Stop {
                tokens: self.stop_tokens.clone(),
                strings: self.ask.stop_strings.clone(),
                text: Some(Arc::clone(text) as _),
                max_new_tokens: self.ask.max_new_tokens.unwrap_or(usize::MAX),
            },
            draw: key,
            top_log_probs: self.top_log_probs,
            prompt_log_probs: self.prompt_log_probs,
        }
    }

    fn refuse(&self, refusal: &Refusal) -> ApiError {
        let field = self.prompt_field;
        let (code, param) = match refusal {
            Refusal::PromptTooLong { .. } | Refusal::PromptOverCache { .. } => {
                (Code::ContextLengthExceeded, Some(field.to_owned()))
            }
            Refusal::PromptEmpty | Refusal::TokenOutside { .. } => {
                (Code::InvalidValue, Some(field.to_owned()))
            }
            Refusal::OutOfRange { field, .. } => (Code::InvalidValue, Some((*field).to_owned())),
            Refusal::StopEmpty { .. } => (Code::InvalidValue, Some("stop".to_owned())),
            Refusal::QueueFull { .. } => (Code::QueueFull, None),
            Refusal::TooManyTogether { .. } => (Code::InvalidValue, Some("n".to_owned())),
            // The first is ours: text is always given. The second is final.
            Refusal::StopWithoutText | Refusal::Stopped { .. } => (Code::Internal, None),
        };
        ApiError { code, message: refusal.to_string(), param }
    }
}

impl Started {
    /// All steps, once everything is generated.
    ///
    /// # Errors
    /// The engine failed, or the server was stopped meanwhile.
    pub(super) async fn whole(self, app: &App) -> Result<Vec<Step>, ApiError> {
        let Self { generation, mut text, .. } = self;
        let completion = tokio::select! {
            completion = generation.completion() => completion,
            () = app.cut_off.cancelled() => return Err(shutting_down()),
        };
        let mut steps = Vec::with_capacity(completion.tokens.len() + 2);
        steps.push(Step::Prompt(completion.prompt));
        for token in completion.tokens {
            steps.push(step(Event::Token(token), &mut text)?);
        }
        let last = step(Event::Finished(completion.finished), &mut text)?;
        if let Step::Finished(finished, _) = &last {
            app.metrics.observe(&finished.usage);
        }
        steps.push(last);
        Ok(steps)
    }

    /// The steps as they come. An error is the last item.
    pub(super) fn steps(
        self,
        app: Arc<App>,
    ) -> impl Stream<Item = Result<Step, ApiError>> + Send + 'static {
        let Self { generation, mut text, .. } = self;
        let cut_off: CancellationToken = app.cut_off.clone();
        let steps = generation.map(move |event| {
            let step = step(event, &mut text);
            if let Ok(Step::Finished(finished, _)) = &step {
                app.metrics.observe(&finished.usage);
            }
            step
        });
        let cut = futures::stream::once(async move {
            cut_off.cancelled().await;
            Err(shutting_down())
        });
        futures::stream::select(steps.map(Some).chain(end_mark()), cut.map(Some))
            .take_while(|step| std::future::ready(step.is_some()))
            .filter_map(std::future::ready)
    }
}

/// After the last step, so that waiting for the cut-off doesn't keep the stream open.
fn end_mark<T>() -> impl Stream<Item = Option<T>> {
    futures::stream::once(std::future::ready(None))
}

fn step(event: Event, text: &mut GrowingText) -> Result<Step, ApiError> {
    match event {
        Event::Prompt(prompt) => Ok(Step::Prompt(prompt)),
        Event::Token(token) => {
            let new = text.push(token.token);
            Ok(Step::Token(token, new))
        }
        Event::Finished(finished) => match &finished.reason {
            FinishReason::Cancelled => Err(shutting_down()),
            FinishReason::EngineFailed { cause } => {
                Err(ApiError::new(Code::Internal, format!("the engine failed: {cause}")))
            }
            FinishReason::StopToken(_)
            | FinishReason::StopString { .. }
            | FinishReason::Length
            | FinishReason::Context => {
                let rest = text.finish(&finished.reason);
                Ok(Step::Finished(finished, rest))
            }
        },
    }
}

/// OpenAI's word for why an answer ended.
pub(super) const fn finish_reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::StopToken(_) | FinishReason::StopString { .. } => "stop",
        FinishReason::Length
        | FinishReason::Context
        | FinishReason::Cancelled
        | FinishReason::EngineFailed { .. } => "length",
    }
}

fn shutting_down() -> ApiError {
    ApiError::new(Code::ShuttingDown, "the server is shutting down; the answer was cut off")
}
