//! Streams of what changes, as server-sent events: a page asks anew for what an event says is new.
//!
//! Files are looked at every [`EACH`], which works on every file system; an event is sent when
//! something differs from the last look.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::StreamExt as _;
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::App;
use super::error::Failure;
use crate::{Environment, Error, Run};

/// Between two looks.
const EACH: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/live", get(folder)).route("/api/runs/{run}/live", get(run))
}

/// What is looked at of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Look {
    state: &'static str,
    generation: u64,
    lines: usize,
    step: Option<u64>,
    episode_steps: usize,
    last_episode_step: Option<u64>,
    evaluations: usize,
    /// Bytes of them.
    events: u64,
    survey: crate::survey::Progress,
    /// When the code environment's state was written.
    sandbox_ms: Option<u64>,
}

impl Look {
    fn at(run: &Run) -> Result<Self, Error> {
        let (generation, lines, step) = {
            let curves = run.curves()?;
            let lines = curves.kinds().map(|(_, rows)| rows.steps.len()).sum();
            (curves.generation(), lines, curves.last_step())
        };
        let steps = run.reader().episode_steps()?;
        let evaluations = run.reader().evaluations()?;
        Ok(Self {
            state: run.state()?,
            generation,
            lines,
            step,
            episode_steps: steps.len(),
            last_episode_step: steps.last().copied(),
            evaluations: evaluations.iter().map(|(_, steps)| steps.len()).sum(),
            events: run.events()?.read_bytes(),
            survey: run.survey().progress(),
            sandbox_ms: run.reader().sandbox_mark().and_then(crate::run::unix_ms),
        })
    }
}

async fn run(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let first = name.clone();
    // What is not there is told at once, and not by a stream.
    if let Err(failure) = app.read(move |app| app.folder.glance(&first).map(drop)).await {
        return failure.into_response();
    }
    stream(app, move |app| Look::at(&*app.folder.glance(&name)?))
}

/// Runs of the folder with the time of their last change.
async fn folder(State(app): State<Arc<App>>) -> Response {
    stream(app, |app| {
        let (entries, _) = app.folder.entries()?;
        let newest: Vec<(String, Option<SystemTime>)> =
            entries.into_iter().map(|entry| (entry.name, entry.changed)).collect();
        let changed = newest.iter().filter_map(|(_, at)| *at).max().and_then(crate::run::unix_ms);
        let seen = app.environment.as_ref().map(Environment::seen).unwrap_or_default();
        let environment = (seen.state.map(|state| state.unix_ms), seen.notice);
        Ok(serde_json::json!({
            "runs": newest.len(), "changed_ms": changed, "environment": environment,
        }))
    })
}

fn stream<T: Serialize + PartialEq + Send + 'static>(
    app: Arc<App>,
    look: impl Fn(&App) -> Result<T, Error> + Clone + Send + Sync + 'static,
) -> Response {
    let Ok(place) = Arc::clone(&app.streams).try_acquire_owned() else {
        let message = "too many open pages: close some";
        return Failure::new(StatusCode::TOO_MANY_REQUESTS, message).into_response();
    };
    let stop = app.stop.clone();
    let mut ticks = tokio::time::interval(EACH);
    // Looks that were missed while readers were short are not made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let start = (app, place, None::<T>, ticks);
    let events = futures::stream::unfold(start, move |(app, place, mut last, mut ticks)| {
        let look = look.clone();
        async move {
            loop {
                ticks.tick().await;
                let look = look.clone();
                // What can't be read now may be read at the next look; the page shows the notice
                // when it asks.
                let Ok(now) = app.read(move |app| look(app)).await else { continue };
                if last.as_ref() != Some(&now) {
                    let event = Event::default().json_data(&now).unwrap_or_default();
                    last = Some(now);
                    return Some((Ok::<_, Infallible>(event), (app, place, last, ticks)));
                }
            }
        }
    });
    let events = events.take_until(stop.cancelled_owned());
    Sse::new(events.boxed()).keep_alive(KeepAlive::default()).into_response()
}
