//! An evaluation on its way: attempts that are missing are made, kept, and scored as they end.
//!
//! Invariants: an attempt is on the disk before it is scored and counted; however the run ends, what
//! ended is kept and the result says what is missing; what we failed to make is missing, never wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use rocstar_record::attempt::{Attempt, Score};
use rocstar_rollout::{Assignment, PlayError, Played, Player};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::metrics::{Estimate, Prices};
use crate::report::{Circumstances, EvalResult};
use crate::score::{Judge, ScoreError, score};
use crate::store::{AttemptId, Store, StoreError};
use crate::suite::Suite;

/// Most attempts that are kept and scored together.
const BATCH: usize = 64;
/// Most attempts that are scored at once: a judging model is asked that many questions.
const SCORED_AT_ONCE: usize = 16;
/// The result is written at most so often while attempts come.
const RESULT_EVERY: Duration = Duration::from_secs(10);

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
    store: Arc<Mutex<Store>>,
    began: Instant,
    /// Seconds of earlier sessions.
    seconds_before: f64,
    samples: usize,
    books: Mutex<Books>,
}

/// What is counted while attempts end.
struct Books {
    /// Scores by problem, in the suite's order.
    values: Vec<Vec<f64>>,
    of: usize,
    failures: BTreeMap<String, usize>,
    /// When the result was last written, and how long that took.
    written: Option<(Instant, Duration)>,
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
    let seconds = saved.result.as_ref().map_or(0.0, |result| result.spent.seconds);
    let Scores { scores, unjudged } = scores(suite, judge, attempts).await?;
    store.keep_scores(scores)?;
    let mut failures = BTreeMap::new();
    for cause in unjudged {
        *failures.entry(cause).or_default() += 1;
    }
    let circumstances = Circumstances { seconds, prices, failures };
    let result = EvalResult::new(store.saved(), suite, circumstances);
    Ok(store.write_result(result)?)
}

impl<'a> Session<'a> {
    fn new(store: Store, parts: Parts<'a>) -> Self {
        let saved = store.saved();
        let seconds_before = saved.result.as_ref().map_or(0.0, |result| result.spent.seconds);
        let samples = saved.protocol.settings.samples as usize;
        let problems = parts.suite.problems.len().min(saved.protocol.suite.problems);
        let values = parts.suite.problems[..problems].iter().map(|problem| {
            let all = (problem.task.id.clone(), 0)..=(problem.task.id.clone(), u32::MAX);
            saved.scores.range(all).map(|(_, score)| score.value).collect()
        });
        let books = Books {
            values: values.collect(),
            of: problems * samples,
            failures: BTreeMap::new(),
            written: None,
        };
        Self {
            parts,
            began: Instant::now(),
            seconds_before,
            samples,
            books: Mutex::new(books),
            store: Arc::new(Mutex::new(store)),
        }
    }

    async fn run(
        &self,
        progress: &(dyn Fn(Progress) + Send + Sync),
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Ended, RunError> {
        self.score_leftovers().await?;
        progress(self.progress());
        let assignments = self.missing();
        let (sender, receiver) = unbounded_channel();
        let failed = Notify::new();
        let playing = async {
            // Never more in the channel than there are assignments. A receiver that failed has said
            // so.
            let ended = move |played: Played| drop(sender.send(played));
            tokio::select! {
                biased;
                () = stop => Ok(Ended::Stopped),
                () = failed.notified() => Ok(Ended::Stopped),
                played = self.parts.player.play(&assignments, &ended) => {
                    played.map(|()| Ended::Finished).map_err(RunError::from)
                }
            }
        };
        let keeping = async {
            let kept = self.keep(receiver, progress).await;
            failed.notify_one();
            kept
        };
        let (played, kept) = tokio::join!(playing, keeping);
        kept.and(played)
    }

    /// Scores attempts that a session which was ended kept and did not score.
    async fn score_leftovers(&self) -> Result<(), RunError> {
        let leftovers: Vec<Attempt> = {
            let store = lock(&self.store);
            let saved = store.saved();
            let unscored = saved.attempts.iter().filter(|(id, _)| !saved.scores.contains_key(*id));
            unscored.map(|(_, attempt)| attempt.clone()).collect()
        };
        self.score(leftovers).await
    }

    /// What is to be made, problem by problem.
    fn missing(&self) -> Vec<Assignment> {
        let store = lock(&self.store);
        let attempts = &store.saved().attempts;
        let problems = self.parts.suite.problems.iter().enumerate();
        let wanted = problems.take(store.saved().protocol.suite.problems);
        let all = wanted.flat_map(|(number, problem)| {
            (0..self.samples as u32).map(move |sample| Assignment {
                task: Arc::clone(&problem.task),
                task_number: number as u64,
                sample,
            })
        });
        all.filter(|it| !attempts.contains_key(&(it.task.id.clone(), it.sample))).collect()
    }

    /// Keeps and scores attempts as they end, until no more come.
    async fn keep(
        &self,
        mut receiver: UnboundedReceiver<Played>,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), RunError> {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, BATCH).await > 0 {
            let mut attempts = Vec::with_capacity(batch.len());
            for Played { attempt, .. } in batch.drain(..) {
                match attempt {
                    Ok(attempt) => attempts.push(attempt),
                    Err(cause) => {
                        *lock(&self.books).failures.entry(cause).or_default() += 1;
                    }
                }
            }
            let to_keep = attempts.clone();
            self.on_store(move |store| store.keep_attempts(to_keep)).await?;
            self.score(attempts).await?;
            progress(self.progress());
            if self.result_is_due() {
                self.write_result().await?;
            }
        }
        Ok(())
    }

