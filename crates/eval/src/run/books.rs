//! What is counted while attempts end: scores by problem, failures, when what was last told.
//!
//! Invariant: the running score is the figure that the result will have of the same scores.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rocstar_record::attempt::Score;
use rocstar_record::episode::TaskId;

use super::Progress;
use crate::metrics::Estimate;
use crate::store::{AttemptId, Saved};
use crate::suite::{Scorer, Suite};

/// The result is written at most so often while attempts come.
const RESULT_EVERY: Duration = Duration::from_secs(10);
/// How far it is, is told at most so often.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What is counted while attempts end.
pub(super) struct Books<'a> {
    places: HashMap<&'a TaskId, usize>,
    /// Scores by problem, in the suite's order.
    values: Vec<Vec<f64>>,
    /// The problems' categories, where the suite weighs those alike.
    categories: Option<Vec<Option<&'a str>>>,
    of: usize,
    failures: BTreeMap<String, usize>,
    began: Instant,
    told: Option<Instant>,
    /// When the result was last written, and how long that took.
    written: Option<(Instant, Duration)>,
}

impl<'a> Books<'a> {
    /// With the scores that are there.
    pub(super) fn new(saved: &Saved, suite: &'a Suite) -> Self {
        let asked = &suite.problems[..suite.problems.len().min(saved.protocol.suite.problems)];
        let values = asked.iter().map(|problem| {
            let all = (problem.task.id.clone(), 0)..=(problem.task.id.clone(), u32::MAX);
            saved.scores.range(all).map(|(_, score)| score.value).collect()
        });
        let categories = asked.iter().map(|problem| problem.category()).collect();
        Self {
            places: asked.iter().map(|problem| &problem.task.id).zip(0..).collect(),
            values: values.collect(),
            categories: (suite.scorer == Scorer::Calls).then_some(categories),
            of: asked.len() * saved.protocol.settings.samples as usize,
            failures: BTreeMap::new(),
            began: Instant::now(),
            told: None,
            written: None,
        }
    }

    pub(super) fn add_scores(&mut self, scores: &[(AttemptId, Score)]) {
        for ((id, _), score) in scores {
            let values = self.places.get(id).and_then(|place| self.values.get_mut(*place));
            if let Some(values) = values {
                values.push(score.value);
            }
        }
    }

    pub(super) fn add_failures(&mut self, causes: impl IntoIterator<Item = String>) {
        for cause in causes {
            *self.failures.entry(cause).or_default() += 1;
        }
    }

    pub(super) const fn failures(&self) -> &BTreeMap<String, usize> {
        &self.failures
    }

    /// How far it is, unless it was told a moment ago.
    pub(super) fn progress_that_is_due(&mut self) -> Option<Progress> {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= PROGRESS_EVERY);
        is_due.then(|| self.progress())
    }

    /// How far it is.
    pub(super) fn progress(&mut self) -> Progress {
        self.told = Some(Instant::now());
        let score = match &self.categories {
            None => Estimate::of_samples(&self.values),
            Some(of) => Estimate::of_categories(
                of.iter().copied().zip(self.values.iter().map(Vec::as_slice)),
            ),
        };
        Progress {
            ended: self.values.iter().map(Vec::len).sum(),
            of: self.of,
            failed: self.failures.values().sum(),
            score,
        }
    }

    /// Votes of many samples take their time; then the result is written less often.
    pub(super) fn result_is_due(&self) -> bool {
        let (since, took) = self.written.unwrap_or((self.began, Duration::ZERO));
        since.elapsed() >= RESULT_EVERY.max(took * 20)
    }

    pub(super) fn result_was_written(&mut self, took: Duration) {
        self.written = Some((Instant::now(), took));
    }
}
