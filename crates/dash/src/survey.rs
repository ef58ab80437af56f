//! What is known of all steps of a run at once: how each task fared, and what the code environment
//! did.
//!
//! Gathered step by step, in the background, since it means reading every episode; a few bytes a
//! group are kept. Invariant: a step counts once, by the file that is there now; memory is bounded by
//! [`MOST_GROUPS`].

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use rocstar_record::episode::GroupVerdict;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::run::Run;
use crate::sketch::{EpisodeSketch, GroupSketch, outcome};

/// Groups that are kept of all steps.
const MOST_GROUPS: usize = 1_000_000;
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

/// How a list of tasks is asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// What comes first.
    pub sort: Sort,
    /// Which tasks.
    pub only: Only,
    /// A part of the task's name or answer.
    pub text: String,
    /// Tasks that are passed over.
    pub offset: usize,
    /// Tasks that are given, at most 200.
    pub limit: Option<usize>,
}

/// What comes first in a list of tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// The lowest share of right answers.
    #[default]
    Hardest,
    /// The highest.
    Easiest,
    /// The highest share of failed calls.
    ToolErrors,
    /// The largest gain from the first visit to the last.
    Gained,
    /// The one that was seen last.
    Newest,
    /// By name.
    Name,
}

/// Which tasks are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// All.
    #[default]
    All,
    /// Mostly right at the last visit, and not at the first.
    NewlySolved,
    /// Less often right at the last visit than at an earlier one, by a quarter or more.
    Regressed,
    /// Never right.
    NeverSolved,
    /// With failed calls.
    ToolErrors,
}

/// A part of a list of tasks.
#[derive(Debug, Serialize)]
pub struct Tasks {
    progress: Progress,
    /// Tasks that fit the question.
    found: usize,
    tasks: Vec<TaskView>,
    notices: Vec<String>,
}

/// How a task fared.
#[derive(Debug, Serialize)]
struct TaskView {
    task: String,
    answer: String,
    problem: String,
    right: u64,
    episodes: u64,
    calls: u64,
    failed_calls: u64,
    visits: Vec<VisitView>,
}

