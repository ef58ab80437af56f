//! One episode as a state machine: generate, parse, call, append, stop.
//!
//! ```text
//! start ─> Ask ─> tokens… ─> end ─> answers ─┬─> Ask (the next turn)
//!                   └─> Asked (calls leave)   └─> Finish
//! ```
//!
//! Synchronous, without a clock: whoever drives it brings tokens and answers, in whatever pieces,
//! and gets what to do next. Invariants: each prompt extends the one before, since a transcript only
//! grows; what the policy wrote that looks like a call is answered or the episode ends, never passed
//! over; an episode that was cut off has no final answer.
//!
//! What is written down of calls: those that were answered, with what the policy was shown. Calls of
//! the last turn that is allowed are not run and not written down; the episode's end tells of them.
//! Where a turn was cut off by a limit, or its answers don't fit, the calls that had run are written
//! down with nothing shown. A call that a limit cut in two is none.

mod answers;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rocstar_chat::calls::{CallFormat, CallParser, Event};
use rocstar_chat::{Error, Provenance, Show, StreamDecoder, Transcript};
use rocstar_record::draw::Key;
use rocstar_record::episode::{
    Author, Call, Episode, Finish, SCHEMA_VERSION, Span, TaskId, Timing, Turn, Verdict,
};
use rocstar_record::message::{ToolCall, ToolSpec};

use crate::generator::{Ask, Delivery, End, Token};
use crate::rollouts::Policy;
use crate::settings::RolloutOptions;
use crate::tool::Answered;

/// What all episodes of a rollout share.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) options: RolloutOptions,
    /// The tool's description and the format of calls, where there is a tool.
    pub(crate) tool: Option<(ToolSpec, CallFormat)>,
    /// Longest sequence of the generator.
    pub(crate) longest_tokens: usize,
}

impl Rules {
    /// The prompt of a conversation, with the policy's turn open. `functions` are offered beside
    /// the tool.
    pub(crate) fn prompt(
        &self,
        messages: &[rocstar_record::message::Message],
        functions: &[ToolSpec],
    ) -> Result<Transcript, Error> {
        let Policy { tokenizer, family } = &self.policy;
        let tool = self.tool.iter().map(|(spec, _)| spec);
        let specs: Vec<ToolSpec> = tool.chain(functions).cloned().collect();
        let mut transcript = Transcript::new(tokenizer, family, messages, &specs)?;
        transcript.open_assistant()?;
        Ok(transcript)
    }
}

/// A call that is to be run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// Its place among the calls of the turn.
    pub(crate) index: usize,
    pub(crate) call: ToolCall,
}

/// What comes after a turn.
#[derive(Debug)]
pub(crate) enum Next {
    /// Another turn.
    Generate(Ask),
    /// Nothing.
    Finished(Finish),
}

/// Who an episode is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) task: TaskId,
    /// The draws of its first turn.
    pub(crate) draw: Key,
}

/// An episode under way.
#[derive(Debug)]
pub(crate) struct Machine {
    rules: Arc<Rules>,
    identity: Identity,
    transcript: Transcript,
    prompt_tokens: usize,
    log_probs: Vec<f32>,
    model_log_probs: Vec<f32>,
    weight_versions: Vec<(u64, usize)>,
    turns: Vec<Turn>,
    open: OpenTurn,
}

/// The turn that is being written.
#[derive(Debug)]
struct OpenTurn {
    start_token: usize,
    decoder: StreamDecoder,
    /// Where there is a tool.
    parser: Option<CallParser>,
    /// The policy's own text, calls apart.
    text: String,
    calls: Vec<Written>,
    end: Option<End>,
}

/// Something that looks like a call.
#[derive(Debug)]
struct Written {
    tool: String,
    /// Known at once where nothing is to run.
    answer: Option<Answered>,
}

impl Machine {
    /// Begins with a prompt whose turn is open.
    pub(crate) fn start(rules: Arc<Rules>, identity: Identity, prompt: Transcript) -> (Self, Ask) {
        let open = OpenTurn::new(&rules, prompt.tokens().len());
        let machine = Self {
            rules,
            identity,
            prompt_tokens: prompt.tokens().len(),
            transcript: prompt,
            log_probs: Vec::new(),
            model_log_probs: Vec::new(),
            weight_versions: Vec::new(),
            turns: Vec::new(),
            open,
        };
        let ask = machine.ask();
        (machine, ask)
    }

    /// Tokens of the whole sequence so far.
    pub(crate) fn sequence_tokens(&self) -> usize {
        self.transcript.tokens().len()
    }

    /// Tokens after the prompt so far.
    pub(crate) fn response_tokens(&self) -> usize {
        self.sequence_tokens() - self.prompt_tokens
    }

