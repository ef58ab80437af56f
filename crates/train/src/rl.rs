//! Reinforcement learning, from top to bottom: tasks are rolled out, rollouts are chosen, weights
//! are updated, and the engine gets the new weights.
//!
//! Invariant: what a step does depends on its number, the tasks taken before it and the weights
//! alone, never on what finished first; so a run that was killed, even while episodes ran, goes on
//! from its last checkpoint as if nothing had been. A step of which nothing can be learnt changes no
//! weights and is a step all the same, with its episodes written down.

mod episodes;
pub mod metrics;
mod players;
mod policy_loss;
mod tasks;
mod update;

use std::time::{Duration, Instant};

use rocstar_engine::{Engine, Request};
use rocstar_grpo::{Chosen, GroupVerdict, Rollouts, selection_key};
use rocstar_nn::step::Model;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Episode, VerdictKind, micros};
use rocstar_rollout::{RolledOut, Usage};

pub use self::episodes::roll_out;
use self::metrics::{RlEvaluationMetrics, RlStepMetrics};
use self::players::{For, Players};
use self::tasks::TaskOrder;
use self::update::update;
use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::examples::Example;
use crate::learner::{self, Learner, Manner};
use crate::observer::{Event, Observer, Outcome};
use crate::packing::Batch;
use crate::plan::StagePlan;
use crate::prepare::{Prepared, RlWork};
use crate::recipe::RlStage;
use crate::run::{RunLog, Trained, World};

/// A stage under way.
struct Stage<'a> {
    options: &'a RlStage,
    work: &'a RlWork,
    seed: u64,
    learner: Learner,
    /// The policy that the loss is kept near: that of the stage's beginning.
    reference: Option<Model>,
    players: Players,
    order: TaskOrder,
}

/// Trains through the stage `index`, from its beginning or from `checkpoint`.
pub(crate) fn train(
    prepared: &Prepared,
    (index, work): (usize, &RlWork),
    from: Trained,
    checkpoint: Option<&Checkpoint>,
    world: &World,
    log: &mut RunLog,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Trained), Error> {
    let mut stage = Stage::begin(prepared, (index, work), from, checkpoint, world, log)?;
    let mut plan = prepared.stages[index].plan.clone();
    plan.done_steps = log.state.stage_step;
    observer.event(&Event::Stage(Box::new(plan)));
    if log.state.stage_step == 0 {
        if !stage.leave_out_solved(index, log, observer)? {
            return Ok((Outcome::Stopped, stage.learner.into_trained()));
        }
        stage.evaluate(log, observer)?;
    }
    while log.state.stage_step < work.options.steps {
        // Asked to stop while episodes ran: they are made again when the run goes on.
        let mut stops = !stage.step(log, observer)?;
        let is_last = log.state.stage_step == work.options.steps;
        let mut is_best = false;
        if !stops {
            log.state.evaluation_loss = None;
            let every = work.options.evaluation.every_steps;
            let due = is_last || (every > 0 && log.state.stage_step.is_multiple_of(every));
            if due && let Some(accuracy) = stage.evaluate(log, observer)? {
                is_best = log.is_best(1.0 - accuracy)?;
                log.state.evaluation_loss = Some(1.0 - accuracy);
            }
            log.state.stage_done = is_last;
            stops = !is_last && observer.wants_stop();
        }
        let saves = is_last || is_best || stops || log.checkpoint_is_due();
        if saves && log.state.stage_step > 0 {
            log.save(&stage.learner, &prepared.outline, stage.reference.as_ref(), observer)?;
        }
        if stops {
            return Ok((Outcome::Stopped, stage.learner.into_trained()));
        }
    }
    Ok((Outcome::Finished, stage.learner.into_trained()))
}

