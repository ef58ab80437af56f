//! Which held-out episodes are shown: a task that was got wrong and is now got right, and a failed
//! call that was mended.

use rocstar_record::episode::{Episode, Evaluated, Finish, VerdictKind};
use rocstar_record::run::Reader;
use rocstar_train::Prepared;
use serde::Serialize;

use crate::episode_text;

/// The suite in which held-out tasks are written down.
const HELD_OUT: &str = "held_out";

/// An episode as text.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    pub(super) title: String,
    pub(super) task: String,
    pub(super) text: String,
}

/// Up to three episodes of the evaluations after the steps `before` and `after`.
///
/// # Errors
/// They can't be read.
pub(super) fn telling(
    reader: &Reader,
    prepared: &Prepared,
    before: u64,
    after: u64,
) -> anyhow::Result<Vec<Told>> {
    let read = |step| reader.evaluated(HELD_OUT, step)?.collect::<Result<Vec<_>, _>>();
    let (first, last): (Vec<Evaluated>, Vec<Evaluated>) = (read(before)?, read(after)?);
    let tell = |title: &str, task: &Evaluated, episode: &Episode| Told {
        title: title.to_owned(),
        task: task.task.0.clone(),
        text: episode_text::of(episode, &task.answer, prepared),
    };
    let mut told = Vec::new();
    if let Some((task, wrong, right)) = turned(&first, &last) {
        told.push(tell("before: wrong", task, wrong));
        told.push(tell("the same problem after: right", task, right));
    }
    let mended = |title: &'static str, tasks: &[Evaluated]| {
        let all = tasks.iter().flat_map(|task| task.episodes.iter().map(move |one| (task, one)));
        let found =
            all.filter(|(_, episode)| is_mended(episode)).min_by_key(|(_, it)| it.tokens.len());
        found.map(|(task, episode)| tell(title, task, episode))
    };
    told.extend(
        mended("after: a failed call, mended", &last)
            .or_else(|| mended("before: a failed call, mended", &first)),
    );
    // Where there is no such story, one problem as it went at both ends.
    if told.len() < 2 {
        for (title, tasks) in [("before", &first), ("after", &last)] {
            let mut all = tasks.iter().filter_map(|task| Some((task, task.episodes.first()?)));
            told.extend(all.next().map(|(task, episode)| tell(title, task, episode)));
        }
    }
    Ok(told)
}

/// The shortest story of a task that was got wrong, though the episode came to its end, and is got
/// right now.
fn turned<'a>(
    first: &'a [Evaluated],
    last: &'a [Evaluated],
) -> Option<(&'a Evaluated, &'a Episode, &'a Episode)> {
    let pairs = first.iter().zip(last).filter(|(first, last)| first.task == last.task);
    let stories = pairs.filter_map(|(first, last)| {
        let wrong = first
            .episodes
            .iter()
            .find(|one| one.verdict.kind == VerdictKind::Wrong && one.finish == Finish::Done)?;
        Some((first, wrong, last.episodes.iter().find(|one| is_right(one))?))
    });
    stories.min_by_key(|(_, wrong, right)| wrong.tokens.len() + right.tokens.len())
}

fn is_right(episode: &Episode) -> bool {
    episode.verdict.kind == VerdictKind::Right
}

/// A call failed, a later one did not, and the answer is right.
fn is_mended(episode: &Episode) -> bool {
    let mut later = episode.calls().skip_while(|call| !call.outcome.is_failure());
    is_right(episode) && later.any(|call| !call.outcome.is_failure())
}
