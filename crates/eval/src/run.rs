//! An evaluation on its way: attempts that are missing are made, kept, and scored as they end.
//!
//! Invariants: an attempt is on the disk before it is scored and counted, and no scoring holds that up;
//! however the run ends, what ended is kept and the result says what is missing; what we failed to make
//! or to score is missing, never wrong.

mod books;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::FutureExt as _;
use futures::stream::{self, Stream, StreamExt as _};
use rocstar_record::attempt::{Attempt, Score};
use rocstar_record::episode::TaskId;
use rocstar_rollout::{Assignment, PlayError, Played, Player};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::books::Books;
use crate::metrics::{Estimate, Prices};
use crate::problem::Problem;
use crate::report::{Circumstances, EvalResult};
use crate::score::{Judge, ScoreError, score};
use crate::store::{AttemptId, Store, StoreError};
use crate::suite::Suite;

/// Most attempts that are kept and scored together.
const BATCH: usize = 64;
/// Most attempts that are scored at once: a judging model is asked that many questions.
const SCORED_AT_ONCE: usize = 16;

/// Everything that an evaluation needs beside its store.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The problems.
    pub suite: &'a Suite,
    /// Who attempts them.
    pub player: &'a dyn Player,
    /// Who judges, where the suite needs a judge.
    pub judge: Option<&'a dyn Judge>,
    /// Prices of tokens, where they are known.
    pub prices: Option<Prices>,
}

/// How far an evaluation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Attempts that are there, those of earlier sessions included.
    pub ended: usize,
    /// Attempts that are wanted.
    pub of: usize,
    /// Attempts of this session that came to nothing.
    pub failed: usize,
    /// The score of what is there.
    pub score: Option<Estimate>,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All that could be made was made.
    Finished,
    /// It was asked to stop.
    Stopped,
}

/// Why an evaluation can't go on. What was kept stays, and the result is written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No attempts can be made.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// An attempt can't be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// A task of ours was ended.
    #[error("a thread that works on the evaluation failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// The run's state that outlives its futures.
struct Session<'a> {
    parts: Parts<'a>,
    problems: Problems<'a>,
    store: Arc<Mutex<Store>>,
    began: Instant,
    /// Seconds of earlier sessions.
    seconds_before: f64,
    prices: Option<Prices>,
    books: Mutex<Books<'a>>,
}

/// Makes what is missing of the attempts that the store's protocol wants, scores what is not scored,
/// and writes the result. When `stop` ends, no more attempts are begun, those under way are dropped,
/// and those that ended are kept. Needs a tokio runtime.
///
/// # Errors
/// No attempts can be made, one can't be scored, or the disk refuses. The store is given back in
/// every case.
pub async fn run(
    store: Store,
    parts: Parts<'_>,
    progress: &(dyn Fn(Progress) + Send + Sync),
    stop: impl Future<Output = ()> + Send,
) -> (Result<Ended, RunError>, Option<Store>) {
    let session = Session::new(store, parts);
    let ended = session.run(progress, stop).await;
    let written = session.write_result().await;
    let store = Arc::into_inner(session.store);
    let store = store.map(|store| store.into_inner().unwrap_or_else(PoisonError::into_inner));
    (ended.and_then(|ended| written.map(|()| ended)), store)
}

/// Scores all saved attempts again and writes the result.
///
/// # Errors
/// An attempt can't be scored, or the disk refuses.
pub async fn rescore(
    store: &mut Store,
    suite: &Suite,
    judge: Option<&dyn Judge>,
    prices: Option<Prices>,
) -> Result<(), RunError> {
    let saved = store.saved();
    let attempts: Vec<Attempt> = saved.attempts.values().cloned().collect();
    let spent = saved.result.as_ref().map(|result| result.spent);
    let problems = Problems::of(suite);
    let scored = problems.scored(judge, stream::iter(attempts));
    tokio::pin!(scored);
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(chunk) = scored.next().await {
        let Scores { scores, unscored } = Scores::sorted(chunk)?;
        store.keep_scores(scores)?;
        for cause in unscored {
            *failures.entry(cause).or_default() += 1;
        }
    }
    let circumstances = Circumstances {
        seconds: spent.map_or(0.0, |spent| spent.seconds),
        prices: prices.or_else(|| spent?.prices),
        failures,
    };
    let result = EvalResult::new(store.saved(), suite, circumstances);
    Ok(store.write_result(result)?)
}

