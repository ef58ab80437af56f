//! One sample of one task, from its seat to an episode or to a cause why there is none.
//!
//! Drives the episode's state machine with what generator, tool and verifier give. Invariants: a
//! tool call leaves the moment it is complete, while its turn goes on; what the policy did is in the
//! episode; a failure of ours is tried again, the call alone where that is possible, else the whole
//! sample, whose draws are the same; a sample that fails too often is lost with its cause.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use rocstar_chat::Transcript;
use rocstar_record::draw::Key;
use rocstar_record::episode::{
    Activity, Doing, Episode, Finish, Timing, Verdict, VerdictKind, micros,
};

use crate::books::{Books, Place};
use crate::counts::Counts;
use crate::episode::{Asked, Identity, Machine, Next, Rules};
use crate::generator::{Ask, Generator, GeneratorError, Piece};
use crate::meter::Phase;
use crate::rollouts::RolloutError;
use crate::task::Task;
use crate::tool::{Answered, Tool, ToolError, ToolInstance};
use crate::tries::{self, pause};
use crate::verifier::Verifier;

/// What all samples of a rollout share.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) rules: Arc<Rules>,
    pub(crate) generator: Arc<dyn Generator>,
    pub(crate) tool: Option<Arc<dyn Tool>>,
    pub(crate) verifier: Arc<dyn Verifier>,
    pub(crate) books: Books,
    pub(crate) counts: Counts,
    /// When the first sample could begin.
    pub(crate) began: Instant,
}

/// A sample that is to be made.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) task: Arc<Task>,
    pub(crate) prompt: Arc<Transcript>,
    pub(crate) draw: Key,
}

/// Why an attempt came to nothing.
enum Failure {
    /// Another attempt may succeed.
    Again { what: String },
    /// It was tried often enough.
    Lost { what: String },
    /// No attempt of any sample can succeed.
    Fatal(RolloutError),
}

impl From<GeneratorError> for Failure {
    fn from(error: GeneratorError) -> Self {
        match error {
            GeneratorError::Failed { .. } => Self::Again { what: error.to_string() },
            // Of this ask, and it would be refused again; others may not be.
            GeneratorError::Refused { .. } => Self::Lost { what: error.to_string() },
            error @ (GeneratorError::Busy { .. } | GeneratorError::Stopped { .. }) => {
                Self::Fatal(error.into())
            }
        }
    }
}

impl From<ToolError> for Failure {
    /// A call's own failures were tried again already; what a session forgot takes the whole sample.
    fn from(error: ToolError) -> Self {
        let what = error.to_string();
        match error {
            ToolError::StateLost { .. } => Self::Again { what },
            ToolError::Busy { .. } | ToolError::Failed { .. } => Self::Lost { what },
        }
    }
}

impl Failure {
    fn render(task: &Task, source: rocstar_chat::Error) -> Self {
        Self::Fatal(RolloutError::Render { task: task.id.clone(), source: Box::new(source) })
    }
}

/// An episode without its verdict.
struct Unjudged {
    machine: Machine,
    finish: Finish,
    timing: Timing,
}

impl Surroundings {
    /// Makes the sample. `Err` within is the cause of its loss.
    pub(crate) async fn make(
        &self,
        sample: &Sample,
        place: &mut Place<'_>,
    ) -> Result<Result<Episode, String>, RolloutError> {
        let tries = self.rules.options.tries;
        let mut cause = String::new();
        for attempt in 0..tries {
            if attempt > 0 {
                Counts::add(&self.counts.tried_again, 1);
                pause(attempt - 1).await;
            }
            match self.attempt(sample, place).await {
                Ok(mut unjudged) => {
                    place.leave();
                    let began = Instant::now();
                    let verdict = self.judge(&sample.task, &unjudged).await;
                    place.end();
                    unjudged.timing.activities.push(self.did(Doing::Verifying, began));
                    return Ok(verdict.map(|verdict| {
                        let Unjudged { machine, finish, timing } = unjudged;
                        machine.into_episode(finish, verdict, timing)
                    }));
                }
                Err(Failure::Again { what }) => cause = what,
                Err(Failure::Lost { what }) => {
                    cause = what;
                    break;
                }
                Err(Failure::Fatal(error)) => return Err(error),
            }
        }
        Ok(Err(cause))
    }

    /// One attempt, up to the verdict.
    async fn attempt(&self, sample: &Sample, place: &mut Place<'_>) -> Result<Unjudged, Failure> {
        let began = Instant::now();
        let identity = Identity { task: sample.task.id.clone(), draw: sample.draw };
        let prompt = Transcript::clone(&sample.prompt);
        let (mut machine, mut ask) = Machine::start(Arc::clone(&self.rules), identity, prompt);
        let tool = self.tool.as_ref().map(|tool| tool.open(sample.draw));
        let mut timing = Timing::default();
        place.phase(Phase::Generates);
        place.grow(0);
        loop {
            let turn = Instant::now();
            let mut calls = Calls::new(self, tool.as_deref());
            self.generate(ask, &mut machine, &mut calls, sample, place).await?;
            let generated = Instant::now();
            timing.generating_us += micros(generated - turn);
            let activity = self.did(Doing::Generating, turn);
            timing.activities.push(activity);
            if calls.is_open() {
                place.phase(Phase::WaitsForTool);
                calls.finish().await?;
                timing.tools_us += micros(generated.elapsed());
                place.phase(Phase::Generates);
            }
            timing.activities.append(&mut calls.activities);
            let next = machine.proceed(calls.answers);
            match next.map_err(|source| Failure::render(&sample.task, source))? {
                Next::Generate(next) => ask = next,
                Next::Finished(finish) => {
                    timing.total_us = micros(began.elapsed());
                    return Ok(Unjudged { machine, finish, timing });
                }
            }
            place.grow(machine.response_tokens());
        }
    }

