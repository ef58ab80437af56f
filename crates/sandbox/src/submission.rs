//! One submission: its calls on the way to the workers, its answers on the way to the caller.
//!
//! A single call, a batch, a judgement and a session's cell are all submissions; nothing is made
//! per call but its answer. Invariant: each call that was accepted is begun at most once and its
//! answer is delivered at most once. A submission whose answers nobody reads asks to be paused, so
//! that unread answers stay within [`UNREAD_CALLS`] and about [`UNREAD_BYTES`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rocstar_jail::{Cancel, Control, Jail, Outcome, Report};

use crate::Error;

/// Unread answers at which a submission is paused.
const UNREAD_CALLS: usize = 1_024;
/// Bytes of unread answers at which a submission is paused. Calls that run at that moment still
/// deliver theirs.
const UNREAD_BYTES: usize = 8 << 20;

/// What a worker does for one call. It blocks.
pub(crate) type Job = Box<dyn FnOnce(&Jail, &Control<'_>) -> Answer + Send>;

/// Gives the job of each call, by its index, once.
pub(crate) type Source = Box<dyn FnMut(usize) -> Option<Job> + Send>;

/// What became of one accepted call.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly every answer is a report")]
pub(crate) enum Answer {
    Report(Report),
    DeadlinePassed { waited_ms: u64 },
    SessionEnded { id: String, cause: String },
    ShuttingDown,
}

impl Answer {
    /// The jail could not do what it had been asked, although the request was checked: our failure,
    /// told as such.
    pub(crate) fn failed(error: &rocstar_jail::Error) -> Self {
        let cause = error.to_string();
        Self::Report(Report::without_run(Outcome::Infrastructure { cause }))
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::Report(report) => {
                let files = report.files.iter().flat_map(|file| &file.content).map(Vec::len);
                let value = report.value.as_ref().map_or(0, String::len);
                report.stdout.text.len() + report.stderr.text.len() + value + files.sum::<usize>()
            }
            Self::DeadlinePassed { .. } | Self::SessionEnded { .. } | Self::ShuttingDown => 0,
        }
    }
}

impl From<Answer> for crate::Result<Report> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Report(report) => Ok(report),
            Answer::DeadlinePassed { waited_ms } => Err(Error::DeadlinePassed { waited_ms }),
            Answer::SessionEnded { id, cause } => Err(Error::NoSession { id, cause }),
            Answer::ShuttingDown => Err(Error::ShuttingDown),
        }
    }
}

/// See the module's text.
pub(crate) struct Submission {
    inbox: Mutex<Inbox>,
}

struct Inbox {
    source: Option<Source>,
    /// Calls from this index on are no longer wanted.
    wanted_below: usize,
    running: Vec<(usize, Cancel)>,
    unread: VecDeque<(usize, Answer)>,
    unread_bytes: usize,
    paused: bool,
    reader: Option<Waker>,
}

/// What has to be done, outside the submission's lock, after an answer was put in.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// To be woken.
    pub(crate) reader: Option<Waker>,
    /// Too much is unread: start no more of its calls.
    pub(crate) pause: bool,
}

/// One answer, read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) index: usize,
    pub(crate) answer: Answer,
    /// It is paused although enough has been read: [`Submission::resume`] it.
    pub(crate) resume: bool,
}

impl fmt::Debug for Submission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Submission").finish_non_exhaustive()
    }
}

impl Submission {
    pub(crate) fn new(source: Source) -> Self {
        let inbox = Inbox {
            source: Some(source),
            wanted_below: usize::MAX,
            running: Vec::new(),
            unread: VecDeque::new(),
            unread_bytes: 0,
            paused: false,
            reader: None,
        };
        Self { inbox: Mutex::new(inbox) }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No code that can panic half-way through a change runs under this lock.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job of a call that has been started, or nothing if it is no longer wanted.
    pub(crate) fn begin(&self, index: usize) -> Option<(Job, Cancel)> {
        let mut inbox = self.lock();
        if index >= inbox.wanted_below {
            return None;
        }
        let job = inbox.source.as_mut()?(index)?;
        let cancel = Cancel::default();
        inbox.running.push((index, cancel.clone()));
        Some((job, cancel))
    }

    /// Puts the answer of one call in.
    pub(crate) fn deliver(&self, index: usize, answer: Answer) -> Delivered {
        let mut inbox = self.lock();
        inbox.running.retain(|(running, _)| *running != index);
        inbox.unread_bytes += answer.size_bytes();
        inbox.unread.push_back((index, answer));
        let too_much = inbox.unread.len() >= UNREAD_CALLS || inbox.unread_bytes >= UNREAD_BYTES;
        let pause = too_much && !inbox.paused;
        inbox.paused |= too_much;
        Delivered { reader: inbox.reader.take(), pause }
    }

    /// The next answer, as soon as there is one.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>) -> Poll<Read> {
        let mut inbox = self.lock();
        match inbox.unread.pop_front() {
            Some((index, answer)) => {
                inbox.unread_bytes -= answer.size_bytes();
                Poll::Ready(Read { index, answer, resume: inbox.wants_resume() })
            }
            None => {
                inbox.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Marks it as no longer paused, if enough has been read.
    pub(crate) fn resume(&self) -> bool {
        let mut inbox = self.lock();
        let resume = inbox.wants_resume();
        inbox.paused &= !resume;
        resume
    }

    /// Calls from `index` on are no longer wanted: running ones are cancelled, and none begins.
    pub(crate) fn unwant_from(&self, index: usize) {
        let mut inbox = self.lock();
        inbox.wanted_below = inbox.wanted_below.min(index);
        let unwanted = inbox.running.iter().filter(|(running, _)| *running >= index);
        unwanted.for_each(|(_, cancel)| cancel.cancel());
    }

    /// Nobody will read: cancels everything, and hands back what was held, to be dropped outside
    /// of any lock.
    pub(crate) fn abandon(&self) -> impl Sized + use<> {
        self.unwant_from(0);
        let mut inbox = self.lock();
        (inbox.source.take(), std::mem::take(&mut inbox.unread))
    }
}

impl Inbox {
    fn wants_resume(&self) -> bool {
        self.paused && self.unread.len() < UNREAD_CALLS / 2 && self.unread_bytes < UNREAD_BYTES / 2
    }
}
