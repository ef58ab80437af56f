//! Who plays the episodes of a stage: the local engine with the present weights, the tool, the
//! verifier, and a runtime to wait on.
//!
//! Invariant: what is rolled out is sampled by weights whose version is the number of the step that
//! made them. A person who asks to stop is heard while episodes run; what runs then is dropped, since
//! it can be made again to the last token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocstar_engine::{Engine, Stats, WeightVersion};
use rocstar_nn::parameters::Parameters;
use rocstar_rollout::{At, LocalGenerator, Progress, PythonTool, RolledOutAll};
use rocstar_rollout::{RolloutOptions, Rollouts, Task, Tool, ToolMode};
use rocstar_sandbox::Sandbox;
use tokio::runtime::Runtime;

use crate::error::Error;
use crate::learner::Learner;
use crate::observer::{Event, Observer};
use crate::prepare::Outline;
use crate::recipe::RlStage;
use crate::run::World;

/// How often a person is heard and the progress is told while episodes run.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What episodes are for; numbers of their tasks, which name their draws, begin apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Training,
    Evaluation,
    Filter,
}

impl For {
    const fn first_number(self) -> u64 {
        match self {
            Self::Training => 0,
            Self::Evaluation => 1 << 48,
            Self::Filter => 1 << 49,
        }
    }
}

/// Engine, tool and verifier of a stage.
#[derive(Debug)]
pub(crate) struct Players {
    engine: Engine,
    training: Rollouts,
    evaluation: Rollouts,
    filter: Option<Rollouts>,
    seed: u64,
    // Last: what it runs is dropped before.
    runtime: Runtime,
}

impl Players {
    /// Starts the engine with these weights.
    ///
    /// # Errors
    /// The engine or the runtime doesn't start, the settings don't fit each other, or the stage
    /// needs a sandbox and there is none.
    pub(crate) fn start(
        stage: &RlStage,
        outline: &Outline,
        weights: &Parameters,
        world: &World,
        (seed, threads): (u64, usize),
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("rocstar-rollout")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let config = outline.config.clone();
        let options = stage.engine.options(threads, config.context_tokens);
        let engine = Engine::start(config, weights, options)?;
        let first = Arc::clone(&world.verifier);
        let verifier = runtime
            .block_on(stage.verifier.around(first, world.sandbox.as_ref()))
            .map_err(Error::SecondOpinion)?;
        let rollouts = |options: RolloutOptions| {
            let tool = tool(&options, world.sandbox.as_ref())?;
            let generator = Arc::new(LocalGenerator::new(engine.clone()));
            Ok::<_, Error>(Rollouts::new(
                outline.policy(),
                generator,
                tool,
                Arc::clone(&verifier),
                options,
            )?)
        };
        let measured = RolloutOptions {
            samples: stage.evaluation.samples,
            temperature: stage.evaluation.temperature,
            ..stage.rollout.clone()
        };
        let filter = stage.filter.as_ref().map(|filter| {
            rollouts(RolloutOptions { samples: filter.samples, ..stage.rollout.clone() })
        });
        Ok(Self {
            training: rollouts(stage.rollout.clone())?,
            evaluation: rollouts(measured)?,
            filter: filter.transpose()?,
            engine,
            seed,
            runtime,
        })
    }

    /// Gives the engine the weights that `step` made.
    ///
    /// # Errors
    /// The engine has stopped, or the weights are no finite numbers.
    pub(crate) fn load(&self, learner: &Learner, step: u64) -> Result<(), Error> {
        if step > 0 {
            self.engine.load_weights(&learner.weights(), WeightVersion(step))?;
        }
        Ok(())
    }

    /// Figures of the engine.
    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Rolls out `tasks`, the first of which has the number `first`, for `step`. `None` where a
    /// person asked to stop.
    ///
    /// # Errors
    /// A task can't be posed, or the engine has stopped.
    pub(crate) fn roll_out(
        &self,
        what: For,
        step: u64,
        first: u64,
        tasks: &[Arc<Task>],
        observer: &mut dyn Observer,
    ) -> Result<Option<RolledOutAll>, Error> {
        let rollouts = match what {
            For::Training => &self.training,
            For::Evaluation => &self.evaluation,
            For::Filter => self.filter.as_ref().unwrap_or(&self.training),
        };
        let at = At {
            seed: self.seed,
            // A step number beyond 32 bits would take longer than any run.
            step: u32::try_from(step).unwrap_or(u32::MAX),
            first_task: what.first_number() + first,
        };
        let latest = Mutex::new(None);
        let progress = |progress: Progress| {
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        };
        let asked_to_stop = async {
            while !observer.wants_stop() {
                tokio::time::sleep(LOOK_EVERY).await;
                let news = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(progress) = news {
                    observer.event(&Event::RollingOut { step, progress });
                }
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                all = rollouts.roll_out(at, tasks, &progress) => Ok(Some(all?)),
                () = asked_to_stop => Ok(None),
            }
        })
    }
}

/// The tool that the settings want.
fn tool(
    options: &RolloutOptions,
    sandbox: Option<&Arc<dyn Sandbox>>,
) -> Result<Option<Arc<dyn Tool>>, Error> {
    if options.tool == ToolMode::None {
        return Ok(None);
    }
    let sandbox = sandbox.ok_or(Error::NoSandbox)?;
    let tool = PythonTool::new(Arc::clone(sandbox), options);
    Ok(tool.map(|tool| Arc::new(tool) as Arc<dyn Tool>))
}
