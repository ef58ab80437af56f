//! What is known of all steps of a run at once: how each task fared, and what the code environment
//! did.
//!
//! Gathered step by step, in the background, since it means reading every episode; a few bytes a
//! group are kept. Invariant: a step counts once, by the file that is there now; memory is bounded by
//! `MOST_GROUPS`.

mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use rocstar_record::episode::GroupVerdict;
use serde::Serialize;

pub use tasks::{Only, Question, Sort, Tasks};

use crate::Error;
use crate::run::Run;
use crate::sketch::{EpisodeSketch, GroupSketch, outcome};

/// Groups that are kept of all steps.
const MOST_GROUPS: usize = 1_000_000;
/// Groups that are kept of a step.
const MOST_GROUPS_OF_STEP: usize = 20_000;
/// Letters of a name or an answer that are kept.
const MOST_LETTERS: usize = 200;
/// Tokens of a problem that are kept.
const PROBLEM_TOKENS: usize = 48;
/// Kinds of outcomes of a step that are told apart.
const MOST_OUTCOMES: usize = 64;
/// Upper bounds of the buckets of wall times, in microseconds; the last has none.
pub const WALL_BOUNDS_US: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 60_000_000,
];

/// What was gathered of a run.
#[derive(Debug, Default)]
pub struct Survey {
    steps: BTreeMap<u64, Surveyed>,
    tasks: Vec<TaskName>,
    by_name: HashMap<String, u32>,
    groups: usize,
    /// Steps of the run when it was last looked.
    all_steps: usize,
    notices: Vec<String>,
    is_reading: bool,
}

#[derive(Debug)]
struct TaskName {
    name: Box<str>,
    answer: Box<str>,
    problem: Box<[u32]>,
}

/// What was gathered of a step.
#[derive(Debug)]
struct Surveyed {
    mark: (u64, Option<SystemTime>),
    visits: Box<[Visit]>,
    environment: StepEnvironment,
}

/// How a task fared in a step.
#[derive(Debug, Clone, Copy)]
struct Visit {
    task: u32,
    group: u32,
    right: u16,
    episodes: u16,
    kept: u16,
    calls: u32,
    failed_calls: u32,
}

/// What the code environment did in a step.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StepEnvironment {
    /// The step.
    pub step: u64,
    /// Calls that were run or refused.
    pub calls: u64,
    /// Calls by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Calls by wall time, in buckets of [`WALL_BOUNDS_US`].
    pub wall: [u64; WALL_BOUNDS_US.len() + 1],
    /// Sum of wall times.
    pub wall_us: u64,
    /// Sum of CPU times.
    pub cpu_us: u64,
    /// Largest peak memory of a call.
    pub memory_bytes_max: u64,
    /// Rollouts that came to no episode.
    pub lost: u64,
}

/// How far the survey is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Steps that are gathered.
    pub steps: usize,
    /// Of so many.
    pub of: usize,
}

/// Reads what is new of `run` into its survey, a step at a time, until `goes_on` says no. Does nothing
/// where another call is at it.
///
/// # Errors
/// The folder of episodes can't be read.
pub fn read_on(run: &Run, goes_on: impl Fn() -> bool) -> Result<(), Error> {
    let steps = run.reader().episode_steps()?;
    let wanted = {
        let mut survey = run.survey();
        if std::mem::replace(&mut survey.is_reading, true) {
            return Ok(());
        }
        survey.keep_only(&steps);
        survey.outdated(run, &steps)
    };
    for step in wanted {
        if !goes_on() || run.survey().is_full() {
            break;
        }
        let read = Gathered::read(run, step);
        let mut survey = run.survey();
        match read {
            Ok(gathered) => survey.add(step, gathered),
            Err(error) => {
                survey.note(run.without_path(&error.to_string()));
                // It counts as read, so that it is read again only when it is replaced.
                let mark = run.reader().episodes_mark(step).unwrap_or_default();
                survey.add(step, Gathered::nothing(step, mark));
            }
        }
        if survey.is_full() {
            survey.note(format!("the list of problems ends at {MOST_GROUPS} groups"));
        }
    }
    run.survey().is_reading = false;
    Ok(())
}

/// What is read of a step's file.
struct Gathered {
    mark: (u64, Option<SystemTime>),
    groups: Vec<(TaskName, Visit)>,
    environment: StepEnvironment,
    notices: Vec<String>,
}

impl Gathered {
    fn nothing(step: u64, mark: (u64, Option<SystemTime>)) -> Self {
        let environment = StepEnvironment { step, ..StepEnvironment::default() };
        Self { mark, groups: Vec::new(), environment, notices: Vec::new() }
    }

    fn read(run: &Run, step: u64) -> Result<Self, Error> {
        let mark = run.reader().episodes_mark(step)?;
        let mut gathered = Self::nothing(step, mark);
        for record in run.groups::<GroupSketch>(step)? {
            match record {
                Ok(group) => gathered.push(&group),
                Err(error) => gathered.notices.push(error.to_string()),
            }
            if gathered.groups.len() >= MOST_GROUPS_OF_STEP {
                let notice =
                    format!("step {step}: only the first {MOST_GROUPS_OF_STEP} groups count");
                gathered.notices.push(notice);
                break;
            }
        }
        Ok(gathered)
    }

