//! A stage of reinforcement learning that can begin: its tasks, checked, and what it will need.

use std::collections::HashSet;
use std::sync::Arc;

use rocstar_chat::Transcript;
use rocstar_record::draw::{Key, Purpose};
use rocstar_rollout::data::{self, Counts, Tasks};
use rocstar_rollout::practice::{self, Split};
use rocstar_rollout::{Task, TaskOptions};
use sha2::{Digest as _, Sha256};

use super::{Outline, PreparedStage, RlWork, Work, needs, tools_of};
use crate::error::Error;
use crate::examples::hexadecimal;
use crate::plan::{BYTES_PER_EPISODE_TOKEN, RolloutPlan, StagePlan};
use crate::recipe::{EngineStorage, RlStage};

/// Reads and checks the tasks of a stage.
///
/// # Errors
/// A row is no task, a prompt leaves no room for a response, or nothing is left.
pub(super) fn stage(
    options: &RlStage,
    stage: usize,
    seed: u64,
    outline: &Outline,
) -> Result<PreparedStage, Error> {
    let mut set = tasks(options, outline)?;
    let measured = match &options.practice {
        Some(made_up) => {
            practice::tasks(options.evaluation.held_out_tasks, made_up.seed, Split::HeldOut)
        }
        None if options.evaluation.data.paths.is_empty() => {
            hold_out(&mut set, options.evaluation.held_out_tasks, seed, stage)
        }
        None => read(&options.evaluation.data, options, outline)?.tasks,
    };
    if set.tasks.is_empty() {
        return Err(Error::NoTasks { stage, held_out: measured.len() });
    }
    let lengths = lengths(&set.tasks, options, outline)?;
    // Those that are measured must fit too.
    self::lengths(&measured, options, outline)?;
    let fingerprint = format!("{}-{}", fingerprint(&set.tasks)?, fingerprint(&measured)?);
    let plan = plan(options, stage, outline, &lengths, (set.counts, measured.len()))?;
    let shared = |tasks: Vec<Task>| tasks.into_iter().map(Arc::new).collect();
    let work =
        RlWork { options: options.clone(), tasks: shared(set.tasks), evaluation: shared(measured) };
    Ok(PreparedStage { fingerprint, plan, work: Work::Rl(Box::new(work)) })
}

/// The stage's tasks with what became of their rows.
fn tasks(options: &RlStage, outline: &Outline) -> Result<Tasks, Error> {
    match &options.practice {
        Some(made_up) => {
            let tasks = practice::tasks(made_up.count, made_up.seed, Split::Train);
            let counts = Counts { rows: tasks.len(), used: tasks.len(), ..Counts::default() };
            Ok(Tasks { tasks, counts, ..Tasks::default() })
        }
        None => read(&options.data, options, outline),
    }
}

fn read(data: &TaskOptions, options: &RlStage, outline: &Outline) -> Result<Tasks, Error> {
    let mut set = data::read(data)?;
    set.fit(data, &|task| prompt_tokens(task, options, outline))?;
    Ok(set)
}

/// Takes `count` drawn tasks out of the set.
fn hold_out(set: &mut Tasks, count: usize, seed: u64, stage: usize) -> Vec<Task> {
    let mut order: Vec<usize> = (0..set.tasks.len()).collect();
    // The pass that no pass has: its order is nobody's.
    let key = Key { step: u32::MAX, task: stage as u64, ..Key::new(seed, Purpose::Shuffle) };
    key.at(0).shuffle(&mut order);
    let held: HashSet<usize> = order.into_iter().take(count).collect();
    let all = std::mem::take(&mut set.tasks).into_iter().enumerate();
    let (measured, learnt): (Vec<_>, Vec<_>) = all.partition(|(index, _)| held.contains(index));
    set.tasks = learnt.into_iter().map(|(_, task)| task).collect();
    set.places.clear();
    measured.into_iter().map(|(_, task)| task).collect()
}