    /// Takes sampled tokens. Calls that are complete now are to be run.
    pub(crate) fn tokens(&mut self, tokens: &[Token]) -> Result<Vec<Asked>, Error> {
        let mut asked = Vec::new();
        for token in tokens {
            self.transcript.push_policy(&[token.token])?;
            self.log_probs.push(token.log_prob);
            self.model_log_probs.push(token.model_log_prob);
            match self.weight_versions.last_mut() {
                Some((version, count)) if *version == token.version => *count += 1,
                _ => self.weight_versions.push((token.version, 1)),
            }
            if !self.stop_tokens().contains(&token.token) {
                let text = self.open.decoder.push(token.token);
                self.read(&text, &mut asked);
            }
        }
        Ok(asked)
    }

    /// The turn ended. Calls that only its end completes are to be run.
    pub(crate) fn end(&mut self, end: End) -> Vec<Asked> {
        self.open.end = Some(end);
        let mut asked = Vec::new();
        let rest = self.open.decoder.finish();
        self.read(&rest, &mut asked);
        let events = self.open.parser.take().map_or_else(Vec::new, CallParser::finish);
        for event in events {
            match (end, event) {
                (_, Event::Text(text)) => self.open.text += &text,
                // What a limit cut in two is no call, and what it ended is not run any more.
                (End::Length | End::Context, Event::Call(_) | Event::Failed(_)) => {}
                (End::Stop(_), event) => self.take(event, &mut asked),
            }
        }
        asked
    }

    /// Goes on after a turn, with the answers to all calls that were to be run.
    pub(crate) fn proceed(&mut self, answers: Vec<(usize, Answered)>) -> Result<Next, Error> {
        for (index, answer) in answers {
            if let Some(written) = self.open.calls.get_mut(index) {
                written.answer = Some(answer);
            }
        }
        let called = !self.open.calls.is_empty();
        let finish = match self.open.end {
            Some(End::Stop(_)) if !called => Some(Finish::Done),
            Some(End::Stop(_)) if self.is_last_turn() => Some(Finish::TurnLimit),
            Some(End::Stop(_)) => None,
            Some(End::Length) if self.room_tokens().1 == Finish::TokenLimit => {
                Some(Finish::TokenLimit)
            }
            Some(End::Length | End::Context) | None => Some(Finish::ContextLimit),
        };
        match finish {
            Some(finish) => {
                self.close_turn(&[]);
                Ok(Next::Finished(finish))
            }
            None => self.answer(),
        }
    }

    /// The policy's own text of its last turn.
    pub(crate) fn answer_text(&self) -> &str {
        &self.open.text
    }

    /// The turns that ended.
    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// All that was said, to go on from.
    pub(crate) fn into_transcript(self) -> Transcript {
        self.transcript
    }

    /// The finished episode.
    pub(crate) fn into_episode(self, finish: Finish, verdict: Verdict, timing: Timing) -> Episode {
        let spans = spans(self.transcript.provenance());
        let is_right = verdict.kind == rocstar_record::episode::VerdictKind::Right;
        Episode {
            schema: SCHEMA_VERSION,
            task: self.identity.task,
            sample: self.identity.draw.sample,
            step: u64::from(self.identity.draw.step),
            tokens: self.transcript.tokens().to_vec(),
            spans,
            log_probs: self.log_probs,
            model_log_probs: self.model_log_probs,
            weight_versions: self.weight_versions,
            turns: self.turns,
            finish,
            verdict,
            reward: if is_right { 1.0 } else { 0.0 },
            timing,
        }
    }

    fn stop_tokens(&self) -> Vec<u32> {
        let mut stops = vec![self.transcript.end_of_turn()];
        stops.extend(self.rules.policy.tokenizer.end_token().filter(|end| *end != stops[0]));
        stops
    }

    fn is_last_turn(&self) -> bool {
        self.turns.len() + 1 >= self.rules.options.max_turns
    }

    /// Tokens that may still come, and what is reached when they have.
    fn room_tokens(&self) -> (usize, Finish) {
        room(&self.rules, self.prompt_tokens, self.sequence_tokens())
    }

    fn ask(&self) -> Ask {
        let Rules { options, tool, .. } = &*self.rules;
        Ask {
            prompt: self.transcript.tokens().to_vec(),
            max_new_tokens: self.room_tokens().0,
            sampling: options.sampling(),
            stop_tokens: self.stop_tokens(),
            draw: Key { turn: self.turns.len() as u32, ..self.identity.draw },
            delivery: if tool.is_some() { Delivery::AsSampled } else { Delivery::AtEnd },
        }
    }

    fn read(&mut self, text: &str, asked: &mut Vec<Asked>) {
        match &mut self.open.parser {
            None => self.open.text += text,
            Some(parser) => {
                for event in parser.push(text) {
                    self.take(event, asked);
                }
            }
        }
    }

