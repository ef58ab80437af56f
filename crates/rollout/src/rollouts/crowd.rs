//! All samples that are wanted, as many at once as there is room for.
//!
//! Invariants: samples are admitted in the order given, so that those that share a prompt start
//! together where they stand together; room that was freed is given away before anything else is
//! waited for. All of it runs in the caller's task: dropping it ends everything.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream as _};
use rocstar_chat::Transcript;
use rocstar_record::draw::Key;
use rocstar_record::episode::Episode;

use super::RolloutError;
use crate::books::Place;
use crate::sample::{Sample, Surroundings};
use crate::scheduler::Applicant;
use crate::task::Task;

/// A sample that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Samples with the same number have the same prompt.
    pub(super) prompt_number: usize,
    pub(super) task: Arc<Task>,
    pub(super) prompt: Arc<Transcript>,
    pub(super) draw: Key,
}

/// A sample that ended.
pub(super) struct Ended {
    /// Index among those that are wanted.
    pub(super) index: usize,
    /// The episode, or why there is none.
    pub(super) result: Result<Episode, String>,
}

/// Samples that wait and samples that run.
pub(super) struct Crowd<'run> {
    surroundings: &'run Surroundings,
    wanted: &'run [Wanted],
    /// The next sample to admit.
    next: usize,
    running: FuturesUnordered<BoxFuture<'run, Result<Ended, RolloutError>>>,
}

impl<'run> Crowd<'run> {
    pub(super) fn new(surroundings: &'run Surroundings, wanted: &'run [Wanted]) -> Self {
        Self { surroundings, wanted, next: 0, running: FuturesUnordered::new() }
    }

    /// The next sample that ends; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<Ended, RolloutError>> {
        std::future::poll_fn(|context| {
            loop {
                self.admit();
                match Pin::new(&mut self.running).poll_next(context) {
                    // What ran just now may have made room.
                    Poll::Pending if self.admit() => {}
                    other => return other,
                }
            }
        })
        .await
    }

    /// Admits who can be; whether there was anyone.
    fn admit(&mut self) -> bool {
        let mut any = false;
        while let Some(wanted) = self.wanted.get(self.next) {
            let prompt_tokens = wanted.prompt.tokens().len();
            let applicant = Applicant { task: wanted.prompt_number, prompt_tokens };
            let Some(place) = self.surroundings.books.admit(applicant) else { break };
            self.running.push(start(self.surroundings, self.next, wanted, place));
            self.next += 1;
            any = true;
        }
        any
    }
}

fn start<'run>(
    surroundings: &'run Surroundings,
    index: usize,
    wanted: &Wanted,
    mut place: Place<'run>,
) -> BoxFuture<'run, Result<Ended, RolloutError>> {
    let Wanted { task, prompt, draw, .. } = wanted.clone();
    Box::pin(async move {
        let sample = Sample { task, prompt, draw };
        let result = surroundings.make(&sample, &mut place).await?;
        // An episode whose parts don't fit came from a generator that gave what can't be.
        let result = result.and_then(|episode| match episode.check() {
            Ok(()) => Ok(episode),
            Err(misfit) => Err(format!("the generator gave what can't be written: {misfit}")),
        });
        Ok(Ended { index, result })
    })
}