/// Tokens of each task's prompt, all of which must leave room for a response.
fn lengths(tasks: &[Task], options: &RlStage, outline: &Outline) -> Result<Vec<usize>, Error> {
    let context_tokens = outline.config.context_tokens;
    let length = |task: &Task| {
        let prompt_tokens = prompt_tokens(task, options, outline)?;
        if prompt_tokens >= context_tokens {
            let task = task.id.0.clone();
            return Err(Error::PromptTooLong { task, prompt_tokens, context_tokens });
        }
        Ok(prompt_tokens)
    };
    tasks.iter().map(length).collect()
}

/// Tokens of a task's prompt.
fn prompt_tokens(task: &Task, options: &RlStage, outline: &Outline) -> Result<usize, Error> {
    let Outline { tokenizer, family, .. } = outline;
    let tools = tools_of(options.rollout.tool);
    let mut prompt = Transcript::new(tokenizer, family, &task.messages, &tools)?;
    prompt.open_assistant()?;
    Ok(prompt.tokens().len())
}

fn fingerprint(tasks: &[Task]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for task in tasks {
        let text = serde_json::to_vec(task).map_err(|error| Error::Task(error.to_string()))?;
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    Ok(hexadecimal(&hash.finalize()))
}

fn plan(
    options: &RlStage,
    stage: usize,
    outline: &Outline,
    lengths: &[usize],
    (tasks, evaluation_tasks): (Counts, usize),
) -> Result<StagePlan, Error> {
    let config = &outline.config;
    let prompt_tokens_longest = lengths.iter().copied().max().unwrap_or(0);
    let prompt_tokens_mean = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    let response_tokens = options.rollout.response_tokens;
    let longest = (prompt_tokens_longest + response_tokens).min(config.context_tokens);
    let micro_batch_tokens = options.tokens_per_micro_batch.max(longest);
    let needs = needs(options.lora.as_ref(), options.recompute, outline, micro_batch_tokens)?;
    let rollouts_per_step = options.tasks_per_step * options.rollout.samples;
    let learnt_rollouts_per_step = options.tasks_per_step * options.selection.keep;
    // Responses are expected to be half as long as they may be.
    let mean_length = prompt_tokens_mean + response_tokens as f64 / 2.0;
    let in_stage = |rollouts: usize| (options.steps as usize * rollouts) as f64;
    let tokens = (in_stage(learnt_rollouts_per_step) * mean_length) as u64;
    let bytes_per_weight = match options.engine.storage {
        EngineStorage::F32 => 4,
        EngineStorage::Bf16 => 2,
    };
    let engine_weight_bytes = needs.parameters * bytes_per_weight;
    let reference_bytes = if options.loss.kl_weight == 0.0 { 0 } else { needs.parameters * 4 };
    let rollouts = RolloutPlan {
        tasks,
        evaluation_tasks,
        tasks_per_step: options.tasks_per_step,
        refill_tasks_per_step: options.refill_tasks_per_step,
        rollouts_per_step,
        learnt_rollouts_per_step,
        updates_per_step: options.updates_per_step,
        prompt_tokens_mean,
        prompt_tokens_longest,
        response_tokens,
        most_sampled_tokens: (in_stage(rollouts_per_step) * response_tokens as f64) as u64,
        kv_bytes: options.engine.kv_bytes,
        engine_weight_bytes,
        episodes_bytes: (in_stage(rollouts_per_step) * mean_length) as u64
            * BYTES_PER_EPISODE_TOKEN,
    };
    Ok(StagePlan {
        stage,
        kind: "rl",
        data: None,
        evaluation: None,
        rollouts: Some(rollouts),
        steps: options.steps,
        done_steps: 0,
        tokens,
        micro_batch_tokens,
        parameters: needs.parameters,
        trained_parameters: needs.trained_parameters,
        operations: needs.operations(config, tokens, mean_length),
        memory_bytes: needs.memory_bytes(config)
            + options.engine.kv_bytes
            + engine_weight_bytes
            + reference_bytes,
        activation_bytes: needs.activation_bytes(config),
        checkpoint_bytes: needs.checkpoint_bytes() + reference_bytes,
    })
}