impl<'a> Stage<'a> {
    fn begin(
        prepared: &Prepared,
        (index, work): (usize, &'a RlWork),
        from: Trained,
        checkpoint: Option<&Checkpoint>,
        world: &World,
        log: &mut RunLog,
    ) -> Result<Self, Error> {
        let options = &work.options;
        let (seed, threads) = (prepared.recipe.seed, prepared.recipe.threads);
        let mut learner = learner(options, from, seed)?;
        let has_reference = options.loss.kl_weight != 0.0;
        let reference = match checkpoint {
            Some(checkpoint) => {
                learner.restore(checkpoint)?;
                if has_reference { Some(checkpoint.reference()?) } else { None }
            }
            None => {
                let fingerprint = &prepared.stages[index].fingerprint;
                log.state.begin_stage(index, fingerprint, learner.base_fingerprint());
                has_reference.then(|| learner.merged())
            }
        };
        let place = (seed, threads);
        let players = Players::start(options, &prepared.outline, &learner.weights(), world, place)?;
        players.load(&learner, log.state.step)?;
        let draws = options.shuffle.then_some((seed, index));
        let order = TaskOrder::new(&work.tasks, &log.state.left_out, draws);
        Ok(Self { options, work, seed, learner, reference, players, order })
    }

    /// One step. Gives `false`, and changes nothing, where a person asked to stop.
    fn step(&mut self, log: &mut RunLog, observer: &mut dyn Observer) -> Result<bool, Error> {
        let begun = Instant::now();
        let number = log.state.step + 1;
        let before = self.players.stats();
        let Some(rolled) = self.roll_out(number, log.state.next_task, begun, observer)? else {
            return Ok(false);
        };
        let used = |one: &&Chosen| one.verdict == GroupVerdict::Used;
        let groups: Vec<_> = rolled.chosen.iter().filter(used).map(|one| &one.group).collect();
        let rates = learner::schedule(&self.options.optimizer, self.options.steps);
        let factor = rates.factor(log.state.stage_step);
        let learning_rate = self.options.optimizer.learning_rate * factor;
        let (rolling_out, updating) = (begun.elapsed(), Instant::now());
        let reference = self.reference.as_ref();
        let (learner, options) = (&mut self.learner, self.options);
        let updated = update(learner, &groups, options, reference, learning_rate, number)?;
        let updating = updating.elapsed();
        let loading = Instant::now();
        self.players.load(&self.learner, number)?;
        let loading = loading.elapsed();
        let metrics = RlStepMetrics {
            step: number,
            stage: log.state.stage,
            epoch: self.order.pass_of(log.state.next_task),
            learning_rate,
            pre_emptions: self.players.stats().pre_emptions - before.pre_emptions,
            ..RlStepMetrics::of_groups(&rolled.chosen).with_update(&updated)
        };
        log.state.step = number;
        log.state.stage_step += 1;
        log.state.next_task = rolled.next_task;
        log.state.epoch = metrics.epoch;
        log.state.tokens += updated.tokens;
        let mut groups: Vec<_> = rolled.chosen.into_iter().map(|one| one.group).collect();
        // Groups that are not used keep none, so these are the rollouts that were learned from.
        let kept = groups.iter_mut().flat_map(|group| &mut group.kept);
        for (kept, trained) in kept.zip(updated.trained_log_probs) {
            kept.trained_log_probs = trained;
        }
        log.episodes(number, &groups)?;
        let (total, rolling) = (begun.elapsed(), rolled.usage);
        let kv_tokens = before.kv_blocks * before.block_tokens;
        let times = Times { kv_tokens, total, rolling_out, updating, loading, rolling };
        log.rl_step(times.on(&metrics), observer)?;
        Ok(true)
    }

    /// Rolls out the step's tasks, and more where groups are of no use and the recipe allows it.
    fn roll_out(
        &mut self,
        step: u64,
        first_task: u64,
        begun: Instant,
        observer: &mut dyn Observer,
    ) -> Result<Option<RolledStep>, Error> {
        let mut rolled = RolledStep { next_task: first_task, ..RolledStep::default() };
        let mut wanted = self.options.tasks_per_step;
        let mut more = self.options.refill_tasks_per_step;
        while wanted > 0 {
            let tasks = self.order.take(rolled.next_task, wanted);
            let first = rolled.next_task;
            let what = For::Training;
            let before_us = micros(begun.elapsed());
            let Some(all) = self.players.roll_out(what, step, first, &tasks, observer)? else {
                return Ok(None);
            };
            rolled.usage.push(all.usage);
            for (number, mut group) in (first..).zip(all.groups) {
                for episode in &mut group.episodes {
                    episode.timing.begin_earlier(before_us);
                }
                rolled.chosen.push(choose(self.options, self.seed, (step, number), group)?);
            }
            rolled.next_task += wanted as u64;
            let used = |one: &&Chosen| one.verdict == GroupVerdict::Used;
            let used = rolled.chosen.iter().filter(used).count();
            wanted = self.options.tasks_per_step.saturating_sub(used).min(more);
            more -= wanted;
        }
        Ok(Some(rolled))
    }

    /// Measures the accuracy on the tasks that aren't learnt, where there are some.
    fn evaluate(
        &mut self,
        log: &mut RunLog,
        observer: &mut dyn Observer,
    ) -> Result<Option<f64>, Error> {
        if self.work.evaluation.is_empty() {
            return Ok(None);
        }
        let begun = Instant::now();
        let (step, tasks) = (log.state.step, &self.work.evaluation);
        observer.event(&Event::Evaluating { sequences: tasks.len() });
        let mut heedless = Heedless(observer);
        let all = self.players.roll_out(For::Evaluation, step, 0, tasks, &mut heedless)?;
        let groups = all.map(|all| all.groups).unwrap_or_default();
        let lost_rollouts = groups.iter().map(|group| group.lost.len()).sum();
        let metrics = RlEvaluationMetrics {
            step,
            stage: log.state.stage,
            samples: self.options.evaluation.samples,
            lost_rollouts,
            seconds: begun.elapsed().as_secs_f64(),
            ..RlEvaluationMetrics::of_tasks(&groups)
        };
        let accuracy = metrics.accuracy;
        log.rl_evaluation(metrics, &groups, observer)?;
        Ok(accuracy)
    }

    /// Leaves out the tasks that the policy solves already, where the recipe wants that. Gives
    /// `false` where a person asked to stop.
    fn leave_out_solved(
        &mut self,
        index: usize,
        log: &mut RunLog,
        observer: &mut dyn Observer,
    ) -> Result<bool, Error> {
        if self.options.filter.is_none() {
            return Ok(true);
        }
        let (step, tasks) = (log.state.step, &self.work.tasks);
        let mut left_out = Vec::new();
        for (part, tasks) in tasks.chunks(FILTER_TASKS).enumerate() {
            let first = part * FILTER_TASKS;
            let what = For::Filter;
            let all = self.players.roll_out(what, step, first as u64, tasks, observer)?;
            let Some(all) = all else { return Ok(false) };
            let solved = |group: &RolledOut| {
                let right = |one: &Episode| one.verdict.kind == VerdictKind::Right;
                !group.episodes.is_empty() && group.episodes.iter().all(right)
            };
            let solved = all.groups.iter().enumerate().filter(|(_, group)| solved(group));
            left_out.extend(solved.map(|(number, _)| first + number));
        }
        if left_out.len() == tasks.len() {
            return Err(Error::AllSolved { stage: index, tasks: tasks.len() });
        }
        observer.event(&Event::Filtered { tasks: tasks.len(), left_out: left_out.len() });
        let draws = self.options.shuffle.then_some((self.seed, index));
        self.order = TaskOrder::new(tasks, &left_out, draws);
        log.state.left_out = left_out;
        Ok(true)
    }
}

/// Chooses among the rollouts of the task with this number in the stage.
///
/// # Errors
/// The settings can't work for this group.
fn choose(
    options: &RlStage,
    seed: u64,
    (step, number): (u64, u64),
    rolled: RolledOut,
) -> Result<Chosen, Error> {
    let RolledOut { task, episodes, lost, .. } = rolled;
    let rollouts = Rollouts { task: task.id.clone(), answer: task.answer.clone(), episodes, lost };
    let key = selection_key(seed, step, number);
    Ok(rocstar_grpo::choose(rollouts, &options.selection, &options.advantage, key)?)
}

/// Tasks that are rolled out together to see which are solved: bounds memory.
const FILTER_TASKS: usize = 512;

/// What a step rolled out.
#[derive(Debug, Default)]
struct RolledStep {
    chosen: Vec<Chosen>,
    usage: Vec<Usage>,
    next_task: u64,
}

/// Where the time of a step went.
struct Times {
    kv_tokens: usize,
    total: Duration,
    /// Until the update began.
    rolling_out: Duration,
    updating: Duration,
    loading: Duration,
    rolling: Vec<Usage>,
}

impl Times {
    fn on(&self, metrics: &RlStepMetrics) -> RlStepMetrics {
        let sum = |of: fn(&Usage) -> Duration| {
            self.rolling.iter().map(of).sum::<Duration>().as_secs_f64()
        };
        let generating = sum(|usage| usage.generating);
        let tools = sum(|usage| usage.waiting_for_tools);
        let verifying = sum(|usage| usage.waiting_for_verifier);
        let (updating, loading) = (self.updating.as_secs_f64(), self.loading.as_secs_f64());
        let total = self.total.as_secs_f64();
        let known = generating + tools + verifying + updating + loading;
        let reserved = self.rolling.iter().map(|usage| usage.most_reserved_tokens).max();
        let kv_use_max = reserved.unwrap_or(0) as f64 / self.kv_tokens.max(1) as f64;
        let tokens = metrics.policy_tokens as f64;
        RlStepMetrics {
            kv_use_max,
            seconds: total,
            seconds_rolling_out: self.rolling_out.as_secs_f64(),
            seconds_generating: generating,
            seconds_tools_waiting: tools,
            seconds_verifying: verifying,
            seconds_updating: updating,
            seconds_weights: loading,
            seconds_other: (total - known).max(0.0),
            tokens_per_s: if generating > 0.0 { tokens / generating } else { 0.0 },
            ..metrics.clone()
        }
    }
}

/// An observer that hears no wish to stop: an evaluation that was begun is ended, so that no step
/// is saved without its own.
struct Heedless<'o>(&'o mut dyn Observer);

