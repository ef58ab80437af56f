//! An episode as text for people: the problem, the policy's turns, its calls and what came of them.
//!
//! Invariant: the text can be written to a terminal: nothing in it steers one.

use std::fmt::Write as _;

use rocstar_chat::{Show, Tokenizer};
use rocstar_record::episode::{Call, Episode, Turn, Verdict, VerdictKind};
use rocstar_train::Prepared;

use crate::terminal::plain;

/// Longest text of a tool's answer or a problem that is shown, in characters.
const MAX_CHARACTERS: usize = 600;

/// The episode; `answer` is the right one. The problem is that of the run's task, where it is one.
pub(crate) fn of(episode: &Episode, answer: &str, prepared: &Prepared) -> String {
    let tokenizer = &prepared.outline().tokenizer;
    let mut text = String::new();
    let task = prepared.tasks().find(|task| task.id == episode.task);
    if let Some(message) = task.and_then(|task| task.messages.last()) {
        push(&mut text, "problem", &shortened(&message.content));
    }
    for turn in &episode.turns {
        push(&mut text, "policy", &words(episode, turn, tokenizer));
        for call in &turn.calls {
            push(&mut text, "tool", &said(call));
        }
    }
    push(&mut text, "verdict", &judged(&episode.verdict, answer));
    text.truncate(text.trim_end().len());
    plain(&text).into_owned()
}

/// One part, with its name before its first line and the others below that.
fn push(text: &mut String, name: &str, part: &str) {
    for (index, line) in part.trim().lines().enumerate() {
        let name = if index == 0 { name } else { "" };
        // Writing to a text can't fail.
        let _ = writeln!(text, "{name:>8}  {line}");
    }
}

fn words(episode: &Episode, turn: &Turn, tokenizer: &Tokenizer) -> String {
    let end = turn.start_token.saturating_add(turn.policy_tokens).min(episode.tokens.len());
    let tokens = episode.tokens.get(turn.start_token..end).unwrap_or_default();
    tokenizer.decode(tokens, Show::WithoutSpecial)
}

fn said(call: &Call) -> String {
    let told = shortened(call.told());
    if call.outcome.is_failure() { format!("[{}] {told}", call.outcome) } else { told }
}

fn judged(verdict: &Verdict, answer: &str) -> String {
    let kind = match verdict.kind {
        VerdictKind::Right => return format!("right: {answer}"),
        VerdictKind::Wrong => "wrong",
        VerdictKind::Unparseable => "no answer that can be read",
        VerdictKind::Undecided => "undecided",
    };
    let found = verdict.answer.as_ref().map(|found| format!(": {found}")).unwrap_or_default();
    format!("{kind}{found}, and right is {answer} ({})", verdict.explanation)
}

fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(MAX_CHARACTERS).collect();
    if characters.next().is_some() {
        short += " […]";
    }
    short
}
