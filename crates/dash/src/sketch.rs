//! What a page about many episodes needs of each: everything but the tokens.
//!
//! Reading an episode whole takes several times as long, and hundreds of kilobytes; of the tokens
//! only the first `OPENING_TOKENS` are kept, so that the problem can be shown.

use std::fmt;

use rocstar_grpo::Facts;
use rocstar_record::episode::{
    Author, DropCause, Finish, GroupVerdict, Lost, Penalties, Span, TaskId, Timing, ToolOutcome,
    VerdictKind,
};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Tokens from an episode's start that are kept.
const OPENING_TOKENS: usize = 2_048;
/// Bytes of a text that is kept: names, answers, messages.
const MOST_TEXT_BYTES: usize = 2_000;

/// A group without its tokens.
#[derive(Debug, Clone, Deserialize)]
pub struct GroupSketch {
    /// The writer's schema.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The right answer.
    pub answer: String,
    /// Whether it is learned from.
    pub verdict: GroupVerdict,
    /// Episodes that are learned from.
    pub kept: Vec<KeptSketch>,
    /// Episodes that are not.
    pub dropped: Vec<DroppedSketch>,
    /// Rollouts that came to no episode.
    pub lost: Vec<Lost>,
}

/// A task of an evaluation without its tokens.
#[derive(Debug, Clone, Deserialize)]
pub struct EvaluatedSketch {
    /// The writer's schema.
    pub schema: u32,
    /// The task.
    pub task: TaskId,
    /// The right answer.
    pub answer: String,
    /// Its episodes.
    pub episodes: Vec<EpisodeSketch>,
    /// Rollouts that came to no episode.
    pub lost: Vec<Lost>,
}

/// An episode that is learned from.
#[derive(Debug, Clone, Deserialize)]
pub struct KeptSketch {
    /// The episode.
    pub episode: EpisodeSketch,
    /// How flawed it is.
    pub penalties: Penalties,
    /// What each token is worth.
    pub advantage: f64,
}

/// An episode that is not learned from.
#[derive(Debug, Clone, Deserialize)]
pub struct DroppedSketch {
    /// The episode.
    pub episode: EpisodeSketch,
    /// How flawed it is.
    pub penalties: Penalties,
    /// Why.
    pub cause: DropCause,
}

/// An episode without its tokens.
#[derive(Debug, Clone, Deserialize)]
pub struct EpisodeSketch {
    /// The rollout's number.
    pub sample: u32,
    /// The first tokens.
    pub tokens: Opening,
    /// Authors of all tokens.
    pub spans: Vec<Span>,
    /// Turns.
    pub turns: Vec<TurnSketch>,
    /// How it ended.
    pub finish: Finish,
    /// What the verifier said.
    pub verdict: VerdictSketch,
    /// The reward.
    pub reward: f64,
    /// Where the time went.
    pub timing: Timing,
}

/// The verdict without its explanation.
#[derive(Debug, Clone, Deserialize)]
pub struct VerdictSketch {
    /// Its kind.
    pub kind: VerdictKind,
    /// The answer that was found.
    pub answer: Option<String>,
}

/// A turn.
#[derive(Debug, Clone, Deserialize)]
pub struct TurnSketch {
    /// Tokens that the policy sampled.
    pub policy_tokens: usize,
    /// Answer tags in its text.
    pub answer_tags: u32,
    /// Its calls.
    pub calls: Vec<CallSketch>,
}

/// A call without its texts.
#[derive(Debug, Clone, Deserialize)]
pub struct CallSketch {
    /// What became of it.
    pub outcome: ToolOutcome,
    /// Wall time.
    pub wall_us: u64,
    /// CPU time.
    pub cpu_us: u64,
    /// Peak memory.
    pub memory_bytes: Option<u64>,
}

/// The first tokens of an episode.
#[derive(Debug, Clone, Default)]
pub struct Opening(pub Vec<u32>);

impl<'de> Deserialize<'de> for Opening {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct First;
        impl<'de> Visitor<'de> for First {
            type Value = Opening;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of token ids")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Opening, A::Error> {
                let mut first = Vec::new();
                while first.len() < OPENING_TOKENS {
                    let Some(token) = all.next_element()? else { return Ok(Opening(first)) };
                    first.push(token);
                }
                while all.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Opening(first))
            }
        }
        from.deserialize_seq(First)
    }
}

impl GroupSketch {
    /// Throws away what no page about many episodes shows: the tokens of all but the first episode,
    /// whose problem is the group's, and the rest of texts that are too long.
    pub fn shorten(&mut self) {
        shorten(&mut self.task.0);
        shorten(&mut self.answer);
        for dropped in &mut self.dropped {
            match &mut dropped.cause {
                DropCause::Selection { why: text } | DropCause::Infrastructure { what: text } => {
                    shorten(text);
                }
            }
        }
        let kept = self.kept.iter_mut().map(|kept| &mut kept.episode);
        let dropped = self.dropped.iter_mut().map(|dropped| &mut dropped.episode);
        for (number, episode) in kept.chain(dropped).enumerate() {
            episode.shorten(number == 0);
        }
    }

