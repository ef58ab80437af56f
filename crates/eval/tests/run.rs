//! Evaluations on their way, at a server by script: what faults, judges and interruptions leave.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt as _, pending, ready};
use pretty_assertions::assert_eq;
use rocstar_eval::metrics::Prices;
use rocstar_eval::problem::{Gold, Problem};
use rocstar_eval::protocol::{
    ModelIdentity, ModelPlace, Preset, Protocol, SCHEMA_VERSION, Settings, SuiteIdentity,
    ToolSettings,
};
use rocstar_eval::report::{EvalResult, Status};
use rocstar_eval::run::{Ended, Parts, RunError, rescore, run};
use rocstar_eval::score::Judge;
use rocstar_eval::store::{Saved, Store, StoreError};
use rocstar_eval::suite::{DataPlaces, Scorer, Suite, load};
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Fault, Faults, Reply, Script};
use rocstar_record::message::Message;
use rocstar_rollout::ToolMode;
use rocstar_rollout::remote::{ChatOptions, ChatPlayer, EndpointOptions, Endpoints};

const PROBLEMS: usize = 12;
const SAMPLES: u32 = 3;

/// Sums; the model is right by the parity of its seed.
fn suite(folder: &Path) -> Suite {
    let rows: Vec<String> = (0..PROBLEMS)
        .map(|n| format!("{{\"problem\": \"{n} + 1?\", \"answer\": \"{}\"}}\n", n + 1))
        .collect();
    let path = folder.join("own.jsonl");
    std::fs::write(&path, rows.concat()).unwrap();
    let settings = settings();
    load(path.to_str().unwrap(), &DataPlaces::default(), &settings.load_options()).unwrap()
}

/// The same problems, for a judge to compare, in two categories.
fn judged(folder: &Path) -> Suite {
    let mut suite = suite(folder);
    suite.scorer = Scorer::Judge;
    let problems = suite.problems.iter().enumerate().map(|(n, problem)| {
        let mut task = problem.task.as_ref().clone();
        let category = if n % 4 == 0 { "rare" } else { "common" };
        task.meta.insert("category".to_owned(), category.into());
        Problem { task: Arc::new(task), gold: Gold::Judged { baseline: "3".to_owned() } }
    });
    suite.problems = problems.collect();
    suite
}

fn settings() -> Settings {
    let settings = Preset::Greedy.settings(Scorer::Math);
    let tool = ToolSettings { mode: ToolMode::None, ..settings.tool.clone() };
    Settings { samples: SAMPLES, temperature: 1.0, tool, ..settings }
}

fn protocol(suite: &Suite) -> Protocol {
    let place = ModelPlace::Endpoint {
        urls: Vec::new(),
        model: "fake".to_owned(),
        server: "chat".to_owned(),
        are_tokens_exact: false,
        tool_calls: "server".to_owned(),
        tool_answer_chars: 1000,
        settings: serde_json::Map::new(),
    };
    let model = ModelIdentity { name: "fake".to_owned(), place, template: None, call_format: None };
    Protocol {
        schema: SCHEMA_VERSION,
        rocstar: "0.1.0".to_owned(),
        model,
        suite: SuiteIdentity::new(suite, usize::MAX),
        judge: None,
        settings: settings(),
    }
}

fn behaviour() -> Behaviour {
    let script = Script::new(|question| {
        let n: u64 =
            question.last_text().split_whitespace().find_map(|it| it.parse().ok()).unwrap();
        Reply::text(format!("\\boxed{{{}}}", n + 1 + question.seed % 2))
    });
    Behaviour { script, ..Behaviour::default() }
}

async fn player(server: &FakeEndpoint) -> ChatPlayer {
    let options = EndpointOptions {
        first_byte_ms: 1000,
        idle_ms: 1000,
        request_ms: 20_000,
        first_pause_ms: 1,
        longest_pause_ms: 20,
        ..EndpointOptions::at(server.url())
    };
    let endpoints = Arc::new(Endpoints::connect(vec![options]).await.unwrap());
    let chat = ChatOptions { seed: 7, ..ChatOptions::default() };
    ChatPlayer::new(endpoints, None, settings().rollout(), chat).unwrap()
}