impl<'a> Session<'a> {
    fn new(store: Store, parts: Parts<'a>) -> Self {
        let spent = store.saved().result.as_ref().map(|result| result.spent);
        Self {
            parts,
            problems: Problems::of(parts.suite),
            began: Instant::now(),
            seconds_before: spent.map_or(0.0, |spent| spent.seconds),
            prices: parts.prices.or_else(|| spent?.prices),
            books: Mutex::new(Books::new(store.saved(), parts.suite)),
            store: Arc::new(Mutex::new(store)),
        }
    }

    /// Three things at once, so that none waits for another: attempts are made, kept, and scored.
    async fn run(
        &self,
        progress: &(dyn Fn(Progress) + Send + Sync),
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Ended, RunError> {
        let stop = stop.shared();
        let (to_keep, kept) = unbounded_channel();
        let (to_score, unscored) = unbounded_channel();
        for attempt in self.leftovers() {
            drop(to_score.send(attempt));
        }
        progress(lock(&self.books).progress());
        let assignments = self.missing();
        let failed = Notify::new();
        let playing = async {
            // Never more in the channel than there are assignments. A receiver that failed has said
            // so.
            let ended = move |played: Played| drop(to_keep.send(played));
            tokio::select! {
                biased;
                () = stop.clone() => Ok(Ended::Stopped),
                () = failed.notified() => Ok(Ended::Stopped),
                played = self.parts.player.play(&assignments, &ended) => {
                    played.map(|()| Ended::Finished).map_err(RunError::from)
                }
            }
        };
        let keeping = async {
            let kept = self.keep(kept, to_score).await;
            failed.notify_one();
            kept
        };
        let scoring = async {
            let scored = self.score(unscored, stop.clone(), progress).await;
            failed.notify_one();
            scored
        };
        let (played, kept, scored) = tokio::join!(playing, keeping, scoring);
        progress(lock(&self.books).progress());
        kept.and(scored).and(played)
    }

    /// Attempts that a session which was ended kept and did not score.
    fn leftovers(&self) -> Vec<Attempt> {
        let store = lock(&self.store);
        let saved = store.saved();
        let unscored = saved.attempts.iter().filter(|(id, _)| !saved.scores.contains_key(*id));
        unscored.map(|(_, attempt)| attempt.clone()).collect()
    }

    /// What is to be made, problem by problem.
    fn missing(&self) -> Vec<Assignment> {
        let store = lock(&self.store);
        let attempts = &store.saved().attempts;
        let samples = store.saved().protocol.settings.samples;
        let problems = self.parts.suite.problems.iter().enumerate();
        let wanted = problems.take(store.saved().protocol.suite.problems);
        let all = wanted.flat_map(|(number, problem)| {
            (0..samples).map(move |sample| Assignment {
                task: Arc::clone(&problem.task),
                task_number: number as u64,
                sample,
            })
        });
        all.filter(|it| !attempts.contains_key(&(it.task.id.clone(), it.sample))).collect()
    }

    /// Keeps attempts as they end, and hands them on, until no more come.
    async fn keep(
        &self,
        mut played: UnboundedReceiver<Played>,
        to_score: UnboundedSender<Attempt>,
    ) -> Result<(), RunError> {
        let mut batch = Vec::new();
        while played.recv_many(&mut batch, BATCH).await > 0 {
            let (mut attempts, mut causes) = (Vec::new(), Vec::new());
            for Played { attempt, .. } in batch.drain(..) {
                match attempt {
                    Ok(attempt) => attempts.push(attempt),
                    Err(cause) => causes.push(cause),
                }
            }
            lock(&self.books).add_failures(causes);
            let to_keep = attempts.clone();
            self.on_store(move |store| store.keep_attempts(to_keep)).await?;
            for attempt in attempts {
                // Where scoring failed, what is kept is scored another time.
                drop(to_score.send(attempt));
            }
        }
        Ok(())
    }

    /// Scores attempts and keeps the scores, until no more come. A judging model takes its time: what
    /// it has not judged when `stop` ends is judged another time.
    async fn score(
        &self,
        attempts: UnboundedReceiver<Attempt>,
        stop: impl Future<Output = ()> + Send,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), RunError> {
        let attempts = stream::unfold(attempts, async |mut attempts| {
            attempts.recv().await.map(|attempt| (attempt, attempts))
        });
        let scored = self.problems.scored(self.parts.judge, attempts);
        let stop = async {
            if self.parts.judge.is_none() {
                std::future::pending::<()>().await;
            }
            stop.await;
        };
        tokio::pin!(scored, stop);
        loop {
            let chunk = tokio::select! {
                biased;
                () = &mut stop => None,
                chunk = scored.next() => chunk,
            };
            let Some(chunk) = chunk else { return Ok(()) };
            let Scores { scores, unscored } = Scores::sorted(chunk)?;
            let due = {
                let mut books = lock(&self.books);
                books.add_scores(&scores);
                books.add_failures(unscored);
                books.progress_that_is_due()
            };
            self.on_store(move |store| store.keep_scores(scores)).await?;
            due.into_iter().for_each(progress);
            if lock(&self.books).result_is_due() {
                self.write_result().await?;
            }
        }
    }

    async fn write_result(&self) -> Result<(), RunError> {
        let began = Instant::now();
        let circumstances = Circumstances {
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
            prices: self.prices,
            failures: lock(&self.books).failures().clone(),
        };
        let suite = self.parts.suite.clone();
        let write = move |store: &mut Store| {
            let result = EvalResult::new(store.saved(), &suite, circumstances);
            store.write_result(result)
        };
        self.on_store(write).await?;
        lock(&self.books).result_was_written(began.elapsed());
        Ok(())
    }

    /// Works on the store where waiting for the disk holds nothing up.
    async fn on_store(
        &self,
        work: impl FnOnce(&mut Store) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), RunError> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || work(&mut lock(&store)));
        Ok(done.await??)
    }
}

