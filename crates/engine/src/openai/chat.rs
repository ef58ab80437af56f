//! `/v1/chat/completions`: a conversation in, the assistant's next message out.

mod answer;
mod message;
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
use super::head::Head;
use super::model::Model;
use super::sse;
use super::usage::UsageAnswer;
use answer::{ChatChunk, ChatCompletion, ChunkChoice};
use message::{Wanted, Writer, whole};
use request::ChatRequest;

/// Answers a conversation.
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let chat = app.prepare(&headers, body, Chat::plan).await?;
    let started = chat.plan.start(&app.model)?;
    match chat.plan.ask.answer {
        Answer::Whole => answer_whole(&app, chat, started).await,
        Answer::Stream { include_usage } => {
            Ok(sse::respond(answer_stream(&app, &chat, started, include_usage)))
        }
    }
}

/// What is to be done.
#[derive(Debug)]
struct Chat {
    plan: Plan,
    wanted: Wanted,
    /// Calls are looked for.
    has_tools: bool,
}

impl Chat {
    fn plan(model: &Model, body: &[u8]) -> Result<Self, ApiError> {
        let request = ChatRequest::read(body)?;
        model.require(request.model.as_deref())?;
        let prompt = model.chat_prompt(&request.messages, &request.tools);
        let prompt = prompt.map_err(|problem| problem.refuse("messages"))?;
        let ask = request.ask;
        let wanted = Wanted { log_probs: request.log_probs.is_some(), tokens: ask.return_tokens };
        let plan = Plan {
            prompts: vec![prompt],
            top_log_probs: request.log_probs.unwrap_or(0),
            prompt_log_probs: false,
            stop_tokens: model.stop_tokens(&ask),
            prompt_field: "messages",
            ask,
        };
        Ok(Self { plan, wanted, has_tools: !request.tools.is_empty() })
    }

    fn writer(&self, model: &Model, index: usize, started: &Started) -> Writer {
        let ask = &self.plan.ask;
        Writer::new(
            // Choices are bounded far below this.
            u32::try_from(index).unwrap_or(u32::MAX),
            started.key,
            self.wanted,
            Arc::new(model.text(ask.show_special)),
            ask.stop_strings.clone(),
            self.has_tools.then_some(&model.calls),
        )
    }

    fn prompt_tokens(&self) -> Option<&[u32]> {
        let prompt = self.plan.prompts.first().map(Vec::as_slice);
        prompt.filter(|_| self.wanted.tokens)
    }
}

async fn answer_whole(
    app: &Arc<App>,
    chat: Chat,
    started: Vec<Started>,
) -> Result<Response, ApiError> {
    let writers: Vec<Writer> = started
        .iter()
        .enumerate()
        .map(|(index, started)| chat.writer(&app.model, index, started))
        .collect();
    let all = futures::future::try_join_all(started.into_iter().map(|one| one.whole(app))).await?;
    let head = Head::new(app, "chatcmpl");
    let written = move || {
        let mut usage = UsageAnswer::default();
        let choices = all.into_iter().zip(writers).zip(0..).map(|((steps, mut writer), index)| {
            usage.add(index == 0, &steps);
            whole(steps.into_iter().filter_map(|step| writer.push(step)), index)
        });
        let choices = choices.collect();
        sse::json(&ChatCompletion {
            id: &head.id,
            object: "chat.completion",
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.system_fingerprint,
            choices,
            usage,
            prompt_token_ids: chat.prompt_tokens(),
        })
    };
    super::answer_json(written).await
}

/// The pieces of a streamed answer.
fn answer_stream(
    app: &Arc<App>,
    chat: &Chat,
    started: Vec<Started>,
    include_usage: bool,
) -> impl Stream<Item = Result<String, ApiError>> + Send + 'static + use<> {
    let head = Head::new(app, "chatcmpl");
    let mut writers: Vec<Writer> = started
        .iter()
        .enumerate()
        .map(|(index, started)| chat.writer(&app.model, index, started))
        .collect();
    let prompt = chat.prompt_tokens().map(<[u32]>::to_vec);
    let frame = Frame { head, include_usage };
    let openings: Vec<_> = writers
        .iter()
        .enumerate()
        .map(|(index, writer)| {
            let prompt = prompt.as_deref().filter(|_| index == 0);
            frame.piece(vec![writer.opening()], None, prompt)
        })
        .collect();
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
        usage.add(index == 0, std::slice::from_ref(&step));
        let mut new = Vec::new();
        if let Some(choice) = writers.get_mut(index).and_then(|writer| writer.push(step)) {
            new.push(frame.piece(vec![choice], None, None));
        }
        open -= usize::from(is_end);
        if open == 0 && include_usage {
            new.push(frame.piece(Vec::new(), Some(usage), None));
        }
        futures::stream::iter(new)
    });
    futures::stream::iter(openings).chain(pieces)
}

/// What is the same in every piece.
struct Frame {
    head: Head,
    include_usage: bool,
}

impl Frame {
    fn piece(
        &self,
        choices: Vec<ChunkChoice>,
        usage: Option<UsageAnswer>,
        prompt: Option<&[u32]>,
    ) -> Result<String, ApiError> {
        let Head { id, created, model, system_fingerprint } = &self.head;
        sse::json(&ChatChunk {
            id,
            object: "chat.completion.chunk",
            created: *created,
            model,
            system_fingerprint,
            choices,
            usage: self.include_usage.then_some(usage),
            prompt_token_ids: prompt,
        })
    }
}