fn figures(result: &EvalResult) -> (String, String) {
    let text = |value: serde_json::Value| value.to_string();
    let figures = serde_json::to_value(&result.figures).unwrap();
    (text(figures), text(serde_json::to_value(&result.problems).unwrap()))
}

/// Runs to the end, or to where `stop` ends.
async fn run_at(
    server: &FakeEndpoint,
    (suite, judge): (&Suite, Option<&dyn Judge>),
    store: Store,
    stop: impl Future<Output = ()> + Send,
) -> (Result<Ended, RunError>, Saved) {
    let player = player(server).await;
    let parts = Parts { suite, player: &player, judge, prices: None };
    let (ended, store) = run(store, parts, &|_| {}, stop).await;
    let saved = store.unwrap().saved().clone();
    (ended, saved)
}

#[tokio::test]
async fn faults_of_a_server_leave_no_trace_in_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let suite = suite(folder.path());
    let mut results = Vec::new();
    let every = vec![
        Fault::TooMany { retry_after_s: None },
        Fault::Status(503),
        Fault::Cut { after_pieces: 1 },
        Fault::Garbage,
    ];
    for faults in [Faults::none(), Faults::each_question(1, every)] {
        let server = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
        let path = folder.path().join(format!("store{}", results.len()));
        let store = Store::create(&path, &protocol(&suite)).unwrap();
        let (ended, saved) = run_at(&server, (&suite, None), store, pending()).await;
        assert_eq!(ended.unwrap(), Ended::Finished);
        assert_eq!(saved.attempts.len(), PROBLEMS * SAMPLES as usize);
        let result = saved.result.unwrap();
        assert_eq!((result.status, result.missing), (Status::Complete, 0));
        results.push((figures(&result), server.seen().iter().any(|seen| seen.fault.is_some())));
    }
    assert_eq!(results[0].0, results[1].0);
    assert_eq!((results[0].1, results[1].1), (false, true));
}

/// Says that the second answer is better; after `answers` questions it doesn't answer any more.
#[derive(Debug)]
struct Second {
    asked: AtomicUsize,
    answers: usize,
    fails: AtomicBool,
}

impl Second {
    const fn after(answers: usize) -> Self {
        Self { asked: AtomicUsize::new(0), answers, fails: AtomicBool::new(false) }
    }
}

impl Judge for Second {
    fn ask<'a>(&'a self, _: &'a [Message]) -> BoxFuture<'a, Result<String, String>> {
        if self.fails.load(Ordering::Relaxed) {
            return ready(Err("it is away".to_owned())).boxed();
        }
        if self.asked.fetch_add(1, Ordering::Relaxed) < self.answers {
            return ready(Ok("[[B>A]]".to_owned())).boxed();
        }
        pending().boxed()
    }
}

