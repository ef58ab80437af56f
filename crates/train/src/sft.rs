//! Supervised fine-tuning, from top to bottom: steps over packed conversations, the loss on the
//! assistant's tokens, evaluations and checkpoints in between.
//!
//! Invariant: a step's loss is the mean over all its tokens to learn, however it is split into
//! micro-batches; a step whose loss or gradient is no finite number is not applied.

use std::time::Instant;

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::examples::{Example, Examples};
use crate::learner::{self, Learner, Manner};
use crate::observer::{EvaluationMetrics, Event, Observer, Outcome, StepMetrics};
use crate::packing::{Batch, StepPlan, micro_batches};
use crate::plan::StagePlan;
use crate::prepare::{Prepared, SftWork};
use crate::recipe::SftStage;
use crate::run::{RunLog, Trained};

/// Trains through the stage `index`, from its beginning or from `checkpoint`, whose weights, or whose
/// adapters' base, the model then is.
pub(crate) fn train(
    prepared: &Prepared,
    (index, stage): (usize, &SftWork),
    from: Trained,
    checkpoint: Option<&Checkpoint>,
    log: &mut RunLog,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Trained), Error> {
    let mut learner = learner(from, &stage.options, prepared.recipe.seed)?;
    let fingerprint = &prepared.stages[index].fingerprint;
    match checkpoint {
        Some(checkpoint) => learner.restore(checkpoint)?,
        None => log.state.begin_stage(index, fingerprint, learner.base_fingerprint()),
    }
    let mut plan = prepared.stages[index].plan.clone();
    plan.done_steps = log.state.stage_step;
    observer.event(&Event::Stage(Box::new(plan)));
    if log.state.stage_step == 0 {
        evaluate(stage, &mut learner, log, observer)?;
    }
    let rates = learner::schedule(&stage.options.optimizer, stage.steps.len() as u64);
    for step in &stage.steps[log.state.stage_step as usize..] {
        let factor = rates.factor(log.state.stage_step);
        let rate = stage.options.optimizer.learning_rate * factor;
        take_step(stage, step, rate, &mut learner, log, observer)?;
        let is_last = log.state.stage_step == stage.steps.len() as u64;
        let every = stage.options.evaluation.every_steps;
        log.state.evaluation_loss = None;
        let mut is_best = false;
        let evaluates = is_last || (every > 0 && log.state.stage_step.is_multiple_of(every));
        if evaluates && let Some(loss) = evaluate(stage, &mut learner, log, observer)? {
            is_best = log.is_best(loss)?;
            log.state.evaluation_loss = Some(loss);
        }
        log.state.stage_done = is_last;
        let stops = !is_last && observer.wants_stop();
        if is_last || is_best || stops || log.checkpoint_is_due() {
            log.save(&learner, &prepared.outline, None, observer)?;
        }
        if stops {
            return Ok((Outcome::Stopped, learner.into_trained()));
        }
    }
    Ok((Outcome::Finished, learner.into_trained()))
}

fn learner((model, moments): Trained, options: &SftStage, seed: u64) -> Result<Learner, Error> {
    let manner = Manner {
        optimizer: &options.optimizer,
        lora: options.lora.as_ref(),
        recompute: options.recompute,
        temperature: 1.0,
    };
    let moments = moments.filter(|_| options.keep_optimizer);
    Learner::new(model, manner, seed)?.with_moments(moments)
}

/// One step of the optimiser: micro-batches, gradient, weights, metrics.
fn take_step(
    stage: &SftWork,
    step: &StepPlan,
    learning_rate: f64,
    learner: &mut Learner,
    log: &mut RunLog,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let begun = Instant::now();
    let examples = stage.examples.all();
    let of_step = || step.sequences.iter().map(|index| &examples[*index]);
    let learnt_tokens = of_step().map(|one| one.learnt_tokens() as u64).sum::<u64>();
    let tokens = of_step().map(|one| one.tokens.len() as u64).sum::<u64>();
    let batches = batches(stage, examples, &step.sequences);
    let micro_batches = batches.len();
    let mut loss = 0.0;
    for batch in batches {
        loss += learner.accumulate(&batch, learnt_tokens as f64)?;
    }
    let gradient_norm = learner.gradient_norm();
    let number = log.state.step + 1;
    for (what, value) in [("the loss", loss), ("the norm of the gradient", gradient_norm)] {
        if !value.is_finite() {
            return Err(Error::NotFinite { step: number, what, value });
        }
    }
    learner.apply(learning_rate, gradient_norm);
    log.state.step = number;
    log.state.stage_step += 1;
    log.state.epoch = step.epoch;
    log.state.tokens += tokens;
    let seconds = begun.elapsed().as_secs_f64();
    let metrics = StepMetrics {
        step: number,
        stage: log.state.stage,
        epoch: step.epoch,
        loss,
        learning_rate,
        gradient_norm,
        sequences: step.sequences.len(),
        tokens,
        learnt_tokens,
        micro_batches,
        seconds,
        tokens_per_s: tokens as f64 / seconds,
    };
    log.step(metrics, observer)
}

/// The mean loss over all sequences that are measured and not learnt, where there are some.
fn evaluate(
    stage: &SftWork,
    learner: &mut Learner,
    log: &mut RunLog,
    observer: &mut dyn Observer,
) -> Result<Option<f64>, Error> {
    let Some(examples) = stage.evaluation.as_ref().map(Examples::all) else { return Ok(None) };
    let begun = Instant::now();
    observer.event(&Event::Evaluating { sequences: examples.len() });
    let all: Vec<usize> = (0..examples.len()).collect();
    let mut sum = 0.0;
    for batch in batches(stage, examples, &all) {
        sum += learner.loss_sum(&batch)?;
    }
    let learnt_tokens = examples.iter().map(|one| one.learnt_tokens() as u64).sum();
    let loss = sum / learnt_tokens as f64;
    if !loss.is_finite() {
        let what = "the evaluation loss";
        return Err(Error::NotFinite { step: log.state.step, what, value: loss });
    }
    let metrics = EvaluationMetrics {
        step: log.state.step,
        stage: log.state.stage,
        loss,
        sequences: examples.len(),
        learnt_tokens,
        seconds: begun.elapsed().as_secs_f64(),
    };
    log.evaluation(metrics, observer)?;
    Ok(Some(loss))
}

/// Most tokens of the batch that is measured, where a sequence isn't longer.
const MEASURED_TOKENS: usize = 512;

/// Seconds that all steps of a stage should take, from a micro-batch.
pub(crate) fn measure(
    stage: &SftWork,
    plan: &StagePlan,
    from: Trained,
    seed: u64,
) -> Result<(f64, Trained), Error> {
    let mut learner = learner(from, &stage.options, seed)?;
    let first = stage.steps.first().map_or(&[][..], |step| &step.sequences);
    let lengths = stage.examples.lengths();
    let groups = micro_batches(&lengths, first, MEASURED_TOKENS);
    let mut seconds = 0.0;
    if let Some(batch) = groups.first().map(|group| Batch::new(stage.examples.all(), group)) {
        let time = learner.measure(&batch)?;
        seconds = time.per_token * plan.tokens as f64 + time.per_step * plan.steps as f64;
    }
    Ok((seconds, learner.into_trained()))
}

fn batches(stage: &SftWork, examples: &[Example], sequences: &[usize]) -> Vec<Batch> {
    let lengths: Vec<usize> = examples.iter().map(|example| example.tokens.len()).collect();
    let groups = micro_batches(&lengths, sequences, stage.options.tokens_per_micro_batch);
    groups.iter().map(|group| Batch::new(examples, group)).collect()
}
