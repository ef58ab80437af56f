//! Tasks of a run as a list: sorted, filtered, a part at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Progress, Survey, TaskName, Visit};
use crate::run::Run;

/// Tasks that are given where nothing else is asked for, and at most.
const TASKS: (usize, usize) = (50, 200);

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
    /// Tasks that are given, 50 where nothing is said, at most 200.
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

impl Survey {
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
        let limit = question.limit.unwrap_or(TASKS.0).min(TASKS.1);
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
