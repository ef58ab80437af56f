//! What differs between an episode and the same one made again.
//!
//! Invariant: times and memory are never compared. Of each episode the first difference is told: what
//! comes behind it follows from it.

use rocstar_record::episode::{Call, Episode, Group, ToolOutcome};
use serde::Serialize;

/// Something that came out otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) step: u64,
    pub(super) task: String,
    pub(super) sample: u32,
    /// What differs, such as `turn 0, call 1: outcome`.
    pub(super) what: String,
    pub(super) recorded: String,
    pub(super) again: String,
    /// Why that may be, where the program itself gives a reason.
    pub(super) explained: Option<&'static str>,
}

/// What a program says that asks for chance, time or place.
const CHANCE: [&str; 9] =
    ["random", "time", "uuid", "secrets", "urandom", "getpid", "id(", "hash(", "object at 0x"];

/// The first difference of each episode of a step.
pub(super) fn groups(step: u64, recorded: &[Group], again: &[Vec<Episode>]) -> Vec<Difference> {
    let mut all = Vec::new();
    for (group, made) in recorded.iter().zip(again) {
        for (episode, _) in group.episodes() {
            let found = made.iter().find(|one| one.sample == episode.sample);
            let Some((what, [before, after], explained)) = first(episode, found) else { continue };
            all.push(Difference {
                step,
                task: group.task.0.clone(),
                sample: episode.sample,
                what,
                recorded: before,
                again: after,
                explained,
            });
        }
    }
    all
}

type Found = (String, [String; 2], Option<&'static str>);

fn first(recorded: &Episode, again: Option<&Episode>) -> Option<Found> {
    let Some(again) = again else {
        let texts = ["an episode", "a failure of the code environment"].map(str::to_owned);
        return Some(("the episode".to_owned(), texts, None));
    };
    first_call(recorded, again).or_else(|| {
        let shown = |value: &dyn std::fmt::Debug| format!("{value:?}");
        let answer = |episode: &Episode| episode.verdict.answer.clone();
        let parts = [
            ("how it ended", shown(&recorded.finish), shown(&again.finish)),
            ("the answer", shown(&answer(recorded)), shown(&answer(again))),
            ("the verdict", shown(&recorded.verdict), shown(&again.verdict)),
            ("the reward", shown(&recorded.reward), shown(&again.reward)),
            ("the number of turns", shown(&recorded.turns.len()), shown(&again.turns.len())),
            ("the tokens", shown(&recorded.tokens), shown(&again.tokens)),
            ("who wrote the tokens", shown(&recorded.spans), shown(&again.spans)),
        ];
        let found = parts.into_iter().find(|(_, before, after)| before != after);
        found.map(|(what, before, after)| (what.to_owned(), [before, after], None))
    })
}

/// The first difference between calls.
fn first_call(recorded: &Episode, again: &Episode) -> Option<Found> {
    for (turn, (before, after)) in recorded.turns.iter().zip(&again.turns).enumerate() {
        if before.calls.len() != after.calls.len() {
            let counts = [before.calls.len(), after.calls.len()].map(|count| count.to_string());
            return Some((format!("turn {turn}: the number of calls"), counts, None));
        }
        for (call, (before, after)) in before.calls.iter().zip(&after.calls).enumerate() {
            if let Some((what, texts)) = of_calls(before, after) {
                let what = format!("turn {turn}, call {call}: {what}");
                return Some((what, texts, explanation(before, after)));
            }
        }
    }
    None
}

fn of_calls(before: &Call, after: &Call) -> Option<(&'static str, [String; 2])> {
    let outcome = |call: &Call| serde_json::to_string(&call.outcome).unwrap_or_default();
    let parts: [(&'static str, [String; 2]); 5] = [
        ("the tool", [before, after].map(|call| call.tool.clone())),
        ("the program", [before, after].map(|call| call.program.clone())),
        ("the input", [before, after].map(|call| call.input.clone())),
        ("the outcome", [before, after].map(outcome)),
        ("what was shown", [before, after].map(|call| call.shown.clone())),
    ];
    parts.into_iter().find(|(_, [before, after])| before != after)
}

fn explanation(before: &Call, after: &Call) -> Option<&'static str> {
    if [before, after].into_iter().any(|call| call.outcome == ToolOutcome::Timeout) {
        return Some("a limit of time was reached, which the machine's load moves");
    }
    let asks_for_chance = CHANCE.into_iter().any(|word| before.program.contains(word));
    asks_for_chance.then_some("the program asks for chance, time or place")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(program: &str, outcome: ToolOutcome, shown: &str) -> Call {
        Call {
            tool: "python".to_owned(),
            program: program.to_owned(),
            input: String::new(),
            outcome,
            shown: shown.to_owned(),
            cut_tokens: 0,
            wall_us: 1,
            cpu_us: 1,
            memory_bytes: None,
            isolation: Vec::new(),
        }
    }

    #[test]
    fn a_difference_is_explained_by_chance_and_time_only() {
        let before = call("print(1)", ToolOutcome::Ok, "1");
        let slower = call("print(1)", ToolOutcome::Timeout, "");
        let other = call("print(1)", ToolOutcome::Ok, "2");
        assert_eq!(of_calls(&before, &Call { wall_us: 2, ..before.clone() }), None);
        let (what, _) = of_calls(&before, &other).unwrap();
        assert_eq!((what, explanation(&before, &other)), ("what was shown", None));
        assert!(explanation(&before, &slower).is_some());
        let dice = call("import random\nrandom.random()", ToolOutcome::Ok, "0.1");
        assert!(explanation(&dice, &dice).is_some());
    }
}
