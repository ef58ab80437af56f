//! A conversation with a person: replies that call the tool, heard as they come.
//!
//! Hides whether the model's tokens are known. Invariants: a reply follows the rules of an episode,
//! so a model is spoken to as it was trained; a reply that fails or is dropped leaves the
//! conversation as it was before it, the tool's own state apart.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::StreamExt as _;
use rocstar_chat::Transcript;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Call, Finish, TaskId, Timing, micros};
use rocstar_record::message::{Message, Role, ToolCall};

use crate::counts::Counts;
use crate::episode::{Asked, Identity, Machine, Next, Rules};
use crate::generator::{Generator, GeneratorError, Piece};
use crate::remote::RemoteError;
use crate::rollouts::{Policy, RolloutError, rules};
use crate::settings::RolloutOptions;
use crate::tool::{Answered, Tool, ToolError, ToolInstance};
use crate::tries;

/// What is heard while a reply comes.
#[derive(Debug)]
pub enum Heard<'reply> {
    /// More of the model's text, calls apart.
    Text(&'reply str),
    /// The turn broke off and is made again: its text so far is void.
    Again,
    /// A call is complete, and is being run.
    Called(&'reply ToolCall),
    /// What a call came to; calls of one turn end in any order.
    Answered(&'reply ToolCall, &'reply Answered),
    /// Something that looks like a call, and was not run.
    NotRun(&'reply Call),
}

/// A reply that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The model's text of each turn, calls apart.
    pub texts: Vec<String>,
    /// Its calls that were answered, in order.
    pub calls: Vec<Call>,
    /// How it ended.
    pub finish: Finish,
    /// Tokens of the conversation before the reply; `None` where they aren't known.
    pub prompt_tokens: Option<usize>,
    /// Tokens that the model sampled; `None` where they aren't known.
    pub policy_tokens: Option<usize>,
    /// Where the time went.
    pub timing: Timing,
}

/// Why there is no reply. Never the model's doing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// No tokens come.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// No server answers.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// This reply failed; saying the message again may help.
    #[error("the reply failed: {cause}")]
    Failed {
        /// What happened.
        cause: String,
    },
    /// The message can't be written as the model reads it.
    #[error("the message can't be written: {0}")]
    Render(#[from] rocstar_chat::Error),
    /// The conversation fills the model's context.
    #[error(
        "the conversation has {prompt_tokens} tokens, and the model reads {longest_tokens}: begin \
         a new one"
    )]
    Full {
        /// Tokens so far.
        prompt_tokens: usize,
        /// Most tokens.
        longest_tokens: usize,
    },
}

/// Talks with a model.
pub trait Conversation: Send + fmt::Debug {
    /// Says `message` and hears the reply.
    ///
    /// # Errors
    /// We failed; the message may be said again.
    fn say<'reply>(
        &'reply mut self,
        message: &'reply str,
        hear: &'reply mut (dyn FnMut(Heard<'_>) + Send),
    ) -> BoxFuture<'reply, Result<Reply, ConversationError>>;
}

/// A conversation in tokens, with any [`Generator`].
#[derive(Debug)]
pub struct TokenConversation {
    rules: Arc<Rules>,
    generator: Arc<dyn Generator>,
    tool: Option<Box<dyn ToolInstance>>,
    /// What stands before the first message.
    opening: Vec<Message>,
    /// What was said; `None` before the first message.
    said: Option<Transcript>,
    draw: Key,
    counts: Counts,
}

impl TokenConversation {
    /// Begins, with instructions that stand before the first message. `options.response_tokens`
    /// bounds one reply; `options.samples` is not looked at.
    ///
    /// # Errors
    /// Settings that can't work, or that don't fit the tool or the family.
    pub fn new(
        policy: Policy,
        generator: Arc<dyn Generator>,
        tool: Option<&dyn Tool>,
        options: RolloutOptions,
        (instructions, seed): (Option<String>, u64),
    ) -> Result<Self, RolloutError> {
        let rules = rules(policy, &*generator, tool, options)?;
        let draw = Key::new(seed, Purpose::Sampling);
        let opening = instructions.map(|text| Message::text(Role::System, text));
        Ok(Self {
            rules: Arc::new(rules),
            generator,
            tool: tool.map(|tool| tool.open(draw)),
            opening: opening.into_iter().collect(),
            said: None,
            draw,
            counts: Counts::default(),
        })
    }