    fn take(&mut self, event: Event, asked: &mut Vec<Asked>) {
        let index = self.open.calls.len();
        match event {
            Event::Text(text) => self.open.text += &text,
            Event::Failed(failure) => {
                let answer = Some(answers::malformed(&failure));
                self.open.calls.push(Written { tool: String::new(), answer });
            }
            Event::Call(parsed) => {
                let tool = parsed.call.name.clone();
                let refusal = self.refusal(&tool);
                if refusal.is_none() && !self.is_last_turn() {
                    asked.push(Asked { index, call: parsed.call });
                }
                self.open.calls.push(Written { tool, answer: refusal.map(Answered::refused) });
            }
        }
    }

    /// Why a call of a tool is not run.
    fn refusal(&self, name: &str) -> Option<String> {
        let known = self.rules.tool.as_ref().map_or("", |(spec, _)| spec.name.as_str());
        if name != known {
            return Some(format!(
                "Tool call refused: there is no tool `{name}`; there is `{known}`."
            ));
        }
        let most = self.rules.options.parallel_calls;
        let runs = self.open.calls.iter().filter(|call| call.answer.is_none()).count();
        (runs >= most)
            .then(|| format!("Tool call refused: at most {most} calls of a turn are run."))
    }

    /// Appends the answers and opens the next turn, if they leave room for a token of it.
    fn answer(&mut self) -> Result<Next, Error> {
        let tokenizer = &self.rules.policy.tokenizer;
        let most = self.rules.options.tool_answer_tokens;
        let mut shown = Vec::with_capacity(self.open.calls.len());
        for call in &self.open.calls {
            let text = call.answer.as_ref().map_or("", |answer| answer.text.as_str());
            shown.push(answers::cut(tokenizer, text, most)?);
        }
        let messages = shown.iter().zip(&self.open.calls);
        let messages: Vec<_> =
            messages.map(|(shown, call)| answers::message(&call.tool, &shown.text)).collect();
        let mut longer = self.transcript.clone();
        longer.push_tool_results(&messages)?;
        longer.open_assistant()?;
        if room(&self.rules, self.prompt_tokens, longer.tokens().len()).0 == 0 {
            self.close_turn(&[]);
            return Ok(Next::Finished(Finish::ToolAnswerTooLong));
        }
        self.close_turn(&shown);
        self.transcript = longer;
        self.open = OpenTurn::new(&self.rules, self.transcript.tokens().len());
        Ok(Next::Generate(self.ask()))
    }

    /// Writes the turn down, with what the policy was shown of each call; nothing where it ends here.
    fn close_turn(&mut self, shown: &[answers::Shown]) {
        let written = std::mem::take(&mut self.open.calls).into_iter().enumerate();
        let calls = written.filter_map(|(index, Written { tool, answer })| {
            let shown = shown.get(index);
            let answer = answer.filter(|_| !self.is_last_turn())?;
            Some(call(tool, answer, shown))
        });
        let calls = calls.collect();
        let start_token = self.open.start_token;
        self.turns.push(Turn {
            start_token,
            policy_tokens: self.transcript.tokens().len() - start_token,
            answer_tags: self.open.text.matches("<answer>").count() as u32,
            calls,
        });
    }
}

impl OpenTurn {
    fn new(rules: &Rules, start_token: usize) -> Self {
        Self {
            start_token,
            decoder: StreamDecoder::new(&rules.policy.tokenizer, Show::All),
            parser: rules.tool.as_ref().map(|(_, format)| format.parser()),
            text: String::new(),
            calls: Vec::new(),
            end: None,
        }
    }
}

/// Tokens that may follow a sequence, and what is reached when they have.
fn room(rules: &Rules, prompt_tokens: usize, sequence_tokens: usize) -> (usize, Finish) {
    let most = prompt_tokens.saturating_add(rules.options.response_tokens);
    let left = most.saturating_sub(sequence_tokens);
    let context_left = rules.longest_tokens.saturating_sub(sequence_tokens);
    if left <= context_left {
        (left, Finish::TokenLimit)
    } else {
        (context_left, Finish::ContextLimit)
    }
}

fn call(tool: String, answer: Answered, shown: Option<&answers::Shown>) -> Call {
    Call {
        tool,
        program: answer.program,
        input: answer.input,
        outcome: answer.outcome,
        shown: shown.map_or_else(String::new, |shown| shown.text.clone()),
        cut_tokens: shown.map_or(0, |shown| shown.cut_tokens),
        wall_us: answer.wall_us,
        cpu_us: answer.cpu_us,
        memory_bytes: answer.memory_bytes,
        isolation: answer.isolation,
    }
}

fn spans(provenance: &[Provenance]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for author in provenance {
        let author = match author {
            Provenance::Policy => Author::Policy,
            Provenance::Tool => Author::Tool,
            Provenance::Template => Author::Template,
            Provenance::System | Provenance::User | Provenance::Given => Author::Prompt,
        };
        match spans.last_mut() {
            Some(last) if last.author == author => last.tokens += 1,
            _ => spans.push(Span { author, tokens: 1 }),
        }
    }
    spans
}
