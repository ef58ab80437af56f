//! What the page asks for, as JSON. Each route is one function of the crate; nothing is computed here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use rocstar_record::metric::{Place as LoggedAt, topics};
use rocstar_record::run::Notes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::App;
use super::error::Failure;
use crate::episode::Place;
use crate::run::{Overview, from_folder};
use crate::timeline::Timeline;
use crate::{Error, Run, Seen, evaluations, report, search, survey, what_if};

/// Runs of one answer.
const MOST_RUNS: usize = 60;
/// Largest body: a note.
const MOST_BODY_BYTES: usize = 256 << 10;

type Answer = Result<Response, Failure>;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/metrics", get(metrics))
        .route("/api/environment", get(other_environment))
        .route("/api/runs", get(runs))
        .route("/api/runs/{run}", get(detail))
        .route("/api/runs/{run}/notes", put(write_notes))
        .route("/api/runs/{run}/curves", get(curves))
        .route("/api/runs/{run}/steps/{step}", get(step))
        .route("/api/runs/{run}/steps/{step}/what-if", post(try_selection))
        .route("/api/runs/{run}/steps/{step}/timeline", get(time_of_step))
        .route("/api/runs/{run}/steps/{step}/groups/{group}", get(group))
        .route("/api/runs/{run}/steps/{step}/groups/{group}/episodes/{sample}", get(episode))
        .route("/api/runs/{run}/steps/{step}/groups/{group}/episodes/{sample}/tokens", get(tokens))
        .route("/api/runs/{run}/problems", get(problems))
        .route("/api/runs/{run}/search", get(find))
        .route("/api/runs/{run}/environment", get(environment))
        .route("/api/runs/{run}/environment/now", get(environment_now))
        .route("/api/runs/{run}/evaluations", get(suites))
        .route("/api/runs/{run}/evaluations/{suite}", get(matrix))
        .route(
            "/api/runs/{run}/evaluations/{suite}/{step}/tasks/{task}/episodes/{sample}",
            get(evaluated),
        )
        .route(
            "/api/runs/{run}/evaluations/{suite}/{step}/tasks/{task}/episodes/{sample}/tokens",
            get(evaluated_tokens),
        )
        .route("/report/{run}", get(whole_report))
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
}

/// Reads what `read` gives of the run, and writes it as JSON on the same thread.
async fn of_run<T: Serialize>(
    app: Arc<App>,
    run: String,
    read: impl FnOnce(&Run) -> Result<T, Error> + Send + 'static,
) -> Answer {
    let text = app.read(move |app| text(&read(&*app.folder.run(&run)?)?)).await?;
    Ok(as_json(text))
}

fn text(value: &impl Serialize) -> Result<Bytes, Error> {
    let text = serde_json::to_vec(value).map(Bytes::from);
    text.map_err(|error| Error::missing(format!("way to write this as JSON: {error}")))
}

