//! Where in a text the answer stands.
//!
//! Invariant: nothing outside what a rule names is ever compared, and the rule that fired is part of
//! the result. Strict extraction has one rule, that of the paper: the last `\boxed{…}` inside the
//! last `<answer>…</answer>`. Lenient extraction tries its rules in a fixed order, surest first, for
//! models and data sets that follow no format.

mod boxes;
mod emphasis;
mod pieces;

use std::borrow::Cow;

use boxes::{boxes, joined_boxes};
pub(crate) use emphasis::without_emphasis;
use pieces::{
    bare_number, count_of_things, formulas, is_denied, is_name, joined, last_number, stands_alone,
};
use serde::{Deserialize, Serialize};

/// How an answer is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extraction {
    /// `\boxed{…}` inside `<answer>…</answer>` only.
    Strict,
    /// Boxes, tags, phrases, formulas, numbers, words: the first that gives an answer.
    #[default]
    Lenient,
}

/// The rule that found an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionRule {
    /// `\boxed{…}` inside `<answer>…</answer>`.
    BoxInTag,
    /// The last `\boxed{…}`, or the last ones that belong together.
    Boxed,
    /// `<answer>…</answer>`.
    Tag,
    /// After "the answer is", "Final answer:".
    Phrase,
    /// The whole text.
    Whole,
    /// The last formula between delimiters.
    Formula,
    /// After the last "is" or "=".
    Tail,
    /// The last number.
    Number,
}

/// A piece of the text that may be the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate<'t> {
    pub(crate) rule: ExtractionRule,
    pub(crate) text: Cow<'t, str>,
}

/// Longest text that is looked through, from its end: answers come last.
const MAX_BYTES: usize = 200_000;
/// Longest text that may be an answer as a whole.
const MAX_WHOLE_BYTES: usize = 2_000;

/// Candidates in the order in which they are to be tried.
pub(crate) fn candidates(text: &str, extraction: Extraction) -> Vec<Candidate<'_>> {
    let text = tail(text, MAX_BYTES);
    match extraction {
        Extraction::Strict => {
            let boxed = last_tag(text).and_then(|inside| boxes(inside).pop());
            boxed.map(|it| candidate(ExtractionRule::BoxInTag, it.inside)).into_iter().collect()
        }
        Extraction::Lenient => lenient(text),
    }
}

fn lenient(text: &str) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    let phrase = after_phrase(text);
    if let Some((boxed, end)) = joined_boxes(text) {
        // A box is the author's own mark, unless the answer is announced after it: just the answer,
        // not a sentence in which some number stands.
        if let Some((at, rest)) = phrase
            && at > end
        {
            found.push(candidate(ExtractionRule::Phrase, rest));
        }
        found.push(Candidate { rule: ExtractionRule::Boxed, text: boxed });
        return found;
    }
    if let Some(inside) = last_tag(text) {
        found.push(candidate(ExtractionRule::Tag, inside));
        pieces(inside, ExtractionRule::Tag, &mut found);
        return found;
    }
    if let Some((_, rest)) = phrase {
        found.push(candidate(ExtractionRule::Phrase, rest));
        pieces(rest, ExtractionRule::Phrase, &mut found);
    }
    if text.len() <= MAX_WHOLE_BYTES {
        found.push(candidate(ExtractionRule::Whole, text));
    }
    pieces(text, ExtractionRule::Formula, &mut found);
    found
}

