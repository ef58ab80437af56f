//! A [`Player`] whose tokens are known: attempts are episodes, decoded.
//!
//! Invariant: an attempt's text is what its tokens say, and its calls are what the episode's parser
//! read in them, so that the same model behind a server that speaks messages gives the same attempt.

use std::sync::Arc;

use futures::future::BoxFuture;
use rocstar_chat::calls::{CallFormat, Event};
use rocstar_chat::{Show, StreamDecoder};
use rocstar_record::attempt::{Attempt, AttemptCall, AttemptTurn, SCHEMA_VERSION, TokenCounts};
use rocstar_record::episode::{Author, Episode, Finish, Timing, Turn, Verdict, VerdictKind};
use rocstar_record::message::ToolCall;

use super::{Assignment, PlayError, Played, Player};
use crate::generator::Generator;
use crate::rollouts::{NoEpisode, Policy, RolloutError, Rollouts};
use crate::settings::RolloutOptions;
use crate::task::Task;
use crate::tool::Tool;
use crate::verifier::{Verifier, VerifierError};

/// Plays with a [`Generator`]: the engine in this process, or a server of tokens.
#[derive(Debug)]
pub struct TokenPlayer {
    rollouts: Rollouts,
    policy: Policy,
    seed: u64,
    /// What attempts say of who made them.
    name: String,
    /// Whether calls of the tool are read out of the text.
    has_tool: bool,
}

impl TokenPlayer {
    /// Plays under `options`, of which `samples` is not looked at. `seed` names the draws, `name` is
    /// what attempts say of their maker.
    ///
    /// # Errors
    /// Settings that can't work, or that don't fit the tool or the family.
    pub fn new(
        policy: Policy,
        generator: Arc<dyn Generator>,
        tool: Option<Arc<dyn Tool>>,
        options: RolloutOptions,
        (seed, name): (u64, String),
    ) -> Result<Self, RolloutError> {
        let has_tool = tool.is_some();
        let rollouts =
            Rollouts::new(policy.clone(), generator, tool, Arc::new(NoVerdict), options)?;
        Ok(Self { rollouts, policy, seed, name, has_tool })
    }

    fn attempt(&self, task: &Task, episode: &Episode) -> Attempt {
        let reads_calls = self.has_tool || !task.functions.is_empty();
        let format = self.policy.family.call_format().filter(|_| reads_calls);
        let turns = episode.turns.iter();
        Attempt {
            schema: SCHEMA_VERSION,
            problem: episode.task.clone(),
            sample: episode.sample,
            turns: turns.map(|turn| self.turn(episode, turn, format.as_ref())).collect(),
            finish: episode.finish,
            tokens: tokens(episode),
            // An attempt is read by whoever compares answers: when what was done is of no use there.
            timing: Timing { activities: Vec::new(), ..episode.timing.clone() },
            generator: self.name.clone(),
        }
    }

    fn turn(&self, episode: &Episode, turn: &Turn, format: Option<&CallFormat>) -> AttemptTurn {
        let Policy { tokenizer, family } = &self.policy;
        let end = tokenizer.token_id(family.end_of_turn());
        let is_end = |token: &u32| Some(*token) == end || Some(*token) == tokenizer.end_token();
        let sampled = turn.start_token..turn.start_token + turn.policy_tokens;
        let sampled = episode.tokens.get(sampled).unwrap_or_default();
        let is_whole = sampled.last().is_some_and(is_end);
        let mut decoder = StreamDecoder::new(tokenizer, Show::All);
        let said = sampled.iter().filter(|token| !is_end(token));
        let mut text: String = said.map(|token| decoder.push(*token)).collect();
        text += &decoder.finish();
        let Some(format) = format else {
            return AttemptTurn { text, ..AttemptTurn::default() };
        };
        let (text, calls) = read_calls(format, &text, is_whole);
        let mut runs = turn.calls.iter().cloned();
        let calls = calls.into_iter().map(|call| AttemptCall { call, run: runs.next() });
        AttemptTurn { text, reasoning: None, calls: calls.collect() }
    }

    /// The attempt of a model that can't read the whole problem: it said nothing.
    fn silent(&self, assignment: &Assignment, prompt_tokens: usize) -> Attempt {
        Attempt {
            schema: SCHEMA_VERSION,
            problem: assignment.task.id.clone(),
            sample: assignment.sample,
            turns: Vec::new(),
            finish: Finish::ContextLimit,
            tokens: TokenCounts {
                prompt_tokens: Some(prompt_tokens),
                policy_tokens: Some(0),
                response_tokens: Some(0),
                are_exact: true,
            },
            timing: Timing::default(),
            generator: self.name.clone(),
        }
    }
}

impl Player for TokenPlayer {
    fn play<'run>(
        &'run self,
        assignments: &'run [Assignment],
        ended: &'run (dyn Fn(Played) + Send + Sync),
    ) -> BoxFuture<'run, Result<(), PlayError>> {
        Box::pin(async move {
            let one_ended = |index: usize, result: Result<Episode, NoEpisode>| {
                let Some(assignment) = assignments.get(index) else { return };
                let attempt = match result {
                    Ok(episode) => Ok(self.attempt(&assignment.task, &episode)),
                    Err(NoEpisode::Lost { cause }) => Err(cause),
                    Err(NoEpisode::PromptTooLong { prompt_tokens }) => {
                        Ok(self.silent(assignment, prompt_tokens))
                    }
                };
                ended(Played { index, attempt });
            };
            self.rollouts.roll_out_each(self.seed, assignments, &one_ended).await?;
            Ok(())
        })
    }
}

/// The text of a turn, calls apart, and its calls. As in an episode, a call that a limit cut in two
/// is none.
fn read_calls(format: &CallFormat, text: &str, is_whole: bool) -> (String, Vec<Option<ToolCall>>) {
    let mut parser = format.parser();
    let mut events = parser.push(text);
    let complete = events.len();
    events.extend(parser.finish());
    let (mut own, mut calls) = (String::new(), Vec::new());
    for (index, event) in events.into_iter().enumerate() {
        let counts = is_whole || index < complete;
        match event {
            Event::Text(text) => own += &text,
            Event::Call(parsed) if counts => calls.push(Some(parsed.call)),
            Event::Failed(_) if counts => calls.push(None),
            Event::Call(_) | Event::Failed(_) => {}
        }
    }
    (own, calls)
}

fn tokens(episode: &Episode) -> TokenCounts {
    let prompt = episode.spans.iter().take_while(|span| span.author != Author::Policy);
    TokenCounts {
        prompt_tokens: Some(prompt.map(|span| span.tokens).sum()),
        policy_tokens: Some(episode.policy_tokens()),
        response_tokens: Some(episode.response_tokens()),
        are_exact: true,
    }
}

/// Attempts are scored by who asked for them.
#[derive(Debug)]
struct NoVerdict;

impl Verifier for NoVerdict {
    fn verify(&self, _: &Task, _: &str) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let explanation = "not asked for".to_owned();
        let kind = VerdictKind::Undecided;
        let verdict = Verdict { kind, answer: None, explanation, second_opinion: None };
        Box::pin(async { Ok(verdict) })
    }
}