    /// What was said with `message` behind it, and the model's turn open.
    fn with(&self, message: &str) -> Result<Transcript, ConversationError> {
        let message = Message::text(Role::User, message);
        let transcript = match &self.said {
            None => {
                let messages: Vec<_> = self.opening.iter().cloned().chain([message]).collect();
                self.rules.prompt(&messages, &[])?
            }
            Some(said) => {
                let mut longer = said.clone();
                longer.push_user(&message)?;
                longer.open_assistant()?;
                longer
            }
        };
        let (prompt_tokens, longest_tokens) =
            (transcript.tokens().len(), self.rules.longest_tokens);
        if prompt_tokens >= longest_tokens {
            return Err(ConversationError::Full { prompt_tokens, longest_tokens });
        }
        Ok(transcript)
    }

    async fn reply(
        &mut self,
        message: &str,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Reply, ConversationError> {
        let began = Instant::now();
        let prompt = self.with(message)?;
        let prompt_tokens = prompt.tokens().len();
        let identity = Identity { task: TaskId("conversation".to_owned()), draw: self.draw };
        let (mut machine, mut ask) = Machine::start(Arc::clone(&self.rules), identity, prompt);
        let (mut texts, mut timing) = (Vec::new(), Timing::default());
        let finish = loop {
            let turn = Instant::now();
            let mut pieces = tries::generate(&*self.generator, ask).await?;
            let mut asked = Vec::new();
            let mut heard_bytes = 0;
            loop {
                let piece = pieces.next().await.unwrap_or_else(|| Err(ended_early()))?;
                let is_end = matches!(piece, Piece::End(_));
                asked.extend(match piece {
                    Piece::Tokens(tokens) => machine.tokens(&tokens)?,
                    Piece::End(end) => machine.end(end),
                });
                if let Some(new) = machine.answer_text().get(heard_bytes..) {
                    heard_bytes += new.len();
                    hear(Heard::Text(new));
                }
                if is_end {
                    break;
                }
            }
            texts.push(machine.answer_text().to_owned());
            let generated = Instant::now();
            let answers = self.call(&asked, hear).await?;
            timing.generating_us += micros(generated - turn);
            timing.tools_us += micros(generated.elapsed());
            let was_run: Vec<usize> = answers.iter().map(|(index, _)| *index).collect();
            let next = machine.proceed(answers)?;
            let calls = machine.turns().last().map_or(&[][..], |turn| &turn.calls);
            for (_, call) in calls.iter().enumerate().filter(|(index, _)| !was_run.contains(index))
            {
                hear(Heard::NotRun(call));
            }
            match next {
                Next::Generate(next) => ask = next,
                Next::Finished(finish) => break finish,
            }
        };
        timing.total_us = micros(began.elapsed());
        let calls = machine.turns().iter().flat_map(|turn| turn.calls.clone()).collect();
        let policy_tokens = machine.turns().iter().map(|turn| turn.policy_tokens).sum();
        self.said = Some(machine.into_transcript());
        // The draws of the next reply are others.
        self.draw.step += 1;
        let (prompt_tokens, policy_tokens) = (Some(prompt_tokens), Some(policy_tokens));
        Ok(Reply { texts, calls, finish, prompt_tokens, policy_tokens, timing })
    }

    /// Runs the calls of a turn.
    async fn call(
        &self,
        asked: &[Asked],
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Vec<(usize, Answered)>, ConversationError> {
        let Some(tool) = self.tool.as_deref() else { return Ok(Vec::new()) };
        let calls: Vec<_> = asked.iter().map(|asked| (asked.index, &asked.call)).collect();
        let tries = self.rules.options.tries;
        Ok(tries::call_all(tool, &calls, tries, &self.counts, hear).await?)
    }
}

impl Conversation for TokenConversation {
    fn say<'reply>(
        &'reply mut self,
        message: &'reply str,
        hear: &'reply mut (dyn FnMut(Heard<'_>) + Send),
    ) -> BoxFuture<'reply, Result<Reply, ConversationError>> {
        Box::pin(self.reply(message, hear))
    }
}

fn ended_early() -> GeneratorError {
    GeneratorError::Failed { cause: "the tokens ended without an end".to_owned() }
}