/// Formulas, what follows the last "is" or "=", the last number. In a whole text the later comes
/// first; after a phrase the earlier does, since the answer follows its announcement.
fn pieces<'t>(text: &'t str, rule: ExtractionRule, found: &mut Vec<Candidate<'t>>) {
    let place = |piece: &str| piece.as_ptr() as usize - text.as_ptr() as usize;
    let all = formulas(text);
    // A lone letter names what is asked for.
    let (names, values): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|it| is_name(it));
    let values = joined(text, values);
    let said =
        values.iter().filter(|it| !is_denied(text[..place(it)].trim_end_matches(['$', '\\', '('])));
    let mut pieces: Vec<(usize, ExtractionRule, &str)> =
        said.rev().take(3).map(|it| (place(it), ExtractionRule::Formula, *it)).collect();
    for mark in [" is ", " are ", "="] {
        if let Some(at) = text.rfind(mark).filter(|at| mark != "=" || !is_joined(&text[..*at])) {
            let rest = sentence(&text[at + mark.len()..]);
            if let Some(number) = count_of_things(rest) {
                pieces.push((place(rest), ExtractionRule::Number, number));
            }
            pieces.push((place(rest), ExtractionRule::Tail, rest));
        }
    }
    let is_last_of_several = |number: &str| {
        let before = text[..place(number)].trim_end().strip_suffix('=');
        before.is_some_and(is_joined)
    };
    if let Some(number) =
        last_number(text).filter(|number| stands_alone(text, number) && !is_last_of_several(number))
    {
        pieces.push((place(number), ExtractionRule::Number, sentence(number)));
        pieces.push((place(number), ExtractionRule::Number, bare_number(number)));
    }
    // What lies inside a formula is part of it.
    let formulas: Vec<(usize, usize)> =
        values.iter().map(|it| (place(it), place(it) + it.len())).collect();
    pieces.retain(|(at, rule, _)| {
        *rule == ExtractionRule::Formula
            || !formulas.iter().any(|(start, end)| start < at && at < end)
    });
    pieces.sort_by_key(|(at, ..)| *at);
    if rule == ExtractionRule::Formula {
        pieces.reverse();
    }
    let names = names.into_iter().rev().take(1).map(|it| (ExtractionRule::Formula, it));
    let ordered = pieces.into_iter().map(|(_, own, piece)| (own, piece)).chain(names);
    let named = |own| if rule == ExtractionRule::Formula { own } else { rule };
    found.extend(ordered.map(|(own, piece)| candidate(named(own), piece)));
}

fn candidate(rule: ExtractionRule, text: &str) -> Candidate<'_> {
    Candidate { rule, text: unescaped(text) }
}

/// Line ends that were escaped once too often are spaces: `\n` before anything but a small letter.
fn unescaped(text: &str) -> Cow<'_, str> {
    let is_line_end = |at: usize| {
        let next = text[at + 2..].chars().next();
        !next.is_some_and(|c| c.is_ascii_lowercase())
    };
    if !text.match_indices("\\n").any(|(at, _)| is_line_end(at)) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices("\\n") {
        if at >= from && is_line_end(at) {
            plain.push_str(text[from..at].trim_end_matches('\\'));
            plain.push(' ');
            from = at + 2;
        }
    }
    plain.push_str(&text[from..]);
    Cow::Owned(plain)
}

fn tail(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// What the last `<answer>` holds, to its end tag or the end of the text.
fn last_tag(text: &str) -> Option<&str> {
    let inside = &text[text.rfind("<answer>")? + "<answer>".len()..];
    Some(inside.split("</answer>").next().unwrap_or(inside).trim())
}

/// Whether what stands before a `=` is one of several equations: `x = 2 and y`.
fn is_joined(before: &str) -> bool {
    let Some(equation) = before.rfind('=') else { return false };
    let between = &before[equation + 1..];
    let ends = between.contains(". ") || between.contains('\n');
    !ends && [" and ", " or ", ","].iter().any(|joining| between.contains(joining))
}

/// The rest of the sentence after the last phrase that announces an answer, without its reasons.
fn after_phrase(text: &str) -> Option<(usize, &str)> {
    const PHRASES: [&str; 8] = [
        "####",
        "final answer is",
        "final answer:",
        "final answer",
        "answer is",
        "answer:",
        "answer should be",
        "answer =",
    ];
    let lower = text.to_ascii_lowercase();
    let found = PHRASES.iter().filter_map(|it| Some((lower.rfind(it)? + it.len(), it.len())));
    let (end, _) = found.max_by_key(|(end, length)| (*end, *length))?;
    let rest = text[end..].trim_start_matches([':', '*', ' ', '\n', '\t']);
    let rest = sentence(rest);
    const REASONS: [&str; 5] = [", not ", " because ", ", since ", " since ", ", which "];
    let reason = REASONS.iter().filter_map(|it| rest.find(it)).min();
    let rest = rest[..reason.unwrap_or(rest.len())].trim_end_matches(',');
    let rest = unquoted(rest);
    (!rest.is_empty()).then_some((end, rest))
}

/// What stands between quotation marks, also escaped ones.
fn unquoted(text: &str) -> &str {
    let inside = text.trim_end_matches('.');
    for quote in ["\\\"", "\"", "'"] {
        let stripped = inside.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = stripped.filter(|it| !it.contains(quote)) {
            return inside;
        }
    }
    text
}

/// Up to the first full stop that ends a sentence, or the end of the line.
fn sentence(text: &str) -> &str {
    let stop = text.find(". ").into_iter().chain(text.find(".\n")).chain(text.find("\n\n")).min();
    text[..stop.unwrap_or(text.len())].trim()
}