fn as_json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// What was asked for, or why it can't be.
fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Failure> {
    let query = query.map_err(|error| Failure::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    Ok(query.0)
}

fn sent<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Failure> {
    let body = body.map_err(|error| Failure::new(error.status(), error.body_text()))?;
    Ok(body.0)
}

async fn metrics() -> Json<Value> {
    let metric = |metric: &rocstar_record::metric::Metric| {
        let healthy = metric.healthy.map(|healthy| {
            json!({
                "lowest": healthy.lowest, "highest": healthy.highest,
                "range": healthy.range(), "otherwise": healthy.otherwise,
            })
        });
        let logged: Vec<&str> = metric.logged.iter().copied().map(LoggedAt::name).collect();
        json!({
            "name": metric.name, "unit": metric.unit, "meaning": metric.meaning,
            "healthy": healthy, "logged": logged, "is_measured": metric.is_measured,
        })
    };
    let topics = topics().iter().map(|topic| {
        let metrics: Vec<Value> = topic.metrics.iter().map(metric).collect();
        json!({ "name": topic.name, "metrics": metrics })
    });
    Json(json!({ "topics": topics.collect::<Vec<_>>() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default)]
    offset: usize,
}

async fn runs(State(app): State<Arc<App>>, part: Result<Query<Part>, QueryRejection>) -> Answer {
    let offset = asked(part)?.offset;
    let text = app
        .read(move |app| {
            let (entries, notices) = app.folder.entries()?;
            let all = entries.len();
            let part = entries.into_iter().skip(offset).take(MOST_RUNS);
            let runs = part.map(|entry| match app.folder.glance(&entry.name) {
                Ok(run) => run.overview(entry.changed),
                Err(error) => {
                    let notice = from_folder(&error.to_string(), app.folder.path());
                    Overview::unreadable(&entry.name, entry.changed, notice)
                }
            });
            let runs: Vec<Overview> = runs.collect();
            let folder = crate::folder::shown(app.folder.path()).display().to_string();
            text(&json!({ "folder": folder, "all": all, "offset": offset, "runs": runs, "notices": notices, "environment": app.environment.is_some() }))
        })
        .await?;
    Ok(as_json(text))
}

async fn detail(State(app): State<Arc<App>>, Path(run): Path<String>) -> Answer {
    of_run(app, run, |run| {
        let overview = run.overview(None);
        let mut notices = run.notices()?;
        let events: Vec<Value> = run.events()?.last().cloned().collect();
        let mut told = |error: rocstar_record::run::Error| {
            notices.push(run.without_path(&error.to_string()));
        };
        let config = run.reader().config().map_err(&mut told).unwrap_or_default();
        let environment = run.reader().environment().map_err(&mut told).unwrap_or_default();
        let steps = run.reader().episode_steps().map_err(&mut told).unwrap_or_default();
        let checkpoints = run.reader().checkpoint_steps().map_err(&mut told).unwrap_or_default();
        Ok(json!({
            "overview": overview, "events": events, "config": config, "environment": environment,
            "episode_steps": steps, "checkpoint_steps": checkpoints, "notices": notices,
            "path": crate::folder::shown(run.reader().path()).display().to_string(),
            "stages": run.recipe().stages, "has_text": !run.vocabulary().is_empty(),
        }))
    })
    .await
}

async fn write_notes(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    notes: Result<Json<Notes>, JsonRejection>,
) -> Answer {
    let notes = sent(notes)?;
    of_run(app, run, move |run| {
        run.reader().write_notes(&notes)?;
        Ok(notes)
    })
    .await
}

/// Rows that the page has already, by kind, such as `rl_step:20`; they count for `generation` alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Known {
    generation: Option<u64>,
    rows: String,
}

async fn curves(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    known: Result<Query<Known>, QueryRejection>,
) -> Answer {
    let known = asked(known)?;
    of_run(app, run, move |run| {
        let curves = run.curves()?;
        let is_same = known.generation == Some(curves.generation());
        let rows: HashMap<&str, usize> = known
            .rows
            .split(',')
            .filter_map(|part| part.split_once(':'))
            .filter_map(|(kind, rows)| Some((kind, rows.parse().ok()?)))
            .collect();
        let first = |kind: &str| rows.get(kind).copied().filter(|_| is_same).unwrap_or(0);
        let kinds = curves.kinds().map(|(kind, rows)| {
            let first = first(kind);
            json!({ "kind": kind, "first": first, "rows": rows.behind(first) })
        });
        let kinds: Vec<Value> = kinds.collect();
        Ok(json!({
            "generation": curves.generation(), "kinds": kinds, "notices": curves.notices(),
        }))
    })
    .await
}

async fn step(State(app): State<Arc<App>>, Path((run, step)): Path<(String, u64)>) -> Answer {
    of_run(app, run, move |run| run.step(step)?.view(run, None)).await
}

async fn group(
    State(app): State<Arc<App>>,
    Path((run, step, group)): Path<(String, u64, usize)>,
) -> Answer {
    of_run(app, run, move |run| run.step(step)?.view(run, Some(group))).await
}

async fn time_of_step(
    State(app): State<Arc<App>>,
    Path((run, step)): Path<(String, u64)>,
) -> Answer {
    of_run(app, run, move |run| Timeline::of(run, &*run.step(step)?)).await
}

async fn try_selection(
    State(app): State<Arc<App>>,
    Path((run, step)): Path<(String, u64)>,
    question: Result<Json<what_if::Question>, JsonRejection>,
) -> Answer {
    let question = sent(question)?;
    of_run(app, run, move |run| question.answer(run, &*run.step(step)?)).await
}

async fn episode(
    State(app): State<Arc<App>>,
    Path((run, step, group, sample)): Path<(String, u64, u64, u32)>,
) -> Answer {
    show(app, run, Place::Step { step, group }, sample).await
}

async fn evaluated(
    State(app): State<Arc<App>>,
    Path((run, suite, step, task, sample)): Path<(String, String, u64, u64, u32)>,
) -> Answer {
    show(app, run, Place::Evaluation { suite, step, task }, sample).await
}

async fn show(app: Arc<App>, run: String, place: Place, sample: u32) -> Answer {
    of_run(app, run, move |run| Ok(place.find(run, sample)?.view(run, &place))).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenPart {
    #[serde(default)]
    first: usize,
    #[serde(default)]
    count: Option<usize>,
}

async fn tokens(
    State(app): State<Arc<App>>,
    Path((run, step, group, sample)): Path<(String, u64, u64, u32)>,
    part: Result<Query<TokenPart>, QueryRejection>,
) -> Answer {
    show_tokens(app, run, Place::Step { step, group }, sample, asked(part)?).await
}

async fn evaluated_tokens(
    State(app): State<Arc<App>>,
    Path((run, suite, step, task, sample)): Path<(String, String, u64, u64, u32)>,
    part: Result<Query<TokenPart>, QueryRejection>,
) -> Answer {
    show_tokens(app, run, Place::Evaluation { suite, step, task }, sample, asked(part)?).await
}

async fn show_tokens(
    app: Arc<App>,
    run: String,
    place: Place,
    sample: u32,
    part: TokenPart,
) -> Answer {
    of_run(app, run, move |run| {
        let stage = match &place {
            Place::Step { step, .. } => run.curves()?.place(*step).map(|(stage, _)| stage),
            Place::Evaluation { .. } => None,
        };
        let count = part.count.unwrap_or(crate::episode::MOST_TOKENS);
        Ok(place.find(run, sample)?.tokens(run, stage, part.first, count))
    })
    .await
}

/// Goes on with the survey of a run in the background, until it is whole or the server stops.
fn survey_on(app: &Arc<App>, run: Arc<Run>) {
    let stop = app.stop.clone();
    // What can't be read is among the survey's notices.
    app.background.spawn_blocking(move || drop(survey::read_on(&run, || !stop.is_cancelled())));
}

async fn problems(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    question: Result<Query<survey::Question>, QueryRejection>,
) -> Answer {
    let question = asked(question)?;
    let name = run.clone();
    let opened = app.read(move |app| app.folder.run(&name)).await?;
    survey_on(&app, opened);
    of_run(app, run, move |run| {
        let steps = run.reader().episode_steps()?;
        let mut survey = run.survey();
        survey.expect(steps.len());
        Ok(survey.tasks(&question, run))
    })
    .await
}

async fn environment(State(app): State<Arc<App>>, Path(run): Path<String>) -> Answer {
    let name = run.clone();
    let opened = app.read(move |app| app.folder.run(&name)).await?;
    survey_on(&app, opened);
    of_run(app, run, |run| {
        let environment = run.reader().environment().unwrap_or_default();
        let sandbox = environment.as_ref().and_then(|it| it.get("sandbox")).cloned();
        let host = environment.as_ref().and_then(|it| it.get("host")).cloned();
        let steps = run.reader().episode_steps()?;
        let mut survey = run.survey();
        survey.expect(steps.len());
        Ok(json!({
            "sandbox": sandbox, "host": host, "progress": survey.progress(),
            "wall_bounds_us": survey::WALL_BOUNDS_US, "steps": survey.environment(),
        }))
    })
    .await
}

/// A code environment that is no run's.
async fn other_environment(State(app): State<Arc<App>>) -> Answer {
    let Some(environment) = &app.environment else {
        let message = "no code environment is looked at: `rocstar dash --environment URL`";
        return Err(Failure::new(StatusCode::NOT_FOUND, message));
    };
    let seen = environment.seen();
    let run = if seen.notice.is_some() { "unreachable" } else { "running" };
    let now_ms = crate::run::unix_ms(SystemTime::now());
    let Seen { url, state, notice } = seen;
    let answer =
        json!({ "url": url, "state": state, "run": run, "now_ms": now_ms, "notice": notice });
    Ok(Json(answer).into_response())
}

/// What the code environment does, and by which clock that is new or old.
async fn environment_now(State(app): State<Arc<App>>, Path(run): Path<String>) -> Answer {
    of_run(app, run, |run| {
        let (state, notice) = match run.reader().sandbox() {
            Ok(state) => (state, None),
            Err(error) => (None, Some(run.without_path(&error.to_string()))),
        };
        let now_ms = crate::run::unix_ms(SystemTime::now());
        Ok(json!({ "state": state, "run": run.state()?, "now_ms": now_ms, "notice": notice }))
    })
    .await
}

async fn find(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    question: Result<Query<search::Question>, QueryRejection>,
) -> Answer {
    let question = asked(question)?;
    of_run(app, run, move |run| search::search(run, &question)).await
}

async fn suites(State(app): State<Arc<App>>, Path(run): Path<String>) -> Answer {
    of_run(app, run, |run| {
        let (suites, notices) = evaluations::suites(run)?;
        Ok(json!({ "suites": suites, "notices": notices }))
    })
    .await
}

async fn matrix(State(app): State<Arc<App>>, Path((run, suite)): Path<(String, String)>) -> Answer {
    of_run(app, run, move |run| evaluations::matrix(run, &suite)).await
}

async fn whole_report(State(app): State<Arc<App>>, Path(run): Path<String>) -> Answer {
    let html = app
        .read(move |app| {
            let run = app.folder.run(&run)?;
            Ok(report::Report::of(&[&*run])?.to_html())
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response())
}