    /// Spans, turns, calls and activities of its episodes, and its lost rollouts: what its memory goes by.
    pub fn parts(&self) -> usize {
        self.episodes().map(EpisodeSketch::parts).sum::<usize>() + self.lost.len()
    }

    /// All its episodes, those that are kept first.
    pub fn episodes(&self) -> impl Iterator<Item = &EpisodeSketch> {
        let kept = self.kept.iter().map(|kept| &kept.episode);
        kept.chain(self.dropped.iter().map(|dropped| &dropped.episode))
    }

    /// What the selection looks at.
    pub fn facts(&self) -> Vec<Facts> {
        self.episodes().map(EpisodeSketch::facts).collect()
    }
}

impl EvaluatedSketch {
    /// As [`GroupSketch::shorten`].
    pub fn shorten(&mut self) {
        shorten(&mut self.task.0);
        shorten(&mut self.answer);
    }
}

impl EpisodeSketch {
    fn shorten(&mut self, keeps_problem: bool) {
        let end = if keeps_problem { self.prompt_tokens().min(self.tokens.0.len()) } else { 0 };
        self.tokens.0.truncate(end);
        self.tokens.0.shrink_to_fit();
        if let Some(answer) = &mut self.verdict.answer {
            shorten(answer);
        }
        for call in self.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
            match &mut call.outcome {
                ToolOutcome::Malformed { message: text }
                | ToolOutcome::Refused { message: text }
                | ToolOutcome::Exception { name: text }
                | ToolOutcome::Limit { what: text } => shorten(text),
                ToolOutcome::Ok | ToolOutcome::Exit { .. } | ToolOutcome::Timeout => {}
            }
        }
    }

    fn parts(&self) -> usize {
        let calls: usize = self.turns.iter().map(|turn| turn.calls.len()).sum();
        self.spans.len() + self.turns.len() + calls + self.timing.activities.len() + 1
    }

    /// The answer is right.
    pub fn is_right(&self) -> bool {
        self.verdict.kind == VerdictKind::Right
    }

    /// All calls.
    pub fn calls(&self) -> impl Iterator<Item = &CallSketch> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }

    /// What the selection looks at.
    pub fn facts(&self) -> Facts {
        let turns = self.turns.iter();
        let turns = turns.map(|it| (it.answer_tags, it.calls.iter().map(|call| &call.outcome)));
        Facts::of_turns(self.sample, self.verdict.kind, turns)
    }

    /// Tokens before the policy's first.
    pub fn prompt_tokens(&self) -> usize {
        sum(self.spans.iter().take_while(|span| span.author != Author::Policy))
    }

    /// Tokens after the prompt.
    pub fn response_tokens(&self) -> usize {
        sum(self.spans.iter()).saturating_sub(self.prompt_tokens())
    }

    /// Tokens that the policy sampled.
    pub fn policy_tokens(&self) -> usize {
        sum(self.spans.iter().filter(|span| span.author == Author::Policy))
    }

    /// The tokens of the last part of the prompt that someone wrote: the problem.
    pub fn problem(&self) -> &[u32] {
        problem(&self.tokens.0, &self.spans)
    }
}

/// The tokens of the last part of the prompt that someone wrote, and not the template.
pub fn problem<'t>(tokens: &'t [u32], spans: &[Span]) -> &'t [u32] {
    let (mut at, mut found) = (0_usize, 0..0);
    for span in spans.iter().take_while(|span| span.author != Author::Policy) {
        let end = at.saturating_add(span.tokens);
        if span.author == Author::Prompt {
            found = at..end;
        }
        at = end;
    }
    let end = found.end.min(tokens.len());
    tokens.get(found.start.min(end)..end).unwrap_or_default()
}

fn shorten(text: &mut String) {
    if text.len() > MOST_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MOST_TEXT_BYTES));
        text.push('…');
        text.shrink_to_fit();
    }
}

fn sum<'s>(spans: impl Iterator<Item = &'s Span>) -> usize {
    spans.fold(0, |sum, span| sum.saturating_add(span.tokens))
}

/// The outcome of a call in one word, and what more there is to it.
pub fn outcome(outcome: &ToolOutcome) -> (&'static str, Option<String>) {
    match outcome {
        ToolOutcome::Ok => ("ok", None),
        ToolOutcome::Malformed { message } => ("malformed", Some(message.clone())),
        ToolOutcome::Refused { message } => ("refused", Some(message.clone())),
        ToolOutcome::Exception { name } => ("exception", Some(name.clone())),
        ToolOutcome::Exit { code } => ("exit", Some(code.to_string())),
        ToolOutcome::Timeout => ("timeout", None),
        ToolOutcome::Limit { what } => ("limit", Some(what.clone())),
    }
}