    /// One turn: tokens into the machine, calls out of it.
    async fn generate(
        &self,
        ask: Ask,
        machine: &mut Machine,
        calls: &mut Calls<'_>,
        sample: &Sample,
        place: &Place<'_>,
    ) -> Result<(), Failure> {
        let mut pieces = tries::generate(&*self.generator, ask).await?;
        loop {
            tokio::select! {
                biased;
                piece = pieces.next() => match piece {
                    Some(Ok(Piece::Tokens(tokens))) => {
                        Counts::add(&self.counts.policy_tokens, tokens.len());
                        let asked = machine.tokens(&tokens);
                        calls.add(asked.map_err(|source| Failure::render(&sample.task, source))?);
                        place.grow(machine.response_tokens());
                    }
                    Some(Ok(Piece::End(end))) => {
                        calls.add(machine.end(end));
                        return Ok(());
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => {
                        let cause = "the tokens ended without an end".to_owned();
                        return Err(GeneratorError::Failed { cause }.into());
                    }
                },
                called = calls.running.next(), if calls.is_running() => {
                    calls.take(called)?;
                }
            }
        }
    }

    /// What was done from `began` until now.
    fn did(&self, what: Doing, began: Instant) -> Activity {
        let from_us = micros(began.saturating_duration_since(self.began));
        Activity { what, from_us, us: micros(began.elapsed()) }
    }

    /// The verdict on a finished episode. `Err` is the cause of its loss.
    async fn judge(&self, task: &Task, unjudged: &Unjudged) -> Result<Verdict, String> {
        if unjudged.finish != Finish::Done {
            let explanation = match unjudged.finish {
                Finish::TurnLimit => "the last turn that is allowed called a tool",
                Finish::TokenLimit => "the response was cut off: its tokens ran out",
                Finish::ContextLimit => "the response was cut off: the context is full",
                Finish::ToolAnswerTooLong | Finish::Done => {
                    "the response was cut off: the tool's answer left no room"
                }
            };
            let explanation = format!("no final answer: {explanation}");
            let kind = VerdictKind::Unparseable;
            return Ok(Verdict { kind, answer: None, explanation, second_opinion: None });
        }
        let text = unjudged.machine.answer_text();
        let mut tries = 0;
        loop {
            let began = Instant::now();
            let verdict = self.verifier.verify(task, text).await;
            Counts::add(&self.counts.verifier_busy_us, micros(began.elapsed()) as usize);
            tries += 1;
            match verdict {
                Ok(verdict) => return Ok(verdict),
                Err(error) if tries >= self.rules.options.tries => return Err(error.to_string()),
                Err(_) => {
                    Counts::add(&self.counts.tried_again, 1);
                    pause(tries - 1).await;
                }
            }
        }
    }
}

/// The calls of one turn.
struct Calls<'run> {
    surroundings: &'run Surroundings,
    tool: Option<&'run dyn ToolInstance>,
    waiting: VecDeque<Asked>,
    running: FuturesUnordered<BoxFuture<'run, Called>>,
    answers: Vec<(usize, Answered)>,
    activities: Vec<Activity>,
}

/// What became of a call, by its place in the turn, and when.
type Called = (usize, Result<Answered, Failure>, Activity);

impl<'run> Calls<'run> {
    fn new(surroundings: &'run Surroundings, tool: Option<&'run dyn ToolInstance>) -> Self {
        Self {
            surroundings,
            tool,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            answers: Vec::new(),
            activities: Vec::new(),
        }
    }

    /// Sends calls off: all at once, or one after another where each depends on the one before.
    fn add(&mut self, asked: Vec<Asked>) {
        self.waiting.extend(asked);
        self.send();
    }

    fn send(&mut self) {
        let Some(tool) = self.tool else { return };
        while !(self.waiting.is_empty() || tool.is_sequential() && self.is_running()) {
            let Some(asked) = self.waiting.pop_front() else { return };
            let surroundings = self.surroundings;
            let (counts, tries) = (&surroundings.counts, surroundings.rules.options.tries);
            self.running.push(Box::pin(async move {
                let began = Instant::now();
                let answered = tries::call(tool, &asked.call, tries, counts).await;
                let activity = surroundings.did(Doing::Tool, began);
                (asked.index, answered.map_err(Failure::from), activity)
            }));
        }
    }

    fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    fn is_open(&self) -> bool {
        self.is_running() || !self.waiting.is_empty()
    }

    fn take(&mut self, called: Option<Called>) -> Result<(), Failure> {
        if let Some((index, answered, activity)) = called {
            self.activities.push(activity);
            self.answers.push((index, answered?));
        }
        self.send();
        Ok(())
    }

    /// Waits for all answers.
    async fn finish(&mut self) -> Result<(), Failure> {
        while self.is_running() {
            let called = self.running.next().await;
            self.take(called)?;
        }
        Ok(())
    }
}
