//! One attempt in messages: ask, run calls, answer them, ask again.
//!
//! By the rules of an episode as far as they can be kept without tokens. Invariants: what the model
//! did is in the attempt; a failure of ours is tried again and then leaves none. The budget of tokens
//! follows what the server counts. The answers of tools are counted with the request that carries
//! them, so the last ones may exceed the budget; where a server counts nothing, four bytes of text
//! are taken for a token, for the budget only. What is left of the budget is asked for as far as the
//! context has room for it, so that a long budget and a short context end as they do in tokens.

use std::sync::Arc;
use std::time::Instant;

use rocstar_record::attempt::{Attempt, AttemptCall, AttemptTurn, SCHEMA_VERSION, TokenCounts};
use rocstar_record::draw::Key;
use rocstar_record::episode::{Call, Finish, Timing, ToolOutcome, micros};
use rocstar_record::message::{Message, ToolCall, ToolSpec};

use super::ask::{ChatAsk, ChatEnd, ChatReply};
use super::endpoints::{ChatHeard, Endpoints};
use super::error::RemoteError;
use super::player::ChatOptions;
use super::room::{self, Told};
use super::tally::{TOKEN_BYTES, Tally};
use super::tools::{Dialect, Found, Written, cut};
use crate::conversation::Heard;
use crate::counts::Counts;
use crate::player::Assignment;
use crate::settings::RolloutOptions;
use crate::tool::{Answered, Tool, ToolError, ToolInstance};
use crate::tries;

/// What all attempts share.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) tool: Option<Arc<dyn Tool>>,
    pub(super) options: RolloutOptions,
    pub(super) chat: ChatOptions,
    pub(super) dialect: Dialect,
    pub(super) return_reasoning: bool,
}

/// Why there is no attempt.
#[derive(Debug)]
pub(super) enum Missed {
    /// This one failed; others may not.
    This { cause: String },
    /// Nothing can succeed.
    All(RemoteError),
}

/// Makes an attempt, again where a tool lost its state.
pub(super) async fn attempt(
    rules: &Rules,
    assignment: &Assignment,
    draw: Key,
) -> Result<Attempt, Missed> {
    let task = &assignment.task;
    let mut tries = 0;
    loop {
        let tool = rules.tool.as_ref().map(|tool| tool.open(draw));
        let (messages, tools) = rules.open(&task.messages, &task.functions);
        let functions = &task.functions;
        let opening = Opening { messages, tools, functions, tool: tool.as_deref(), draw };
        let mut dialogue = Dialogue::new(rules, opening);
        let ended = dialogue.run(&mut |_| {}).await;
        match ended {
            Err(Failure::StateLost(_)) if tries + 1 < rules.options.tries => {
                tries::pause(tries).await;
                tries += 1;
            }
            Err(Failure::StateLost(error)) => {
                return Err(Missed::This { cause: error.to_string() });
            }
            Err(Failure::Missed(missed)) => return Err(missed),
            Ok(finish) => return Ok(dialogue.into_attempt(assignment, finish)),
        }
    }
}

pub(super) enum Failure {
    StateLost(ToolError),
    Missed(Missed),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::StateLost { .. } => Self::StateLost(error),
            error => Self::Missed(Missed::This { cause: error.to_string() }),
        }
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let is_final = error.is_final();
        let missed =
            if is_final { Missed::All(error) } else { Missed::This { cause: error.to_string() } };
        Self::Missed(missed)
    }
}

impl Rules {
    /// A conversation with the tool and these functions, as the server is to get it.
    pub(super) fn open(
        &self,
        messages: &[Message],
        functions: &[ToolSpec],
    ) -> (Vec<Message>, Vec<ToolSpec>) {
        let own = self.tool.iter().map(|tool| tool.spec());
        let tools: Vec<ToolSpec> = own.chain(functions.iter().cloned()).collect();
        self.dialect.open(messages, &tools)
    }
}

/// What a dialogue begins with.
pub(super) struct Opening<'run> {
    /// As the server is to get them.
    pub(super) messages: Vec<Message>,
    /// What the server is told of.
    pub(super) tools: Vec<ToolSpec>,
    /// Offered and never run.
    pub(super) functions: &'run [ToolSpec],
    pub(super) tool: Option<&'run dyn ToolInstance>,
    pub(super) draw: Key,
}

/// The model's turns until it is done.
pub(super) struct Dialogue<'run> {
    rules: &'run Rules,
    opening: Opening<'run>,
    pub(super) turns: Vec<AttemptTurn>,
    pub(super) timing: Timing,
    tally: Tally,
    /// Longest sequence, where it is told.
    context_tokens: Option<usize>,
    /// What the server said where the prompt filled the context.
    pub(super) refusal: Option<RemoteError>,
}