impl Observer for Heedless<'_> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }

    fn wants_stop(&mut self) -> bool {
        false
    }
}

/// Responses that are measured to tell what a token takes, and their length.
const MEASURED: (usize, usize) = (32, 32);

/// Seconds that all steps of a stage should take: its expected tokens, sampled and learnt, at the pace
/// of a few.
pub(crate) fn measure(
    work: &RlWork,
    plan: &StagePlan,
    (model, _): Trained,
    prepared: &Prepared,
) -> Result<(f64, Trained), Error> {
    let options = &work.options;
    let Some(rollouts) = &plan.rollouts else { return Ok((0.0, (model, None))) };
    let mut learner = learner(options, (model, None), prepared.recipe.seed)?;
    let context_tokens = prepared.outline.config.context_tokens;
    let length = (MEASURED.0 * MEASURED.1).min(context_tokens);
    let token = |index: usize| (index % prepared.outline.config.vocabulary_size) as u32;
    let tokens: Vec<u32> = (0..length).map(token).collect();
    let learnt = (0..length).map(|index| index > 0).collect();
    let batch = Batch::new(&[Example { tokens, learnt }], &[0]);
    let pace = learner.measure(&batch)?;
    let engine = options.engine.options(prepared.recipe.threads, context_tokens);
    let engine = Engine::start(prepared.outline.config.clone(), &learner.weights(), engine)?;
    let request = |sample: usize| {
        let draw = Key { sample: sample as u32, ..Key::new(0, Purpose::Sampling) };
        Request::new(vec![token(sample)], MEASURED.1.min(context_tokens - 1), draw)
    };
    let begun = Instant::now();
    let all = engine.generate_together((0..MEASURED.0).map(request).collect())?;
    let sampled: usize = all.into_iter().map(|one| one.collect_blocking().tokens.len()).sum();
    let per_sampled = begun.elapsed().as_secs_f64() / sampled.max(1) as f64;
    // Responses are expected to be half as long as they may be.
    let sampled = rollouts.most_sampled_tokens as f64 / 2.0;
    let updates = (plan.steps * options.updates_per_step as u64) as f64;
    let seconds =
        sampled * per_sampled + plan.tokens as f64 * pace.per_token + updates * pace.per_step;
    Ok((seconds, learner.into_trained()))
}

fn learner(options: &RlStage, (model, moments): Trained, seed: u64) -> Result<Learner, Error> {
    let manner = Manner {
        optimizer: &options.optimizer,
        lora: options.lora.as_ref(),
        recompute: options.recompute,
        temperature: options.rollout.temperature as f32,
    };
    let moments = moments.filter(|_| options.keep_optimizer);
    Learner::new(model, manner, seed)?.with_moments(moments)
}
