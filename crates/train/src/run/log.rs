//! What a stage writes down while it runs: metrics, events, episodes, evaluations, checkpoints.
//!
//! Invariant: what is told to observers and sinks is what the run's directory has got before.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rocstar_nn::files::{self, StoreAs};
use rocstar_nn::step::Model;
use rocstar_record::episode::{Evaluated, Group, SCHEMA_VERSION};
use rocstar_record::message::ToolSpec;
use rocstar_record::run::RunDirectory;
use rocstar_record::sink::{At, Prometheus, Sink as _, TensorBoard};
use rocstar_rollout::RolledOut;
use serde_json::json;

use crate::checkpoint::{self, State, TOOLS};
use crate::error::{Error, on_file};
use crate::learner::Learner;
use crate::observer::{EvaluationMetrics, Event, MetricsLine, Observer, StepMetrics};
use crate::prepare::Outline;
use crate::recipe::CheckpointOptions;
use crate::rl::metrics::{RlEvaluationMetrics, RlStepMetrics};

/// What is written down while a stage runs: metrics, events, episodes, checkpoints.
#[derive(Debug)]
pub(crate) struct RunLog {
    pub(super) directory: RunDirectory,
    pub(super) tensorboard: TensorBoard,
    pub(super) prometheus: Option<Prometheus>,
    pub(super) options: CheckpointOptions,
    /// Tools that the stage's model is told of.
    pub(super) tools: Vec<ToolSpec>,
    /// Where the run is.
    pub(crate) state: State,
}

impl RunLog {
    /// Writes a line of metrics down, and tells its numbers to TensorBoard and Prometheus.
    fn line(&mut self, line: &MetricsLine<'_>) -> Result<(), Error> {
        self.directory.metric(line)?;
        let at = At { step: line.step(), place: line.place(), unix_s: unix_s() };
        let numbers = line.numbers().map_err(io::Error::from);
        let taken = numbers.and_then(|numbers| {
            let borrowed: Vec<_> = numbers.iter().map(|(name, it)| (name.as_str(), *it)).collect();
            if let Some(prometheus) = &mut self.prometheus {
                prometheus.take(at, &borrowed)?;
            }
            self.tensorboard.take(at, &borrowed)
        });
        taken.map_err(on_file("write", self.tensorboard.path()))
    }

    /// Writes a step down, and tells it.
    pub(crate) fn step(
        &mut self,
        metrics: StepMetrics,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.line(&MetricsLine::Step(&metrics))?;
        observer.event(&Event::Step(metrics));
        Ok(())
    }

    /// Writes an evaluation down, and tells it.
    pub(crate) fn evaluation(
        &mut self,
        metrics: EvaluationMetrics,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.line(&MetricsLine::Evaluation(&metrics))?;
        observer.event(&Event::Evaluation(metrics));
        Ok(())
    }

    /// Writes the groups of a step of reinforcement learning down: before its metrics, which tell what
    /// that took too.
    pub(crate) fn episodes(&self, step: u64, groups: &[Group]) -> Result<(), Error> {
        self.directory.write_episodes(step, groups)?;
        Ok(())
    }

    /// Writes a step of reinforcement learning down, and tells it.
    pub(crate) fn rl_step(
        &mut self,
        metrics: RlStepMetrics,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.line(&MetricsLine::RlStep(&metrics))?;
        observer.event(&Event::RlStep(Box::new(metrics)));
        Ok(())
    }

    /// Writes an evaluation of reinforcement learning down with its episodes, and tells it.
    pub(crate) fn rl_evaluation(
        &mut self,
        metrics: RlEvaluationMetrics,
        tasks: &[RolledOut],
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let tasks: Vec<Evaluated> = tasks
            .iter()
            .map(|one| Evaluated {
                schema: SCHEMA_VERSION,
                task: one.task.id.clone(),
                answer: one.task.answer.clone(),
                episodes: one.episodes.clone(),
                lost: one.lost.clone(),
            })
            .collect();
        self.directory.write_evaluation(HELD_OUT, metrics.step, &metrics, &tasks)?;
        self.line(&MetricsLine::RlEvaluation(&metrics))?;
        observer.event(&Event::RlEvaluation(Box::new(metrics)));
        Ok(())
    }

    /// Whether a checkpoint is due at this step, for the recipe's rhythm.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let every = self.options.every_steps;
        every > 0 && self.state.step.is_multiple_of(every)
    }

    /// Whether `loss` is lower than at every checkpoint of this stage that is there, so that this step is worth
    /// keeping.
    pub(crate) fn is_best(&self, loss: f64) -> Result<bool, Error> {
        let all = checkpoint::list(&self.directory.checkpoints())?;
        let best = checkpoint::best(&all).map(|index| &all[index].state);
        let best = best.filter(|best| best.stage == self.state.stage);
        let best = best.and_then(|best| best.evaluation_loss);
        Ok(self.options.keep_best && best.is_none_or(|best| loss < best))
    }

    /// Saves a checkpoint of where the run is, and tells it.
    pub(crate) fn save(
        &mut self,
        learner: &Learner,
        outline: &Outline,
        reference: Option<&Model>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        self.state.metrics_bytes = self.directory.sync_metrics()?;
        let folder = self.directory.checkpoints();
        let path = checkpoint::save(&folder, &self.state, &self.options, |folder| {
            learner.save(folder, outline.name.as_deref())?;
            outline.tokenizer.save(folder)?;
            if let Some(Model { config, parameters }) = reference {
                let folder = checkpoint::reference_folder(folder);
                let (store, bytes) = (StoreAs::F32, files::DEFAULT_SHARD_BYTES);
                files::save(&folder, config, parameters, store, bytes)?;
            }
            // The template that was trained with, which need not be the tokenizer's own.
            let template = folder.join("chat_template.jinja");
            let source = outline.family.template().source();
            fs::write(&template, source).map_err(on_file("write", &template))?;
            write_tools(folder, &self.tools)
        })?;
        self.directory.event("checkpoint", json!({ "step": self.state.step }))?;
        let seconds = begun.elapsed().as_secs_f64();
        observer.event(&Event::Checkpoint { step: self.state.step, path, seconds });
        Ok(())
    }
}

/// The tools that the model was trained with, in the form in which requests of OpenAI's API carry
/// them: who serves the model needs the same words to pose it the same prompts.
fn write_tools(folder: &Path, tools: &[ToolSpec]) -> Result<(), Error> {
    if tools.is_empty() {
        return Ok(());
    }
    let path = folder.join(TOOLS);
    let text = serde_json::to_string_pretty(tools).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(&path, text + "\n"));
    written.map_err(on_file("write", &path))
}

/// The name under which evaluations on tasks that a stage doesn't learn from are written down.
const HELD_OUT: &str = "held_out";

/// Seconds since 1970.
pub(super) fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
