//! What a run tells while it works, to whoever shows it, and how it is asked to stop.
//!
//! Invariant: what is told is what is written down; an observer can't change a run except by
//! stopping it.

use std::path::PathBuf;

use rocstar_record::metric::Place;
use rocstar_rollout::Progress;
use serde::Serialize;

use crate::plan::StagePlan;
use crate::rl::metrics::{RlEvaluationMetrics, RlStepMetrics};

/// Hears what happens. Is called between steps, on the thread that trains.
pub trait Observer: Send {
    /// Something happened.
    fn event(&mut self, event: &Event);

    /// Whether the run should save its state and stop; asked after each step.
    fn wants_stop(&mut self) -> bool;
}

/// What happens in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run goes on from a checkpoint.
    Resumed {
        /// Steps done.
        step: u64,
    },
    /// A stage begins, or goes on.
    Stage(Box<StagePlan>),
    /// The evaluation begins.
    Evaluating {
        /// Sequences.
        sequences: usize,
    },
    /// A step was done.
    Step(StepMetrics),
    /// An evaluation was done.
    Evaluation(EvaluationMetrics),
    /// Tasks that the policy solves already were looked for, before a stage of reinforcement
    /// learning.
    Filtered {
        /// Tasks of the stage.
        tasks: usize,
        /// Of these, tasks that are left out.
        left_out: usize,
    },
    /// Episodes run.
    RollingOut {
        /// The step that they are for.
        step: u64,
        /// How many have ended.
        #[serde(flatten)]
        progress: Progress,
    },
    /// A step of reinforcement learning was done.
    RlStep(Box<RlStepMetrics>),
    /// An evaluation of reinforcement learning was done.
    RlEvaluation(Box<RlEvaluationMetrics>),
    /// A checkpoint was saved.
    Checkpoint {
        /// Steps done.
        step: u64,
        /// Its folder.
        path: PathBuf,
        /// What it took.
        seconds: f64,
    },
}

/// A step, as a line of `metrics.jsonl` holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepMetrics {
    /// Steps done in the whole run, this one counted.
    pub step: u64,
    /// The stage, from 0.
    pub stage: usize,
    /// Pass over the data, from 0.
    pub epoch: u64,
    /// Mean loss over the tokens to learn, in nats.
    pub loss: f64,
    /// The step's learning rate.
    pub learning_rate: f64,
    /// Length of the gradient before it was clipped.
    pub gradient_norm: f64,
    /// Sequences.
    pub sequences: usize,
    /// Tokens.
    pub tokens: u64,
    /// Of these, tokens to learn.
    pub learnt_tokens: u64,
    /// Times the model was gone through.
    pub micro_batches: usize,
    /// What the step took.
    pub seconds: f64,
    /// Tokens over seconds.
    pub tokens_per_s: f64,
}

/// An evaluation, as a line of `metrics.jsonl` holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationMetrics {
    /// Steps done in the whole run.
    pub step: u64,
    /// The stage, from 0.
    pub stage: usize,
    /// Mean loss over the tokens to learn, in nats.
    pub loss: f64,
    /// Sequences.
    pub sequences: usize,
    /// Tokens that count.
    pub learnt_tokens: u64,
    /// What it took.
    pub seconds: f64,
}

/// A line of `metrics.jsonl`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum MetricsLine<'a> {
    Step(&'a StepMetrics),
    Evaluation(&'a EvaluationMetrics),
    RlStep(&'a RlStepMetrics),
    RlEvaluation(&'a RlEvaluationMetrics),
}

impl MetricsLine<'_> {
    /// What kind of line it is.
    pub(crate) const fn place(&self) -> Place {
        match self {
            Self::Step(_) => Place::SftStep,
            Self::Evaluation(_) => Place::SftEvaluation,
            Self::RlStep(_) => Place::RlStep,
            Self::RlEvaluation(_) => Place::RlEvaluation,
        }
    }

    /// Its step.
    pub(crate) const fn step(&self) -> u64 {
        match self {
            Self::Step(metrics) => metrics.step,
            Self::Evaluation(metrics) => metrics.step,
            Self::RlStep(metrics) => metrics.step,
            Self::RlEvaluation(metrics) => metrics.step,
        }
    }

    /// Its numbers by their names, but for those that are absent.
    pub(crate) fn numbers(&self) -> serde_json::Result<Vec<(String, f64)>> {
        let line = serde_json::to_value(self)?;
        let fields = line.as_object().into_iter().flatten();
        let numbers = fields.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        Ok(numbers.collect())
    }
}

/// How a run came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every stage is done.
    Finished,
    /// It was asked to stop, saved its state and can go on.
    Stopped,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;
    use rocstar_record::metric;

    use super::*;

    /// The numbers of a line, and of the metrics that the registry says are logged there.
    fn logged_and_registered(line: &MetricsLine<'_>) -> [BTreeSet<String>; 2] {
        let place = line.place();
        let line = serde_json::to_value(line).unwrap();
        let logged = line.as_object().unwrap().keys().filter(|key| *key != "kind").cloned();
        let all = metric::topics().iter().flat_map(|topic| topic.metrics);
        let registered = all.filter(|metric| metric.logged.contains(&place));
        [logged.collect(), registered.map(|metric| metric.name.to_owned()).collect()]
    }

    #[test]
    fn every_number_of_a_line_is_in_the_registry() {
        let step = StepMetrics {
            step: 1,
            stage: 0,
            epoch: 0,
            loss: 0.5,
            learning_rate: 1e-3,
            gradient_norm: 1.0,
            sequences: 1,
            tokens: 1,
            learnt_tokens: 1,
            micro_batches: 1,
            seconds: 1.0,
            tokens_per_s: 1.0,
        };
        let evaluation = EvaluationMetrics {
            step: 1,
            stage: 0,
            loss: 0.5,
            sequences: 1,
            learnt_tokens: 1,
            seconds: 1.0,
        };
        let lines = [
            MetricsLine::Step(&step),
            MetricsLine::Evaluation(&evaluation),
            MetricsLine::RlStep(&RlStepMetrics::default()),
            MetricsLine::RlEvaluation(&RlEvaluationMetrics::default()),
        ];
        for line in lines {
            let [logged, registered] = logged_and_registered(&line);
            assert_eq!(logged, registered, "{}", line.place().name());
        }
    }
}