    fn push(&mut self, group: &GroupSketch) {
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let calls = || group.episodes().flat_map(EpisodeSketch::calls);
        calls().for_each(|call| self.environment.push(call));
        self.environment.lost += group.lost.len() as u64;
        let problem = group.episodes().next().map(EpisodeSketch::problem).unwrap_or_default();
        let number = self.groups.len();
        let name = TaskName {
            name: beginning(&group.task.0),
            answer: beginning(&group.answer),
            problem: problem.get(..PROBLEM_TOKENS.min(problem.len())).unwrap_or_default().into(),
        };
        let kept = if group.verdict == GroupVerdict::Used { group.kept.len() } else { 0 };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let visit = Visit {
            task: 0,
            group: count(number),
            right: small(group.episodes().filter(|it| it.is_right()).count()),
            episodes: small(group.episodes().count()),
            kept: small(kept),
            calls: count(calls().count()),
            failed_calls: count(calls().filter(|call| call.outcome.is_failure()).count()),
        };
        self.groups.push((name, visit));
    }
}

/// The first letters of a text that may have any length.
fn beginning(text: &str) -> Box<str> {
    text.chars().take(MOST_LETTERS).collect::<String>().into()
}

impl StepEnvironment {
    fn push(&mut self, call: &crate::sketch::CallSketch) {
        let name = match outcome(&call.outcome) {
            (kind @ ("exception" | "limit" | "exit"), Some(detail)) => format!("{kind}: {detail}"),
            (kind, _) => kind.to_owned(),
        };
        let is_known = self.outcomes.contains_key(&name) || self.outcomes.len() < MOST_OUTCOMES;
        let name = if is_known { beginning(&name).into_string() } else { "others".to_owned() };
        *self.outcomes.entry(name).or_default() += 1;
        self.calls += 1;
        self.wall[WALL_BOUNDS_US.partition_point(|bound| *bound < call.wall_us)] += 1;
        self.wall_us = self.wall_us.saturating_add(call.wall_us);
        self.cpu_us = self.cpu_us.saturating_add(call.cpu_us);
        self.memory_bytes_max = self.memory_bytes_max.max(call.memory_bytes.unwrap_or(0));
    }
}

impl Survey {
    fn keep_only(&mut self, steps: &[u64]) {
        self.steps.retain(|step, _| steps.binary_search(step).is_ok());
        self.groups = self.steps.values().map(|step| step.visits.len()).sum();
        self.all_steps = steps.len();
    }

    /// Steps that are not gathered, or were replaced, the newest first.
    fn outdated(&self, run: &Run, steps: &[u64]) -> Vec<u64> {
        let is_known = |step: &u64| {
            let known = self.steps.get(step).map(|step| step.mark);
            known.is_some() && known == run.reader().episodes_mark(*step).ok()
        };
        steps.iter().rev().filter(|step| !is_known(step)).copied().collect()
    }

    /// No more groups are kept, whatever steps are left.
    const fn is_full(&self) -> bool {
        self.groups >= MOST_GROUPS
    }

    fn note(&mut self, notice: String) {
        if self.notices.len() < 20 && !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    fn add(&mut self, step: u64, gathered: Gathered) {
        let Gathered { mark, groups, environment, notices } = gathered;
        notices.into_iter().for_each(|notice| self.note(notice));
        let visits: Box<[Visit]> = groups
            .into_iter()
            .map(|(name, visit)| Visit { task: self.task(name), ..visit })
            .collect();
        self.groups += visits.len();
        if let Some(old) = self.steps.insert(step, Surveyed { mark, visits, environment }) {
            self.groups -= old.visits.len();
        }
    }

    fn task(&mut self, task: TaskName) -> u32 {
        if let Some(known) = self.by_name.get(&*task.name) {
            return *known;
        }
        let number = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        self.by_name.insert(task.name.to_string(), number);
        self.tasks.push(task);
        number
    }

    /// Forgets everything, unless it is being gathered.
    pub(crate) fn forget(&mut self) {
        if !self.is_reading {
            *self = Self::default();
        }
    }

    /// Says how many steps the run has by now.
    pub const fn expect(&mut self, steps: usize) {
        self.all_steps = steps;
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        // What is full goes no further, and nobody need ask again.
        let of = if self.is_full() { 0 } else { self.all_steps };
        Progress { steps: self.steps.len(), of: of.max(self.steps.len()) }
    }

    /// What the code environment did, step by step.
    pub fn environment(&self) -> Vec<StepEnvironment> {
        self.steps.values().map(|step| step.environment.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_survey_is_at_its_end() {
        let mut survey = Survey { groups: MOST_GROUPS - 1, all_steps: 9, ..Survey::default() };
        assert_eq!(survey.progress(), Progress { steps: 0, of: 9 });
        survey.groups += 1;
        assert_eq!(survey.progress(), Progress { steps: 0, of: 0 }, "nobody asks again");
    }
}
