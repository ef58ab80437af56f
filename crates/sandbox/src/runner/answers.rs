//! The caller's end of a submission.
//!
//! Invariant: while an [`Answers`] lives, each answer of its submission is given once; when it is
//! dropped, nothing more is done for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use tokio::time::Sleep;

use super::shared::Shared;
use crate::scheduler::Ticket;
use crate::submission::{Answer, Submission};

/// The answers of one submission, as its calls end. Dropping it gives up what is left: waiting
/// calls leave the queue, running ones are cancelled.
#[derive(Debug)]
pub(crate) struct Answers {
    shared: Arc<Shared>,
    submission: Arc<Submission>,
    ticket: Ticket,
    /// Answers still to come.
    expected: usize,
    /// Wakes this stream when calls that have not started must be answered. The scheduler checks
    /// deadlines itself before it starts a call; this makes the answer prompt.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Answers {
    pub(super) fn new(
        shared: Arc<Shared>,
        submission: Arc<Submission>,
        ticket: Ticket,
        expected: usize,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        Self { shared, submission, ticket, expected, deadline }
    }

    /// Gives up the calls from `index` on. Calls below it must have started: those of one lane
    /// start in order.
    pub(crate) fn give_up_from(&mut self, index: usize) {
        self.expected -= self.shared.give_up_from(self.ticket, &self.submission, index);
    }
}

impl Stream for Answers {
    type Item = (usize, Answer);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.expected == 0 {
            return Poll::Ready(None);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            self.deadline = None;
            self.shared.expire(self.ticket);
        }
        let read = ready!(self.submission.poll_read(context));
        self.expected -= 1;
        if read.resume {
            self.shared.resume(self.ticket, &self.submission);
        }
        Poll::Ready(Some((read.index, read.answer)))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if self.expected > 0 {
            self.shared.give_up_from(self.ticket, &self.submission, 0);
            drop(self.submission.abandon());
        }
    }
}
