//! `/v1/completions`: text or token ids in, their continuation out, as text and as token ids.
//!
//! This is the interface for rollouts: with `return_token_ids` nothing needs to be encoded again.

mod answer;
mod continuation;
pub(super) mod request;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures::{Stream, StreamExt as _};

use super::App;
use super::ask::Answer;
use super::choice::{Plan, Started, Step};
use super::error::ApiError;
use super::extension::Versions;
use super::head::Head;
use super::model::Model;
use super::sse;
use super::usage::UsageAnswer;
use answer::{Choice, Completion};
use continuation::{Columns, Wanted, Writer, whole};
use request::{CompletionRequest, Prompts};

/// Continues prompts.
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let completions = app.prepare(&headers, body, Completions::plan).await?;
    let started = completions.plan.start(&app.model)?;
    match completions.plan.ask.answer {
        Answer::Whole => answer_whole(&app, &completions, started).await,
        Answer::Stream { include_usage } => {
            Ok(sse::respond(answer_stream(&app, &completions, started, include_usage)))
        }
    }
}

/// What is to be done.
#[derive(Debug)]
struct Completions {
    plan: Plan,
    wanted: Wanted,
    /// The text of each prompt, where it is to be echoed.
    texts: Vec<String>,
}

impl Completions {
    fn plan(model: &Model, body: &[u8]) -> Result<Self, ApiError> {
        let request = CompletionRequest::read(body)?;
        model.require(request.model.as_deref())?;
        let CompletionRequest { prompts, echo, log_probs, add_special_tokens, ask, .. } = request;
        let text = model.text(ask.show_special);
        let (prompts, texts) = match prompts {
            Prompts::Tokens(prompts) => {
                let texts = prompts.iter().map(|prompt| text.of(prompt));
                let texts = if echo { texts.collect() } else { Vec::new() };
                (prompts, texts)
            }
            Prompts::Texts(texts) => {
                let mut prompts = Vec::with_capacity(texts.len());
                for text in &texts {
                    let prompt = model.text_prompt(text, add_special_tokens);
                    prompts.push(prompt.map_err(|problem| problem.refuse("prompt"))?);
                }
                (prompts, texts)
            }
        };
        let wanted = Wanted { echo, log_probs: log_probs.is_some(), tokens: ask.return_tokens };
        let plan = Plan {
            prompts,
            top_log_probs: log_probs.unwrap_or(0),
            // The engine samples nothing only for those who ask about the prompt.
            prompt_log_probs: echo && (wanted.log_probs || ask.max_new_tokens == Some(0)),
            stop_tokens: model.stop_tokens(&ask),
            prompt_field: "prompt",
            ask,
        };
        Ok(Self { plan, wanted, texts })
    }

    fn writers(&self, model: &Model, started: &[Started]) -> Vec<Writer> {
        let ask = &self.plan.ask;
        let text = Arc::new(model.text(ask.show_special));
        let prompt_tokens = |prompt: usize| match self.plan.prompts.get(prompt) {
            Some(tokens) if self.wanted.tokens => tokens.clone(),
            Some(_) | None => Vec::new(),
        };
        let prompt_text = |prompt: usize| match self.texts.get(prompt) {
            Some(text) if self.wanted.echo => text.clone(),
            Some(_) | None => String::new(),
        };
        let writer = |(index, started): (u32, &Started)| Writer {
            index,
            key: started.key,
            wanted: self.wanted,
            text: Arc::clone(&text),
            stop_strings: ask.stop_strings.clone(),
            prompt_tokens: prompt_tokens(started.prompt),
            prompt_text: prompt_text(started.prompt),
            columns: Columns::default(),
            versions: Versions::default(),
        };
        (0..).zip(started).map(writer).collect()
    }
}

/// Whether the choice at `index` is its prompt's first.
const fn is_first(index: usize, choices: u32) -> bool {
    index.is_multiple_of(choices as usize)
}

async fn answer_whole(
    app: &Arc<App>,
    completions: &Completions,
    started: Vec<Started>,
) -> Result<Response, ApiError> {
    let writers = completions.writers(&app.model, &started);
    let per_prompt = completions.plan.ask.choices;
    let all = futures::future::try_join_all(started.into_iter().map(|one| one.whole(app))).await?;
    let frame = Frame { head: Head::new(app, "cmpl"), include_usage: true };
    let written = move || {
        let mut usage = UsageAnswer::default();
        let mut choices = Vec::with_capacity(writers.len());
        for (index, (steps, mut writer)) in all.into_iter().zip(writers).enumerate() {
            usage.add(is_first(index, per_prompt), &steps);
            let opening = writer.opening();
            let number = writer.index;
            let pieces = steps.into_iter().filter_map(|step| writer.push(step));
            choices.push(whole(opening.into_iter().chain(pieces), number));
        }
        frame.piece(choices, Some(usage))
    };
    super::answer_json(written).await
}

/// The pieces of a streamed answer.
fn answer_stream(
    app: &Arc<App>,
    completions: &Completions,
    started: Vec<Started>,
    include_usage: bool,
) -> impl Stream<Item = Result<String, ApiError>> + Send + 'static + use<> {
    let mut writers = completions.writers(&app.model, &started);
    let per_prompt = completions.plan.ask.choices;
    let frame = Frame { head: Head::new(app, "cmpl"), include_usage };
    let openings = writers.iter_mut().filter_map(Writer::opening);
    let openings: Vec<_> = openings.map(|choice| frame.piece(vec![choice], None)).collect();
    let steps = started.into_iter().enumerate().map(|(index, one)| {
        one.steps(Arc::clone(app)).map(move |step| step.map(|step| (index, step))).boxed()
    });
    let mut usage = UsageAnswer::default();
    let mut open = writers.len();
    let pieces = futures::stream::select_all(steps).flat_map(move |step| {
        let (index, step) = match step {
            Ok(step) => step,
            Err(error) => return futures::stream::iter(vec![Err(error)]),
        };
        let is_end = matches!(step, Step::Finished(..));
        usage.add(is_first(index, per_prompt), std::slice::from_ref(&step));
        let mut new = Vec::new();
        if let Some(choice) = writers.get_mut(index).and_then(|writer| writer.push(step)) {
            new.push(frame.piece(vec![choice], None));
        }
        open -= usize::from(is_end);
        if open == 0 && include_usage {
            new.push(frame.piece(Vec::new(), Some(usage)));
        }
        futures::stream::iter(new)
    });
    futures::stream::iter(openings).chain(pieces)
}

/// What is the same in every piece.
#[derive(Debug)]
struct Frame {
    head: Head,
    include_usage: bool,
}

impl Frame {
    fn piece(&self, choices: Vec<Choice>, usage: Option<UsageAnswer>) -> Result<String, ApiError> {
        let Head { id, created, model, system_fingerprint } = &self.head;
        sse::json(&Completion {
            id,
            object: "text_completion",
            created: *created,
            model,
            system_fingerprint,
            choices,
            usage: self.include_usage.then_some(usage),
        })
    }
}
