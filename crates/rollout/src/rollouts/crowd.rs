//! All samples of a rollout, as many at once as there is room for.
//!
//! Invariants: samples are admitted task by task and, within a task, by number, so that those that
//! share a prompt start together; room that was freed is given away before anything else is waited
//! for. All of it runs in the caller's task: dropping it ends everything.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream as _};
use rocstar_chat::Transcript;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::Episode;

use super::{At, RolloutError};
use crate::books::Place;
use crate::sample::{Sample, Surroundings};
use crate::scheduler::Applicant;
use crate::task::Task;

/// A sample that ended.
pub(super) struct Ended {
    /// Index of its task.
    pub(super) task: usize,
    /// Its number within the task.
    pub(super) sample: u32,
    /// The episode, or why there is none.
    pub(super) result: Result<Episode, String>,
}

/// Samples that wait and samples that run.
pub(super) struct Crowd<'run> {
    surroundings: &'run Surroundings,
    at: At,
    tasks: &'run [Arc<Task>],
    prompts: &'run [Arc<Transcript>],
    /// The next sample to admit.
    next: (usize, usize),
    running: FuturesUnordered<BoxFuture<'run, Result<Ended, RolloutError>>>,
}

impl<'run> Crowd<'run> {
    pub(super) fn new(
        surroundings: &'run Surroundings,
        at: At,
        tasks: &'run [Arc<Task>],
        prompts: &'run [Arc<Transcript>],
    ) -> Self {
        let running = FuturesUnordered::new();
        Self { surroundings, at, tasks, prompts, next: (0, 0), running }
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
        while let Some((task, sample)) = self.first_waiting() {
            let prompt_tokens = self.prompts[task].tokens().len();
            let Some(place) = self.surroundings.books.admit(Applicant { task, prompt_tokens })
            else {
                break;
            };
            self.running.push(self.start(task, sample, place));
            self.next.1 += 1;
            any = true;
        }
        any
    }

    fn first_waiting(&mut self) -> Option<(usize, usize)> {
        if self.next.1 == self.surroundings.rules.options.samples {
            self.next = (self.next.0 + 1, 0);
        }
        (self.next.0 < self.tasks.len()).then_some(self.next)
    }

    fn start(
        &self,
        task: usize,
        sample: usize,
        mut place: Place<'run>,
    ) -> BoxFuture<'run, Result<Ended, RolloutError>> {
        let surroundings = self.surroundings;
        let draw = Key {
            step: self.at.step,
            task: self.at.first_task + task as u64,
            sample: sample as u32,
            ..Key::new(self.at.seed, Purpose::Sampling)
        };
        let (of, prompt) = (Arc::clone(&self.tasks[task]), Arc::clone(&self.prompts[task]));
        Box::pin(async move {
            let this = Sample { task: of, prompt, draw };
            let result = surroundings.make(&this, &mut place).await?;
            Ok(Ended { task, sample: draw.sample, result })
        })
    }
}