    async fn score(&self, attempts: Vec<Attempt>) -> Result<(), RunError> {
        let Scores { scores, unjudged } =
            scores(self.parts.suite, self.parts.judge, attempts).await?;
        {
            let mut books = lock(&self.books);
            for cause in unjudged {
                *books.failures.entry(cause).or_default() += 1;
            }
            let problems = &self.parts.suite.problems;
            for ((id, _), score) in &scores {
                let at = problems.iter().position(|problem| problem.task.id == *id);
                if let Some(values) = at.and_then(|at| books.values.get_mut(at)) {
                    values.push(score.value);
                }
            }
        }
        self.on_store(move |store| store.keep_scores(scores)).await
    }

    fn progress(&self) -> Progress {
        let books = lock(&self.books);
        Progress {
            ended: books.values.iter().map(Vec::len).sum(),
            of: books.of,
            failed: books.failures.values().sum(),
            score: Estimate::of_samples(&books.values),
        }
    }

    /// Votes of many samples take their time; then the result is written less often.
    fn result_is_due(&self) -> bool {
        let (since, took) = lock(&self.books).written.unwrap_or((self.began, Duration::ZERO));
        since.elapsed() >= RESULT_EVERY.max(took * 20)
    }

    async fn write_result(&self) -> Result<(), RunError> {
        let began = Instant::now();
        let circumstances = Circumstances {
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
            prices: self.parts.prices,
            failures: lock(&self.books).failures.clone(),
        };
        let suite = self.parts.suite.clone();
        let write = move |store: &mut Store| {
            let result = EvalResult::new(store.saved(), &suite, circumstances);
            store.write_result(result)
        };
        self.on_store(write).await?;
        lock(&self.books).written = Some((Instant::now(), began.elapsed()));
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

/// What attempts are worth.
struct Scores {
    scores: Vec<(AttemptId, Score)>,
    /// Why some could not be judged now; they may be another time.
    unjudged: Vec<String>,
}

/// Scores attempts. Those at problems that the suite no longer has are passed over.
async fn scores(
    suite: &Suite,
    judge: Option<&dyn Judge>,
    attempts: Vec<Attempt>,
) -> Result<Scores, RunError> {
    let by_id: BTreeMap<_, _> =
        suite.problems.iter().map(|problem| (&problem.task.id, problem)).collect();
    let known = attempts.into_iter().filter_map(|attempt| {
        let problem = *by_id.get(&attempt.problem)?;
        Some((problem, attempt))
    });
    let scored = stream::iter(known).map(|(problem, attempt)| async move {
        let score = score(problem, &attempt, judge).await;
        ((attempt.problem, attempt.sample), score)
    });
    let mut scored = scored.buffer_unordered(SCORED_AT_ONCE);
    let mut all = Scores { scores: Vec::new(), unjudged: Vec::new() };
    while let Some((id, one)) = scored.next().await {
        match one {
            Ok(score) => all.scores.push((id, score)),
            Err(error @ ScoreError::Judge { .. }) => all.unjudged.push(error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panicked under a lock left maps that are whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
