//! Attempts at problems by servers that speak messages.
//!
//! Invariant: all of it runs in the caller's task, and attempts begin in the order of the list:
//! dropping the future ends everything.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use rocstar_record::draw::{Key, Purpose};

use super::dialogue::{Missed, Rules, attempt};
use super::endpoints::Endpoints;
use super::error::RemoteError;
use super::options::ToolCalls;
use super::tools::Dialect;
use crate::player::{Assignment, PlayError, Played, Player};
use crate::rollouts::RolloutError;
use crate::settings::{RolloutOptions, ToolMode};
use crate::tool::Tool;

/// What a player needs beside the settings of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatOptions {
    /// Names all draws, with the problem's number, the sample's and the turn's.
    pub seed: u64,
    /// Longest answer of a tool, in characters: the model's tokens aren't known here, so
    /// `tool_answer_tokens` can't be kept. What is longer loses its middle, with a mark.
    pub tool_answer_chars: usize,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { seed: 0, tool_answer_chars: 2048 }
    }
}

/// Makes attempts by asking servers in messages.
#[derive(Debug)]
pub struct ChatPlayer {
    rules: Rules,
    most_running: usize,
}

impl ChatPlayer {
    /// Puts servers, tool and settings together. Of `options`, `samples` and `tool_answer_tokens`
    /// are not looked at.
    ///
    /// # Errors
    /// Settings that can't work or don't fit the tool.
    pub fn new(
        endpoints: Arc<Endpoints>,
        tool: Option<Arc<dyn Tool>>,
        options: RolloutOptions,
        chat: ChatOptions,
    ) -> Result<Self, PlayError> {
        let most_running = match options.most_running {
            0 => endpoints.max_concurrent(),
            most => most,
        };
        let rules = Rules::new(endpoints, tool, options, chat)?;
        Ok(Self { rules, most_running })
    }

    async fn play_all(
        &self,
        assignments: &[Assignment],
        ended: &(dyn Fn(Played) + Send + Sync),
    ) -> Result<(), PlayError> {
        let mut waiting = assignments.iter().enumerate();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.most_running {
                let Some((index, assignment)) = waiting.next() else { break };
                running.push(async move { (index, self.make(assignment).await) });
            }
            let Some((index, made)) = running.next().await else { return Ok(()) };
            let attempt = match made {
                Ok(attempt) => Ok(attempt),
                Err(Missed::This { cause }) => Err(cause),
                Err(Missed::All(error)) => return Err(error.into()),
            };
            ended(Played { index, attempt });
        }
    }

    async fn make(
        &self,
        assignment: &Assignment,
    ) -> Result<rocstar_record::attempt::Attempt, Missed> {
        let draw = Key {
            task: assignment.task_number,
            sample: assignment.sample,
            ..Key::new(self.rules.chat.seed, Purpose::Sampling)
        };
        attempt(&self.rules, assignment, draw).await
    }
}

impl Player for ChatPlayer {
    fn play<'run>(
        &'run self,
        assignments: &'run [Assignment],
        ended: &'run (dyn Fn(Played) + Send + Sync),
    ) -> BoxFuture<'run, Result<(), PlayError>> {
        Box::pin(self.play_all(assignments, ended))
    }
}

impl Rules {
    /// Puts servers, tool and settings together.
    ///
    /// # Errors
    /// Settings that can't work or don't fit the tool or each other.
    pub(super) fn new(
        endpoints: Arc<Endpoints>,
        tool: Option<Arc<dyn Tool>>,
        options: RolloutOptions,
        chat: ChatOptions,
    ) -> Result<Self, PlayError> {
        let problems = options.validate();
        if !problems.is_empty() {
            return Err(RolloutError::Options(problems).into());
        }
        let (wanted, given) = match (options.tool, &tool) {
            (ToolMode::None, None) | (ToolMode::Stateless | ToolMode::Session, Some(_)) => ("", ""),
            (ToolMode::None, Some(_)) => ("none", "a tool was given"),
            (_, None) => ("a tool", "none was given"),
        };
        if !given.is_empty() {
            return Err(RolloutError::ToolMismatch { wanted, given }.into());
        }
        let Some(first) = endpoints.all().first() else { return Err(RemoteError::None.into()) };
        let unlike = |it: &&super::endpoints::Endpoint| {
            it.options.tool_calls != first.options.tool_calls
                || it.options.call_format != first.options.call_format
        };
        if let Some(other) = endpoints.all().iter().find(unlike) {
            let problem = "`tool_calls` and `call_format` must be the same for all endpoints: the \
                           model reads one conversation wherever it goes";
            let url = other.options.url.clone();
            return Err(RemoteError::Options { url, problems: vec![problem.to_owned()] }.into());
        }
        let dialect = match (first.options.tool_calls, first.options.call_format.parse()) {
            (ToolCalls::Server, _) => Dialect::Server,
            (ToolCalls::Ours, Ok(format)) => Dialect::Ours(format),
            (ToolCalls::Ours, Err(unknown)) => {
                let (url, problems) = (first.options.url.clone(), vec![unknown.to_string()]);
                return Err(RemoteError::Options { url, problems }.into());
            }
        };
        let return_reasoning = first.options.return_reasoning;
        Ok(Self { endpoints, tool, options, chat, dialect, return_reasoning })
    }
}
