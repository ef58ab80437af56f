//! Rolling out without learning: the episodes of a stage's tasks, chosen among as a step would.
//!
//! Invariant: the same recipe, stage and weights give the same groups, of which those of the first
//! tasks do not depend on how many follow.

use rocstar_grpo::Chosen;
use rocstar_nn::step::Model;
use rocstar_record::episode::Group;

use super::choose;
use super::metrics::RlStepMetrics;
use super::players::{For, Players};
use super::tasks::TaskOrder;
use crate::error::Error;
use crate::observer::Observer;
use crate::prepare::{Prepared, Work};
use crate::run::{World, on_threads};

/// The step that these episodes are of: before the first.
const STEP: u64 = 0;

/// Rolls out the first `count` tasks of the stage `stage` and chooses among the rollouts. `keep` gets
/// the groups, a step's number of tasks at a time. What was done until a person asked to stop stays.
///
/// # Errors
/// The stage is none of reinforcement learning, the model doesn't fit it, the engine has stopped, or
/// `keep` failed.
pub fn roll_out(
    prepared: &Prepared,
    stage: usize,
    model: &Model,
    count: usize,
    world: &World,
    keep: &mut (dyn FnMut(&[Group]) -> Result<(), Error> + Send),
    observer: &mut dyn Observer,
) -> Result<RlStepMetrics, Error> {
    on_threads(prepared, || {
        let Some(Work::Rl(work)) = prepared.stages.get(stage).map(|stage| &stage.work) else {
            return Err(Error::NoRollouts { stage });
        };
        let options = &work.options;
        let seed = prepared.recipe.seed;
        let place = (seed, prepared.recipe.threads);
        let players = Players::start(options, &prepared.outline, &model.parameters, world, place)?;
        let draws = work.options.shuffle.then_some((seed, stage));
        let mut order = TaskOrder::new(&work.tasks, &[], draws);
        let mut all: Vec<Chosen> = Vec::new();
        while all.len() < count {
            let first = all.len() as u64;
            let tasks = order.take(first, options.tasks_per_step.min(count - all.len()));
            let rolled = players.roll_out(For::Training, STEP, first, &tasks, observer)?;
            let Some(rolled) = rolled else { break };
            let chosen: Result<Vec<Chosen>, Error> = (first..)
                .zip(rolled.groups)
                .map(|(number, group)| choose(options, seed, (STEP, number), group))
                .collect();
            let chosen = chosen?;
            let groups: Vec<Group> = chosen.iter().map(|one| one.group.clone()).collect();
            keep(&groups)?;
            all.extend(chosen);
        }
        Ok(RlStepMetrics::of_groups(&all))
    })
}