#[derive(Debug, Serialize)]
struct VisitView {
    step: u64,
    group: u32,
    right: u16,
    episodes: u16,
    kept: u16,
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
    for step in wanted.into_iter().take_while(|_| goes_on()) {
        let read = Gathered::read(run, step);
        let mut survey = run.survey();
        match read {
            Ok(gathered) => survey.add(step, gathered),
            Err(error) => survey.note(run.without_path(&error.to_string())),
        }
        if survey.groups >= MOST_GROUPS {
            survey.note(format!("the list of problems ends at {MOST_GROUPS} groups"));
            break;
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
    fn read(run: &Run, step: u64) -> Result<Self, Error> {
        let mark = run.reader().episodes_mark(step)?;
        let mut gathered = Self {
            mark,
            groups: Vec::new(),
            environment: StepEnvironment { step, ..StepEnvironment::default() },
            notices: Vec::new(),
        };
        for record in run.reader().groups_as::<GroupSketch>(step)? {
            match record {
                Ok(group) => gathered.push(&group),
                Err(error) => gathered.notices.push(run.without_path(&error.to_string())),
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
            name: group.task.0.as_str().into(),
            answer: group.answer.as_str().into(),
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

impl StepEnvironment {
    fn push(&mut self, call: &crate::sketch::CallSketch) {
        let name = match outcome(&call.outcome) {
            (kind @ ("exception" | "limit" | "exit"), Some(detail)) => format!("{kind}: {detail}"),
            (kind, _) => kind.to_owned(),
        };
        let is_known = self.outcomes.contains_key(&name) || self.outcomes.len() < MOST_OUTCOMES;
        let name = if is_known { name } else { "others".to_owned() };
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

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { steps: self.steps.len(), of: self.all_steps.max(self.steps.len()) }
    }

    /// What the code environment did, step by step.
    pub fn environment(&self) -> Vec<StepEnvironment> {
        self.steps.values().map(|step| step.environment.clone()).collect()
    }

    /// Tasks as `question` asks for them.
    pub fn tasks(&self, question: &Question, run: &Run) -> Tasks {
        let mut visits: BTreeMap<u32, Vec<(u64, Visit)>> = BTreeMap::new();
        for (step, surveyed) in &self.steps {
            for visit in &surveyed.visits {
                visits.entry(visit.task).or_default().push((*step, *visit));
            }
        }
        let text = question.text.to_lowercase();
        let mut found: Vec<(u32, Vec<(u64, Visit)>)> = visits
            .into_iter()
            .filter(|(task, visits)| self.fits(*task, &text) && question.only.holds(visits))
            .collect();
        self.sort(&mut found, question.sort);
        let limit = question.limit.unwrap_or(50).min(200);
        let vocabulary = run.vocabulary();
        let part = found.iter().skip(question.offset).take(limit);
        let tasks = part.filter_map(|(task, visits)| {
            let TaskName { name, answer, problem } = self.tasks.get(*task as usize)?;
            let problem = vocabulary.text(problem).trim().to_owned();
            Some(TaskView::new((name, answer), problem, visits))
        });
        Tasks {
            progress: self.progress(),
            found: found.len(),
            tasks: tasks.collect(),
            notices: self.notices.clone(),
        }
    }

    fn fits(&self, task: u32, text: &str) -> bool {
        let Some(task) = self.tasks.get(task as usize) else { return false };
        text.is_empty()
            || task.name.to_lowercase().contains(text)
            || task.answer.to_lowercase().contains(text)
    }

    fn sort(&self, found: &mut [(u32, Vec<(u64, Visit)>)], sort: Sort) {
        let name = |task: u32| self.tasks.get(task as usize).map(|task| &task.name);
        found.sort_by(|(one, first), (other, second)| {
            let order = match sort {
                Sort::Hardest => rate(first).total_cmp(&rate(second)),
                Sort::Easiest => rate(second).total_cmp(&rate(first)),
                Sort::ToolErrors => errors(second).total_cmp(&errors(first)),
                Sort::Gained => gain(second).total_cmp(&gain(first)),
                Sort::Newest => last_step(second).cmp(&last_step(first)),
                Sort::Name => std::cmp::Ordering::Equal,
            };
            order.then_with(|| name(*one).cmp(&name(*other)))
        });
    }
}

impl Only {
    fn holds(self, visits: &[(u64, Visit)]) -> bool {
        let first = visits.first().map_or(0.0, |(_, visit)| visit.rate());
        let last = visits.last().map_or(0.0, |(_, visit)| visit.rate());
        let best = visits.iter().map(|(_, visit)| visit.rate()).fold(0.0, f64::max);
        match self {
            Self::All => true,
            Self::NewlySolved => last > 0.5 && first <= 0.5,
            Self::Regressed => best - last >= 0.25,
            Self::NeverSolved => best == 0.0,
            Self::ToolErrors => visits.iter().any(|(_, visit)| visit.failed_calls > 0),
        }
    }
}

impl Visit {
    fn rate(&self) -> f64 {
        f64::from(self.right) / f64::from(self.episodes.max(1))
    }
}

fn total(visits: &[(u64, Visit)], of: fn(&Visit) -> u64) -> u64 {
    visits.iter().map(|(_, visit)| of(visit)).sum()
}

fn rate(visits: &[(u64, Visit)]) -> f64 {
    let episodes = total(visits, |visit| visit.episodes.into());
    total(visits, |visit| visit.right.into()) as f64 / episodes.max(1) as f64
}

fn errors(visits: &[(u64, Visit)]) -> f64 {
    let calls = total(visits, |visit| visit.calls.into());
    total(visits, |visit| visit.failed_calls.into()) as f64 / calls.max(1) as f64
}

fn gain(visits: &[(u64, Visit)]) -> f64 {
    let rate = |visit: Option<&(u64, Visit)>| visit.map_or(0.0, |(_, visit)| visit.rate());
    rate(visits.last()) - rate(visits.first())
}

fn last_step(visits: &[(u64, Visit)]) -> u64 {
    visits.last().map_or(0, |(step, _)| *step)
}

impl TaskView {
    fn new((task, answer): (&str, &str), problem: String, visits: &[(u64, Visit)]) -> Self {
        let view = |(step, visit): &(u64, Visit)| {
            let Visit { group, right, episodes, kept, .. } = *visit;
            VisitView { step: *step, group, right, episodes, kept }
        };
        Self {
            task: task.to_owned(),
            answer: answer.to_owned(),
            problem,
            right: total(visits, |visit| visit.right.into()),
            episodes: total(visits, |visit| visit.episodes.into()),
            calls: total(visits, |visit| visit.calls.into()),
            failed_calls: total(visits, |visit| visit.failed_calls.into()),
            visits: visits.iter().map(view).collect(),
        }
    }
}