/// Problems by their identity.
struct Problems<'a>(HashMap<&'a TaskId, &'a Problem>);

impl<'a> Problems<'a> {
    fn of(suite: &'a Suite) -> Self {
        Self(suite.problems.iter().map(|problem| (&problem.task.id, problem)).collect())
    }

    /// What attempts are worth, in the order in which it is found, together what is found at once.
    /// Attempts at problems that the suite no longer has are passed over.
    fn scored(
        &self,
        judge: Option<&'a dyn Judge>,
        attempts: impl Stream<Item = Attempt> + Send,
    ) -> impl Stream<Item = Vec<(AttemptId, Result<Score, ScoreError>)>> + Send {
        let known = attempts.filter_map(|attempt| {
            let problem = self.0.get(&attempt.problem).copied();
            std::future::ready(problem.map(|problem| (problem, attempt)))
        });
        let scored = known.map(move |(problem, attempt)| async move {
            let score = score(problem, &attempt, judge).await;
            ((attempt.problem, attempt.sample), score)
        });
        scored.buffer_unordered(SCORED_AT_ONCE).ready_chunks(BATCH)
    }
}

/// What attempts are worth.
struct Scores {
    scores: Vec<(AttemptId, Score)>,
    /// Why some could not be scored now; they may be another time.
    unscored: Vec<String>,
}

impl Scores {
    /// # Errors
    /// There is no judge where one is needed.
    fn sorted(all: Vec<(AttemptId, Result<Score, ScoreError>)>) -> Result<Self, RunError> {
        let mut sorted = Self { scores: Vec::new(), unscored: Vec::new() };
        for (id, one) in all {
            match one {
                Ok(score) => sorted.scores.push((id, score)),
                // A fault of ours with one attempt holds up no other.
                Err(error @ (ScoreError::Judge { .. } | ScoreError::Fault { .. })) => {
                    sorted.unscored.push(error.to_string());
                }
                Err(error @ ScoreError::NoJudge { .. }) => return Err(error.into()),
            }
        }
        Ok(sorted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panicked under a lock left maps that are whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
