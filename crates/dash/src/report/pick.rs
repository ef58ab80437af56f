//! Which episodes a report shows: of the newest step that has some, the cleanest right one, a right one
//! that was dropped for its flaws, and wrong ones that were kept.

use crate::Run;
use crate::episode::Place;
use crate::sketch::{EpisodeSketch, GroupSketch};
use crate::step::Step;

/// Steps back from the newest that are looked through.
const LOOKED_AT: usize = 40;
/// Letters of a text that are shown.
const LETTERS: usize = 1_200;

/// An episode that is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) why: &'static str,
    pub(crate) step: u64,
    pub(crate) task: String,
    pub(crate) sample: u32,
    pub(crate) problem: String,
    pub(crate) answer: String,
    pub(crate) verdict: String,
    pub(crate) parts: Vec<Part>,
}

/// What was written, run or shown in it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_code: bool,
}

/// Where a candidate is: step, group, sample.
type At = (u64, u64, u32);

/// What is looked for, and the first of it from the newest step back.
#[derive(Debug, Default)]
struct Candidates {
    clean: Option<At>,
    flawed: Option<At>,
    wrong: Option<At>,
    failed: Option<At>,
}

/// The episodes, and what can't be read.
pub(super) fn best_and_worst(run: &Run) -> (Vec<Shown>, Vec<String>) {
    let mut notices = Vec::new();
    let steps = run.reader().episode_steps().unwrap_or_default();
    let mut found = Candidates::default();
    for step in steps.into_iter().rev().take(LOOKED_AT) {
        // Read past the steps that pages keep.
        match Step::read(run, step) {
            Ok(read) => {
                for (number, group) in (0..).zip(&read.groups) {
                    found.look(step, number, group);
                }
            }
            Err(error) => notices.push(run.without_path(&error.to_string())),
        }
        if found.is_full() {
            break;
        }
    }
    let Candidates { clean, flawed, wrong, failed } = found;
    let all = [
        ("right, without a failed call, and kept", clean),
        ("right in spite of failed calls, and dropped", flawed),
        ("wrong, and kept to learn from", wrong),
        ("cut off by a limit, or without an answer", failed),
    ];
    let shown = all.into_iter().filter_map(|(why, at)| {
        let at = at?;
        read(run, why, at).map_err(|error| notices.push(run.without_path(&error.to_string()))).ok()
    });
    (shown.collect(), notices)
}

impl Candidates {
    fn is_full(&self) -> bool {
        self.clean.is_some()
            && self.flawed.is_some()
            && self.wrong.is_some()
            && self.failed.is_some()
    }

    fn look(&mut self, step: u64, number: u64, group: &GroupSketch) {
        let fails = |episode: &EpisodeSketch| {
            episode.calls().filter(|call| call.outcome.is_failure()).count()
        };
        let at = |episode: &EpisodeSketch| Some((step, number, episode.sample));
        for kept in group.kept.iter().map(|kept| &kept.episode) {
            if kept.is_right() && fails(kept) == 0 && kept.calls().count() > 0 {
                self.clean = self.clean.or_else(|| at(kept));
            }
            if !kept.is_right() {
                self.wrong = self.wrong.or_else(|| at(kept));
            }
        }
        let dropped = group.dropped.iter().map(|dropped| &dropped.episode);
        for episode in dropped.filter(|it| it.is_right() && fails(it) > 0) {
            self.flawed = self.flawed.or_else(|| at(episode));
        }
        for episode in group.episodes() {
            let is_cut = episode.finish != rocstar_record::episode::Finish::Done;
            if is_cut || episode.verdict.answer.is_none() {
                self.failed = self.failed.or_else(|| at(episode));
            }
        }
    }
}

fn read(run: &Run, why: &'static str, (step, group, sample): At) -> Result<Shown, crate::Error> {
    let place = Place::Step { step, group };
    let found = place.find(run, sample)?;
    let view = found.view(run, &place);
    let mut parts = Vec::new();
    for (number, turn) in (1..).zip(&view.turns) {
        let text = |text: &str| shortened(text.trim());
        parts.push(Part { name: format!("turn {number}"), text: text(&turn.text), is_code: false });
        for call in &turn.calls {
            parts.push(Part { name: "program".into(), text: text(&call.program), is_code: true });
            parts.push(Part {
                name: format!("{}, {:.1} ms", call.outcome, call.wall_us as f64 / 1e3),
                text: text(call.told()),
                is_code: true,
            });
        }
    }
    let kind = serde_json::to_value(view.verdict.kind).unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default().to_owned();
    Ok(Shown {
        why,
        step,
        sample,
        problem: shortened(&view.problem),
        answer: view.answer,
        verdict: format!("{kind}: {}", view.verdict.explanation),
        task: view.task,
        parts,
    })
}

fn shortened(text: &str) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(LETTERS).collect();
    if letters.next().is_some() {
        short += " […]";
    }
    short
}