#[tokio::test]
async fn a_judge_that_hangs_holds_no_attempt_up_and_what_it_said_stays() {
    let folder = tempfile::tempdir().unwrap();
    let suite = judged(folder.path());
    let path = folder.path().join("store");
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let wanted = PROBLEMS * SAMPLES as usize;
    let hangs = Second::after(10);
    let store = Store::create(&path, &protocol(&suite)).unwrap();
    // All attempts are on the disk, and what could be judged is: then stop.
    let stop = async {
        loop {
            let there =
                Saved::read(&path).map_or((0, 0), |it| (it.attempts.len(), it.scores.len()));
            if there == (wanted, 5) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let (ended, saved) = run_at(&server, (&suite, Some(&hangs)), store, stop).await;
    assert!(ended.is_ok(), "{ended:?}");
    let result = saved.result.unwrap();
    assert_eq!((result.status, result.missing), (Status::Partial, wanted - 5));
    let asked = server.seen().len();

    // Going on asks the judge alone.
    let judge = Second::after(usize::MAX);
    let store = Store::resume(&path, &protocol(&suite)).unwrap();
    let (ended, saved) = run_at(&server, (&suite, Some(&judge)), store, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Finished);
    assert_eq!((server.seen().len(), judge.asked.into_inner()), (asked, 2 * (wanted - 5)));
    let result = saved.result.unwrap();
    assert_eq!(result.status, Status::Complete);
    // The second answer is ours in one game and the baseline in the other.
    assert_eq!(result.figures.unwrap().score.value, 0.5);
    let rates: Vec<_> = result.win_rates.iter().map(|(name, it)| (&**name, it.questions)).collect();
    assert_eq!(rates, [("common", 9), ("rare", 3)]);
}

#[tokio::test]
async fn what_a_judge_failed_at_is_missing_and_told_and_judged_another_time() {
    let folder = tempfile::tempdir().unwrap();
    let suite = judged(folder.path());
    let path = folder.path().join("store");
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let judge = Second::after(usize::MAX);
    judge.fails.store(true, Ordering::Relaxed);
    let store = Store::create(&path, &protocol(&suite)).unwrap();
    let (ended, saved) = run_at(&server, (&suite, Some(&judge)), store, pending()).await;
    assert_eq!(ended.unwrap(), Ended::Finished);
    let result = saved.result.unwrap();
    assert_eq!((result.status, result.figures.is_none()), (Status::Partial, true));
    assert_eq!(result.failures.len(), PROBLEMS);
    assert!(result.to_markdown().contains("3 × failed: the judging model failed on problem"));
    assert!(result.to_markdown().contains("it is away"));

    judge.fails.store(false, Ordering::Relaxed);
    let mut store = Store::open(&path).unwrap();
    rescore(&mut store, &suite, Some(&judge), None).await.unwrap();
    let result = store.saved().result.clone().unwrap();
    assert_eq!((result.status, result.failures.len()), (Status::Complete, 0));
}

#[tokio::test]
async fn going_on_asks_only_for_what_is_missing_and_keeps_prices() {
    let folder = tempfile::tempdir().unwrap();
    let suite = suite(folder.path());
    let path = folder.path().join("store");
    let server = FakeEndpoint::start(behaviour()).unwrap();
    let mut fewer = protocol(&suite);
    fewer.settings.samples = 1;
    fewer.suite.problems = 5;
    let player = player(&server).await;
    let prices = Some(Prices { input_per_million: 1.0, output_per_million: 2.0 });
    let parts = Parts { suite: &suite, player: &player, judge: None, prices };
    let store = Store::create(&path, &fewer).unwrap();
    let (_, store) = run(store, parts, &|_| {}, pending()).await;
    drop(store);
    assert_eq!(server.seen().len(), 5);
    let store = Store::resume(&path, &protocol(&suite)).unwrap();
    let (_, saved) = run_at(&server, (&suite, None), store, pending()).await;
    assert_eq!(server.seen().len(), PROBLEMS * SAMPLES as usize);
    let result = saved.result.unwrap();
    assert_eq!((result.status, result.spent.prices), (Status::Complete, prices));
    assert!(result.spent.cost.unwrap() > 0.0);

    // A result of another form is made again.
    std::fs::write(path.join("result.json"), "{}").unwrap();
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.saved().result, None);
    rescore(&mut store, &suite, None, None).await.unwrap();
    assert_eq!(figures(store.saved().result.as_ref().unwrap()), figures(&result));
}

#[tokio::test]
async fn a_store_is_one_process_s_and_one_protocol_s() {
    let folder = tempfile::tempdir().unwrap();
    let suite = suite(folder.path());
    let path = folder.path().join("store");
    let first = Store::create(&path, &protocol(&suite)).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Locked(_))));
    drop(first);
    assert!(matches!(Store::create(&path, &protocol(&suite)), Err(StoreError::Exists(_))));
    let mut other = protocol(&suite);
    other.settings.top_p = 0.5;
    let refused = Store::resume(&path, &other).unwrap_err().to_string();
    assert!(refused.contains("settings.top_p: 1.0, now 0.5"), "{refused}");
    let newer = std::fs::read_to_string(path.join("protocol.json")).unwrap();
    let newer = newer.replacen("\"schema\": 1", "\"schema\": 2", 1);
    std::fs::write(path.join("protocol.json"), newer).unwrap();
    let refused = Store::open(&path).unwrap_err().to_string();
    assert!(refused.contains("use a newer rocstar"), "{refused}");
}
