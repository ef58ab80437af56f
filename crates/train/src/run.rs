//! A run: its stages one after the other, what is written down of them, and going on after a stop.
//!
//! Invariant: `metrics.jsonl` and the checkpoints of a run that was stopped, or killed at any moment,
//! and went on are those of a run that was not, byte for byte but for times. What a checkpoint needs
//! for that is its step and its place in the metrics; all else follows from recipe and data.

mod log;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_nn::optimizer::AdamW;
use rocstar_nn::step::Model;
use rocstar_record::run::RunDirectory;
use rocstar_record::sink::{Prometheus, TensorBoard};
use rocstar_rollout::{MathVerifier, Verifier};
use rocstar_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::checkpoint::{self, Checkpoint, State};
use crate::error::{Error, on_file};
use crate::learner;
use crate::observer::{Event, Observer, Outcome};
use crate::prepare::{Prepared, Work};
use crate::recipe::{Recipe, RecipeError};
use crate::{rl, sft};
use log::unix_s;
use watch::Watch;

pub(crate) use log::RunLog;

/// Where a run begins or goes on.
#[derive(Debug)]
pub struct Start {
    directory: RunDirectory,
    checkpoint: Option<Checkpoint>,
    is_new: bool,
}

impl Start {
    /// A new run.
    ///
    /// # Errors
    /// There is a run of this name, or its directory can't be written.
    pub fn new(recipe: &Recipe) -> Result<Self, Error> {
        let directory = RunDirectory::create(&directory_of(recipe), &recipe.to_toml()?)?;
        Ok(Self { directory, checkpoint: None, is_new: true })
    }

    /// A run that goes on from its checkpoint of `step`, or its last one; from its beginning where
    /// it has none. `recipe` gets the run's number of threads where it leaves that open.
    ///
    /// # Errors
    /// There is no such run or checkpoint, another process works on the run, its recipe is another
    /// one, or the checkpoint is damaged.
    pub fn resume(recipe: &mut Recipe, step: Option<u64>) -> Result<Self, Error> {
        let directory = RunDirectory::open(&directory_of(recipe))?;
        let saved = Recipe::from_toml(&directory.config()?).map_err(RecipeError::from)?;
        if recipe.threads == 0 {
            recipe.threads = saved.threads;
        }
        let mut differences = saved.differences(recipe)?;
        // Where a run lies and what is kept of it changes no number.
        differences.retain(|difference| {
            !difference.key.starts_with("run.") && !difference.key.starts_with("checkpoint.")
        });
        if !differences.is_empty() {
            let path = directory.path().to_owned();
            return Err(Error::RecipeChanged { path, differences });
        }
        let mut all = checkpoint::list(&directory.checkpoints())?;
        let checkpoint = match step {
            None => all.pop(),
            Some(0) => None,
            Some(step) => {
                let found = all.into_iter().find(|checkpoint| checkpoint.state.step == step);
                Some(found.ok_or_else(|| Error::NoCheckpoint {
                    path: directory.path().to_owned(),
                    step: Some(step),
                })?)
            }
        };
        if let Some(checkpoint) = &checkpoint {
            checkpoint.verify()?;
        }
        Ok(Self { directory, checkpoint, is_new: false })
    }

    /// The checkpoint that the run goes on from.
    pub const fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// The run's directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A model on its way from stage to stage, with the optimiser's moments where all its weights were
/// trained.
pub(crate) type Trained = (Model, Option<AdamW>);

/// What a run works with, beside its recipe.
#[derive(Debug, Clone)]
pub struct World {
    /// Written down in `env.json`.
    pub environment: Value,
    /// Runs what the model writes; needed where [`Prepared::needs_sandbox`] says so.
    pub sandbox: Option<Arc<dyn Sandbox>>,
    /// Says whether answers are right.
    pub verifier: Arc<dyn Verifier>,
    /// Told every number that the run writes down; a clone of it can be asked meanwhile.
    pub prometheus: Option<Prometheus>,
}

impl World {
    /// Answers are mathematics, nothing runs programs, and nobody is told numbers.
    pub fn new(environment: Value) -> Self {
        Self { environment, sandbox: None, verifier: Arc::new(MathVerifier), prometheus: None }
    }
}

/// Runs every stage that is not done yet.
///
/// `load` gives the model that the run begins with, or that of the checkpoint that it goes on from.
/// Computes on as many threads as the recipe says.
///
/// # Errors
/// Data, model or checkpoint don't fit together, something can't be read or written, or the
/// arithmetic broke down. Checkpoints that were saved stay good.
pub fn run(
    prepared: &Prepared,
    start: Start,
    load: impl FnOnce() -> Result<Model, Error> + Send,
    world: &World,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    if prepared.needs_sandbox() && world.sandbox.is_none() {
        return Err(Error::NoSandbox);
    }
    on_threads(prepared, || run_stages(prepared, start, load, world, observer))
}

/// Seconds that all steps should take, from one micro-batch of each stage, learnt twice and
/// forgotten. `model` is what `load` of [`run`] would give.
///
/// # Errors
/// The model doesn't fit the recipe or the data.
pub fn measure(prepared: &Prepared, model: Model) -> Result<f64, Error> {
    on_threads(prepared, || {
        let (mut seconds, mut trained) = (0.0, (model, None));
        for stage in &prepared.stages {
            let of_stage = match &stage.work {
                Work::Sft(work) => sft::measure(work, &stage.plan, trained, prepared.recipe.seed),
                Work::Rl(work) => rl::measure(work, &stage.plan, trained, prepared),
            };
            let (more, after) = of_stage?;
            (seconds, trained) = (seconds + more, (after.0, None));
        }
        Ok(seconds)
    })
}

/// Runs `work` on the recipe's threads, of which nothing else makes use.
pub(crate) fn on_threads<T: Send>(
    prepared: &Prepared,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let threads = prepared.recipe.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|source| Error::Threads { threads, source })?.install(work)
}

