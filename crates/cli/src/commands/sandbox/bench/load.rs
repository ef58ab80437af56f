//! The load itself: calls one by one over a number of connections, or many in one request.
//!
//! Invariant: every call that was sent gives exactly one [`Sample`], answered or not.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures::future::join_all;
use hyper::StatusCode;
use hyper::body::Bytes;

use super::case::{Case, Job};
use super::client::{Caller, Target};
use super::wire::{Api, Elements, Judged, beginning};

/// One call as the client saw it.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) judged: Judged,
    /// From sending the request to the end of this call's answer.
    pub(crate) latency: Duration,
}

/// What to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) api: Api,
    pub(crate) case: Case,
    pub(crate) calls: usize,
    /// Requests under way at once, each on a connection of its own.
    pub(crate) in_flight: usize,
    /// Calls in one request; `None`: single calls.
    pub(crate) batch: Option<usize>,
    /// After this long without a whole answer a call is lost.
    pub(crate) patience: Duration,
}

impl Load {
    /// Sends everything and waits for the answers. `progress` is called with the number of calls
    /// that were just answered.
    ///
    /// # Errors
    /// The server can't be reached at all.
    pub(crate) async fn run(
        &self,
        target: &Target,
        client: &str,
        progress: &dyn Fn(u64),
    ) -> anyhow::Result<Finished> {
        let jobs: Vec<Job> = (0..self.calls).map(|index| self.case.job(index)).collect();
        let requests: Vec<Request<'_>> = match self.batch {
            None => jobs.iter().map(|job| self.single(job)).collect(),
            Some(size) => jobs.chunks(size).map(|jobs| self.many(jobs)).collect(),
        };
        let mut callers = Vec::new();
        for _ in 0..self.in_flight.min(requests.len()) {
            let mut caller = Caller::new(target, client);
            caller.connect().await?;
            callers.push(caller);
        }
        let samples = RefCell::new(Vec::with_capacity(self.calls));
        let next = Cell::new(0);
        let started = Instant::now();
        join_all(callers.into_iter().map(async |mut caller| {
            while let Some(request) = requests.get(next.replace(next.get() + 1)) {
                let answered = request.send(self, &mut caller).await;
                progress(answered.len() as u64);
                samples.borrow_mut().extend(answered);
            }
        }))
        .await;
        Ok(Finished { samples: samples.into_inner(), wall: started.elapsed() })
    }

    fn single<'a>(&self, job: &'a Job) -> Request<'a> {
        Request {
            path: self.api.call_path(),
            body: self.api.call_body(&job.program, None).into(),
            jobs: std::slice::from_ref(job),
            in_array: false,
        }
    }

    fn many<'a>(&self, jobs: &'a [Job]) -> Request<'a> {
        Request {
            // The options were checked: only an API with batches gets here.
            path: self.api.batch_path().unwrap_or_default(),
            body: self.api.batch_body(jobs).into(),
            jobs,
            in_array: true,
        }
    }
}

/// A finished load.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) samples: Vec<Sample>,
    pub(crate) wall: Duration,
}

/// One request, ready to be sent.
struct Request<'a> {
    path: &'static str,
    body: Bytes,
    jobs: &'a [Job],
    in_array: bool,
}

impl Request<'_> {
    async fn send(&self, load: &Load, caller: &mut Caller<'_>) -> Vec<Sample> {
        let started = Instant::now();
        let mut samples = Vec::with_capacity(self.jobs.len());
        let mut elements = Elements::default();
        let mut whole = Vec::new();
        let exchange = caller.post(self.path, self.body.clone(), |piece| {
            if !self.in_array {
                return whole.extend_from_slice(piece);
            }
            // The beginning is kept for the error that may stand there instead of an array.
            whole.extend(piece.iter().take(512_usize.saturating_sub(whole.len())));
            elements.feed(piece, |element| {
                // An answer too many is dropped here and shows as a mismatch of those before it.
                if let Some(job) = self.jobs.get(samples.len()) {
                    let judged = load.api.judge(element, &job.expected);
                    samples.push(Sample { judged, latency: started.elapsed() });
                }
            });
        });
        let result = match tokio::time::timeout(load.patience, exchange).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("no whole answer within {:?}", load.patience)),
        };
        let latency = started.elapsed();
        let missing = match result {
            Ok(StatusCode::OK) if self.in_array => {
                Judged::Lost("the answer holds fewer results than calls were sent".to_owned())
            }
            Ok(StatusCode::OK) => load.api.judge(&whole, &self.jobs[0].expected),
            Ok(StatusCode::TOO_MANY_REQUESTS) => Judged::Refused,
            Ok(status) => Judged::Lost(format!("{status}: {}", beginning(&whole))),
            Err(error) => Judged::Lost(format!("{error:#}")),
        };
        samples.resize(self.jobs.len(), Sample { judged: missing, latency });
        samples
    }
}