/// What came of asking for a turn.
enum Asked {
    /// An answer that could have had so many tokens.
    Reply(ChatReply, usize),
    /// The prompt fills the context, as this refusal says where one did.
    Full(Option<RemoteError>),
}

impl<'run> Dialogue<'run> {
    pub(super) fn new(rules: &'run Rules, opening: Opening<'run>) -> Self {
        let (turns, tally, timing) = (Vec::new(), Tally::default(), Timing::default());
        let context_tokens = rules.endpoints.longest_tokens();
        Self { rules, opening, turns, tally, timing, context_tokens, refusal: None }
    }

    /// Goes on until the model is done or cut off; `hear` is told as it comes.
    pub(super) async fn run(
        &mut self,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Finish, Failure> {
        let began = Instant::now();
        let finish = loop {
            if let Some(finish) = self.turn(hear).await? {
                break finish;
            }
        };
        self.timing.total_us = micros(began.elapsed());
        Ok(finish)
    }

    fn into_attempt(self, assignment: &Assignment, finish: Finish) -> Attempt {
        Attempt {
            schema: SCHEMA_VERSION,
            problem: assignment.task.id.clone(),
            sample: assignment.sample,
            turns: self.turns,
            finish,
            tokens: self.tally.counts(),
            timing: self.timing,
            generator: self.rules.endpoints.name(),
        }
    }

    /// What it took so far.
    pub(super) fn tokens(&self) -> TokenCounts {
        self.tally.counts()
    }

    /// All that was said, to go on from. Calls that weren't answered are left out: servers refuse a
    /// conversation that holds them.
    pub(super) fn into_messages(self) -> Vec<Message> {
        let mut messages = self.opening.messages;
        if let Some(last) = messages.last_mut() {
            last.tool_calls.clear();
        }
        messages
    }

    /// One turn of the model; the end, where it is the last.
    async fn turn(
        &mut self,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Option<Finish>, Failure> {
        let left = self.rules.options.response_tokens.saturating_sub(self.tally.used);
        if left == 0 {
            return Ok(Some(Finish::ToolAnswerTooLong));
        }
        let began = Instant::now();
        let asked = self.ask(left, hear).await;
        self.timing.generating_us += micros(began.elapsed());
        let (reply, most) = match asked? {
            Asked::Reply(reply, most) => (reply, most),
            Asked::Full(refusal) => return Ok(Some(self.full(refusal))),
        };
        self.tally.add(&self.opening.messages, &reply);
        let written = self.rules.dialect.read(&reply, self.has_tools());
        self.turns.push(AttemptTurn {
            text: written.text.clone(),
            reasoning: reply.reasoning.clone(),
            calls: unrun(&written.calls),
        });
        let finish = self.finish(&reply, &written).map(|finish| match finish {
            // The context was shorter than the budget.
            Finish::TokenLimit if most < left => Finish::ContextLimit,
            finish => finish,
        });
        let turn = self.rules.dialect.turn(reply, &written, self.rules.return_reasoning);
        self.opening.messages.push(turn);
        if finish.is_none() {
            self.answer(&written, hear).await?;
        }
        Ok(finish)
    }

    /// Asks for a turn of at most `left` tokens, or of as many as the context has room for.
    async fn ask(
        &mut self,
        left: usize,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Asked, RemoteError> {
        let least = self.tally.least_prompt();
        let room = self.context_tokens.map_or(left, |context| context.saturating_sub(least));
        let mut most = left.min(room);
        if most == 0 {
            return Ok(Asked::Full(None));
        }
        let mut ask = ChatAsk {
            messages: std::mem::take(&mut self.opening.messages),
            tools: self.opening.tools.clone(),
            max_tokens: Some(most),
            sampling: self.rules.options.sampling(),
            draw: Key { turn: self.turns.len() as u32, ..self.opening.draw },
        };
        let mut parts = |part: ChatHeard<'_>| {
            hear(match part {
                ChatHeard::Text(text) => Heard::Text(text),
                ChatHeard::Again => Heard::Again,
            });
        };
        let asked = loop {
            let refusal = match self.rules.endpoints.ask(&ask, &mut parts).await {
                Err(error) if error.is_context_full() => error,
                reply => break reply.map(|reply| Asked::Reply(reply, most)),
            };
            let Some(fewer) = room::fewer(&refusal, most) else {
                break Ok(Asked::Full(Some(refusal)));
            };
            self.context_tokens = Told::read(&refusal).context_tokens.or(self.context_tokens);
            (most, ask.max_tokens) = (fewer, Some(fewer));
        };
        self.opening.messages = ask.messages;
        asked
    }

    /// The end of a dialogue whose prompt fills the context: the problem is too long to be read, or
    /// the answers of the last turn are.
    fn full(&mut self, refusal: Option<RemoteError>) -> Finish {
        let told = refusal.as_ref().map(Told::read).unwrap_or_default();
        self.refusal = refusal;
        if self.turns.is_empty() {
            self.tally.refuse(told.prompt_tokens);
            return Finish::ContextLimit;
        }
        Finish::ToolAnswerTooLong
    }

    fn has_tools(&self) -> bool {
        self.rules.tool.is_some() || !self.opening.functions.is_empty()
    }

    /// Whether the model's turn was the last.
    fn finish(&self, reply: &ChatReply, written: &Written) -> Option<Finish> {
        match reply.end {
            ChatEnd::Length => return Some(Finish::TokenLimit),
            ChatEnd::Context => return Some(Finish::ContextLimit),
            ChatEnd::Stop | ChatEnd::Calls => {}
        }
        let functions = self.opening.functions;
        let is_answer = |found: &Found| {
            let call = found.call.as_ref();
            call.is_some_and(|call| functions.iter().any(|function| function.name == call.name))
        };
        // Calls that are the answer, or that nobody runs.
        let is_done = written.calls.iter().any(is_answer) || self.opening.tool.is_none();
        if written.calls.is_empty() || is_done {
            return Some(Finish::Done);
        }
        (self.turns.len() >= self.rules.options.max_turns).then_some(Finish::TurnLimit)
    }

    /// Runs the calls of the last turn and appends the answers.
    async fn answer(
        &mut self,
        written: &Written,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let answered = self.call(&written.calls, hear).await?;
        self.timing.tools_us += micros(began.elapsed());
        let mut shown = Vec::with_capacity(answered.len());
        for (index, answered) in answered.into_iter().enumerate() {
            let (text, cut_chars) = cut(&answered.text, self.rules.chat.tool_answer_chars);
            let call = self.turns.last_mut().and_then(|turn| turn.calls.get_mut(index));
            if let Some(call) = call {
                let name = call.call.as_ref().map_or("", |call| call.name.as_str());
                let run = record(name.to_owned(), answered, text.clone(), cut_chars);
                if run.program.is_empty() {
                    hear(Heard::NotRun(&run));
                }
                call.run = Some(run);
            }
            shown.push(text);
        }
        let answers = self.rules.dialect.answers(&written.calls, &shown);
        self.opening.messages.extend(answers);
        Ok(())
    }

    /// What the calls of a turn come to, in their order.
    async fn call(
        &self,
        calls: &[Found],
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Vec<Answered>, Failure> {
        let mut answers: Vec<Option<Answered>> = Vec::with_capacity(calls.len());
        let mut to_run: Vec<(usize, &ToolCall)> = Vec::new();
        for (index, found) in calls.iter().enumerate() {
            let answer = self.unrunnable(found, to_run.len());
            if let (None, Some(call)) = (&answer, &found.call) {
                to_run.push((index, call));
            }
            answers.push(answer);
        }
        if let Some(tool) = self.opening.tool {
            let (counts, tries) = (Counts::default(), self.rules.options.tries);
            for (index, answered) in tries::call_all(tool, &to_run, tries, &counts, hear).await? {
                answers[index] = Some(answered);
            }
        }
        // Each is refused or was run.
        Ok(answers.into_iter().flatten().collect())
    }

    /// Why a call is not run, and what the model is told; by the rules of an episode.
    fn unrunnable(&self, found: &Found, running: usize) -> Option<Answered> {
        if let Some(message) = found.problem.clone() {
            let outcome = ToolOutcome::Malformed { message: message.clone() };
            return Some(Answered { outcome, ..Answered::refused(message) });
        }
        let name = found.call.as_ref().map_or("", |call| call.name.as_str());
        let known = self.rules.tool.as_ref().map(|tool| tool.spec().name).unwrap_or_default();
        if name != known {
            let message =
                format!("Tool call refused: there is no tool `{name}`; there is `{known}`.");
            return Some(Answered::refused(message));
        }
        let most = self.rules.options.parallel_calls;
        (running >= most).then(|| {
            Answered::refused(format!("Tool call refused: at most {most} calls of a turn are run."))
        })
    }
}

fn unrun(calls: &[Found]) -> Vec<AttemptCall> {
    calls.iter().map(|found| AttemptCall { call: found.call.clone(), run: None }).collect()
}

/// `cut_tokens` is an estimate: a token for each four characters.
fn record(tool: String, answered: Answered, shown: String, cut_chars: usize) -> Call {
    Call {
        tool,
        program: answered.program,
        input: answered.input,
        outcome: answered.outcome,
        shown,
        cut_tokens: cut_chars.div_ceil(TOKEN_BYTES),
        wall_us: answered.wall_us,
        cpu_us: answered.cpu_us,
        memory_bytes: answered.memory_bytes,
        isolation: answered.isolation,
    }
}