fn run_stages(
    prepared: &Prepared,
    start: Start,
    load: impl FnOnce() -> Result<Model, Error>,
    world: &World,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let Start { mut directory, checkpoint, is_new } = start;
    let step = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.state.step);
    if let Some(checkpoint) = &checkpoint {
        check_data(prepared, checkpoint)?;
    }
    let state = checkpoint.as_ref().map_or_else(State::default, |one| one.state.clone());
    let first = state.stage + usize::from(state.stage_done);
    // Everything that may be refused comes before anything is removed.
    let model = if first < prepared.stages.len() { Some(load()?) } else { None };
    let mut moments = None;
    if let (Some(model), Some(checkpoint)) = (&model, &checkpoint) {
        check_base(model, checkpoint)?;
        // Between two stages: within one, the learner reads them itself.
        if checkpoint.state.stage_done && prepared.stages[first].work.keeps_optimizer() {
            moments = Some(learner::moments(checkpoint, model)?);
        }
    }
    directory.cut_back(step, state.metrics_bytes)?;
    let folder = directory.checkpoints();
    checkpoint::remove_partial(&folder)?;
    checkpoint::remove_after(&folder, step, &prepared.recipe.checkpoint)?;
    let Some(model) = model else { return Ok(Outcome::Finished) };
    if is_new {
        directory.write_environment(&world.environment)?;
        // Whoever looks at the run shows its tokens as text before weights are saved.
        let folder = directory.tokenizer();
        std::fs::create_dir_all(&folder).map_err(on_file("make", &folder))?;
        prepared.outline.tokenizer.save(&folder)?;
    }
    directory.event(if is_new { "started" } else { "resumed" }, json!({ "step": step }))?;
    if !is_new {
        observer.event(&Event::Resumed { step });
    }
    let sandbox = world.sandbox.as_ref().filter(|_| prepared.needs_sandbox());
    let watch = sandbox.map(|sandbox| Watch::begin(directory.sandbox_file(), sandbox));
    let _watch = watch.transpose().map_err(Error::Runtime)?;
    // From the beginning, also what came before the first step is told again.
    let from_step = (!is_new).then(|| checkpoint.as_ref().map_or(0, |_| step + 1));
    let folder = directory.tensorboard();
    let tensorboard = TensorBoard::create(&folder, unix_s(), from_step);
    let tensorboard = tensorboard.map_err(on_file("write", &folder))?;
    let options = prepared.recipe.checkpoint.clone();
    let prometheus = world.prometheus.clone();
    let tools = Vec::new();
    let mut log = RunLog { directory, tensorboard, prometheus, options, tools, state };
    let mut trained = (model, moments);
    let mut checkpoint = checkpoint.filter(|checkpoint| !checkpoint.state.stage_done);
    for (index, stage) in prepared.stages.iter().enumerate().skip(first) {
        let from = checkpoint.take();
        let from = from.as_ref();
        log.tools = stage.work.tools();
        let went = match &stage.work {
            Work::Sft(work) => {
                sft::train(prepared, (index, work), trained, from, &mut log, observer)
            }
            Work::Rl(work) => {
                rl::train(prepared, (index, work), trained, from, world, &mut log, observer)
            }
        };
        let outcome;
        (outcome, trained) = match went {
            Ok(went) => went,
            Err(error) => {
                // The log may be what can't be written; the error itself says so.
                let _ = log.directory.event("failed", json!({ "error": error.to_string() }));
                return Err(error);
            }
        };
        if outcome == Outcome::Stopped {
            log.directory.event("stopped", json!({ "step": log.state.step }))?;
            return Ok(outcome);
        }
    }
    log.directory.event("finished", json!({ "step": log.state.step }))?;
    Ok(Outcome::Finished)
}

/// Adapters are of use on the weights only that they were trained on.
fn check_base(model: &Model, checkpoint: &Checkpoint) -> Result<(), Error> {
    match &checkpoint.state.base_sha256 {
        Some(expected)
            if !checkpoint.state.stage_done
                && *expected != learner::fingerprint(&model.parameters) =>
        {
            Err(Error::BaseChanged { path: checkpoint.path.clone() })
        }
        _ => Ok(()),
    }
}

fn check_data(prepared: &Prepared, checkpoint: &Checkpoint) -> Result<(), Error> {
    let State { stage, stage_step, data_sha256, .. } = &checkpoint.state;
    let changed = |what: &str| Err(Error::DataChanged { stage: *stage, what: what.to_owned() });
    match prepared.stages.get(*stage) {
        None => changed("the recipe has no such stage"),
        Some(found) if found.fingerprint != *data_sha256 => changed(
            "its conversations or tasks, as the tokenizer and the template give them, are others",
        ),
        Some(found) if found.plan.steps < *stage_step => {
            changed("it has fewer steps than are done")
        }
        Some(_) => Ok(()),
    }
}

/// The directory that the recipe's run has.
pub fn directory_of(recipe: &Recipe) -> PathBuf {
    recipe.run.folder.join(&recipe.run.name)
}
