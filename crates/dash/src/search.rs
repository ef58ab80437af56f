//! Full-text search over the episodes of a run.
//!
//! There is no index: episodes are read from the newest step on until enough is found or the time is
//! over, and the answer says how far it came, so that the next question goes on there. That finds
//! what was written a second ago, and costs no memory.

use std::time::{Duration, Instant};

use rocstar_record::episode::{Episode, Group};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::run::Run;
use crate::vocabulary::Vocabulary;

/// Hits of one answer.
const MOST_HITS: usize = 40;
/// Hits of one step.
const MOST_HITS_OF_STEP: usize = 400;
/// Time for one answer.
const MOST_TIME: Duration = Duration::from_millis(1_500);
/// Letters of what is searched for.
const MOST_LETTERS: usize = 200;
/// Letters before and behind what was found.
const AROUND: usize = 60;

/// What is searched for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// The text; capital and small letters are the same.
    pub text: String,
    /// Go on behind this step.
    pub before: Option<u64>,
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Answer {
    hits: Vec<Hit>,
    /// The last step that was searched.
    searched_to: Option<u64>,
    /// Steps that were searched, and those that are left.
    searched: usize,
    left: usize,
    notices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Hit {
    step: u64,
    group: usize,
    sample: u32,
    task: String,
    right: bool,
    /// Where in the episode.
    place: &'static str,
    before: String,
    found: String,
    behind: String,
}

/// Searches the episodes of `run`.
///
/// # Errors
/// The folder of episodes can't be read.
pub fn search(run: &Run, question: &Question) -> Result<Answer, Error> {
    let text: String = question.text.trim().chars().take(MOST_LETTERS).collect();
    let mut steps = run.reader().episode_steps()?;
    steps.retain(|step| question.before.is_none_or(|before| *step < before));
    let mut answer = Answer {
        hits: Vec::new(),
        searched_to: None,
        searched: 0,
        left: steps.len(),
        notices: Vec::new(),
    };
    if text.is_empty() {
        return Ok(answer);
    }
    let (vocabulary, begun) = (run.vocabulary(), Instant::now());
    let text = text.to_lowercase();
    for step in steps.into_iter().rev() {
        if answer.hits.len() >= MOST_HITS || begun.elapsed() > MOST_TIME {
            break;
        }
        search_step(run, step, &text, &vocabulary, &mut answer);
        answer.searched_to = Some(step);
        answer.searched += 1;
        answer.left -= 1;
    }
    Ok(answer)
}

fn search_step(run: &Run, step: u64, text: &str, vocabulary: &Vocabulary, answer: &mut Answer) {
    let mut told = |message: String| {
        if answer.notices.len() < 10 {
            answer.notices.push(message);
        }
    };
    let records = match run.groups::<Group>(step) {
        Ok(records) => records,
        Err(error) => return told(run.without_path(&error.to_string())),
    };
    let mut hits = Vec::new();
    for (number, record) in records.enumerate() {
        match record {
            Ok(group) => {
                for (episode, _) in group.episodes() {
                    let Some((place, found)) = find(episode, text, vocabulary) else { continue };
                    let [before, found, behind] = found;
                    let (sample, task) = (episode.sample, group.task.0.clone());
                    let right = episode.verdict.kind == rocstar_record::episode::VerdictKind::Right;
                    let group = number;
                    hits.push(Hit {
                        step,
                        group,
                        sample,
                        task,
                        right,
                        place,
                        before,
                        found,
                        behind,
                    });
                }
            }
            Err(error) => told(error.to_string()),
        }
        // A step is searched whole, so that the next question goes on at its end; but not for ever.
        if hits.len() > MOST_HITS_OF_STEP {
            hits.truncate(MOST_HITS_OF_STEP);
            let of = format!("more than {MOST_HITS_OF_STEP} episodes have it");
            told(format!("step {step}: {of}: only these are listed"));
            break;
        }
    }
    answer.hits.extend(hits);
}

/// Where in an episode the text stands first, with what is around it.
fn find(
    episode: &Episode,
    text: &str,
    vocabulary: &Vocabulary,
) -> Option<(&'static str, [String; 3])> {
    let prompt = episode.tokens.len().saturating_sub(episode.response_tokens());
    let (prompt, response) = episode.tokens.split_at_checked(prompt)?;
    let part = |tokens: &[u32]| around(&vocabulary.text(tokens), text);
    let verdict = || {
        let answer = episode.verdict.answer.as_deref().unwrap_or_default();
        around(&format!("{answer} · {}", episode.verdict.explanation), text)
    };
    let called = |call: &rocstar_record::episode::Call| {
        around(&call.program, text)
            .map(|found| ("program", found))
            .or_else(|| around(call.told(), text).map(|found| ("tool answer", found)))
            .or_else(|| around(&call.outcome.to_string(), text).map(|found| ("outcome", found)))
    };
    part(response)
        .map(|found| ("response", found))
        .or_else(|| episode.calls().find_map(called))
        .or_else(|| verdict().map(|found| ("verdict", found)))
        .or_else(|| part(prompt).map(|found| ("prompt", found)))
}

/// The first place of `text`, which is in small letters, in `whole`: before, there, behind.
fn around(whole: &str, text: &str) -> Option<[String; 3]> {
    let small = whole.to_lowercase();
    let at = small.find(text)?;
    // Small letters may be longer or shorter than capital ones: count letters, not bytes.
    let start = small.get(..at)?.chars().count();
    let length = text.chars().count();
    let letters: Vec<char> = whole.chars().collect();
    let part = |from: usize, to: usize| -> String {
        letters
            .get(from.min(letters.len())..to.min(letters.len()))
            .unwrap_or_default()
            .iter()
            .collect()
    };
    let end = start + length;
    Some([part(start.saturating_sub(AROUND), start), part(start, end), part(end, end + AROUND)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_in_any_letters() {
        let found = around("say ZeroDivisionError: it", "zerodivision").unwrap();
        assert_eq!(found, ["say ", "ZeroDivision", "Error: it"]);
        assert_eq!(around("ÄPFEL", "äp").unwrap()[1], "ÄP");
        assert!(around("abc", "abd").is_none());
    }
}
