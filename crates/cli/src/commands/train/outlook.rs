//! What a recipe would do and need: shown by `--dry-run`, checked before every run.

use std::path::Path;

use rocstar_jail::Effective;
use rocstar_nn::step::Model;
use rocstar_record::run::Reader;
use rocstar_train::examples::Counts;
use rocstar_train::{Prepared, RolloutPlan, StagePlan, available_memory_bytes};
use serde::Serialize;

use super::model::Weights;
use super::show::show_seconds;
use crate::failure::HintExt as _;
use crate::quantity::show_size;
use crate::terminal::Terminal;

/// What a recipe would do and need, as `--dry-run --json` prints it.
#[derive(Debug, Serialize)]
struct Outlook<'a> {
    recipe: &'a rocstar_train::recipe::Recipe,
    stages: Vec<&'a StagePlan>,
    memory_bytes: u64,
    memory_available_bytes: Option<u64>,
    expected_seconds: f64,
}

/// Prints the whole recipe on standard output, as a file that gives the same run, and the rest as
/// notes; with `json` all of it as one value.
///
/// # Errors
/// There is not enough memory or disk, or the weights can't be read.
pub(crate) fn show(
    prepared: &Prepared,
    weights: &Weights,
    json: bool,
    terminal: Terminal,
) -> anyhow::Result<()> {
    if !json {
        terminal.data(prepared.recipe().to_toml()?.as_bytes())?;
        for line in prepared.plans().flat_map(lines) {
            terminal.note(line);
        }
    }
    check_room(prepared)?;
    let spinner = terminal.spinner("measuring a step");
    let model = weights.clone().load(prepared.recipe().seed)?;
    let seconds = rocstar_train::measure(prepared, model)?;
    spinner.finish_and_clear();
    if json {
        return terminal.json(&Outlook {
            recipe: prepared.recipe(),
            stages: prepared.plans().collect(),
            memory_bytes: prepared.memory_bytes(),
            memory_available_bytes: available_memory_bytes(),
            expected_seconds: seconds,
        });
    }
    terminal.note(format_args!("time:     {}", expected(seconds)));
    Ok(())
}

/// Most operations that a measurement may take where nobody asked for one: a few seconds.
const MEASURED_OPERATIONS: f64 = 2e11;

/// Tells how long the run should take, where that can be measured in a few seconds.
///
/// # Errors
/// The model doesn't fit the recipe or the data.
pub(crate) fn tell_time(
    prepared: &Prepared,
    model: &Model,
    terminal: Terminal,
) -> anyhow::Result<()> {
    // Each stage learns a micro-batch twice.
    let of_stage = |plan: &StagePlan| {
        2.0 * plan.operations / plan.tokens.max(1) as f64 * plan.micro_batch_tokens as f64
    };
    if prepared.plans().map(of_stage).sum::<f64>() > MEASURED_OPERATIONS {
        return Ok(());
    }
    let spinner = terminal.spinner("measuring a step");
    let seconds = rocstar_train::measure(prepared, model.clone());
    spinner.finish_and_clear();
    terminal.note(format_args!("time:     {}", expected(seconds?)));
    Ok(())
}

fn expected(seconds: f64) -> String {
    format!("about {} without evaluations", show_seconds(seconds))
}

/// A stage's plan for people.
pub(crate) fn lines(plan: &StagePlan) -> Vec<String> {
    let mut lines: Vec<String> =
        plan.data.iter().map(|data| conversations(plan.stage, data)).collect();
    lines.extend(plan.rollouts.iter().flat_map(|rollouts| rollout_lines(plan, rollouts)));
    if let Some(evaluation) = &plan.evaluation {
        lines.push(format!(
            "measured: {} conversations, {} tokens to learn",
            evaluation.sequences, evaluation.learnt_tokens
        ));
    }
    lines.push(format!(
        "steps:    {} over {} tokens, {:.2e} operations; {} of {} weights are trained",
        plan.steps, plan.tokens, plan.operations, plan.trained_parameters, plan.parameters
    ));
    lines.push(format!(
        "memory:   about {}, of which {} activations of {} tokens; a checkpoint takes {}",
        show_size(plan.memory_bytes),
        show_size(plan.activation_bytes),
        plan.micro_batch_tokens,
        show_size(plan.checkpoint_bytes)
    ));
    lines
}

fn conversations(stage: usize, data: &Counts) -> String {
    let mut left_out = String::new();
    for (count, what) in [
        (data.duplicates, "duplicates"),
        (data.duplicates_dropped, "duplicates left out"),
        (data.cut, "cut"),
        (data.skipped, "too long and left out"),
        (data.emptied, "with nothing to learn and left out"),
    ] {
        if count > 0 {
            left_out += &format!(", {count} {what}");
        }
    }
    format!(
        "stage {stage}:  {} conversations, {} tokens, {} of them learnt{left_out}",
        data.sequences, data.tokens, data.learnt_tokens
    )
}

fn rollout_lines(plan: &StagePlan, rollouts: &RolloutPlan) -> [String; 3] {
    let refill = match rollouts.refill_tasks_per_step {
        0 => String::new(),
        more => format!(" and up to {more} more"),
    };
    [
        format!(
            "stage {}:  {} tasks to learn from, {} to measure; prompts of {:.0} tokens, the longest \
             {}; responses of up to {}",
            plan.stage,
            rollouts.tasks.used,
            rollouts.evaluation_tasks,
            rollouts.prompt_tokens_mean,
            rollouts.prompt_tokens_longest,
            rollouts.response_tokens
        ),
        format!(
            "a step:   {} tasks{refill}, {} rollouts, up to {} of them learnt in {} update{}",
            rollouts.tasks_per_step,
            rollouts.rollouts_per_step,
            rollouts.learnt_rollouts_per_step,
            rollouts.updates_per_step,
            if rollouts.updates_per_step == 1 { "" } else { "s" }
        ),
        format!(
            "engine:   {} for keys and values, {} for its weights; episodes take about {} on the \
             disk",
            show_size(rollouts.kv_bytes),
            show_size(rollouts.engine_weight_bytes),
            show_size(rollouts.episodes_bytes)
        ),
    ]
}

/// Notes where another Python runs the programs than ran those of the run.
///
/// # Errors
/// `env.json` can't be read.
pub(crate) fn note_other_python(
    reader: &Reader,
    effective: &Effective,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let environment = reader.environment()?.unwrap_or_default();
    let recorded = environment.pointer("/sandbox/python_version").and_then(|it| it.as_str());
    if let Some(recorded) = recorded
        && recorded != effective.python_version
    {
        terminal.note(format_args!(
            "the run used CPython {recorded}: messages of exceptions may differ; `--python` takes \
             another"
        ));
    }
    Ok(())
}

/// Whether memory and disk can hold the run.
///
/// # Errors
/// One of them can't.
pub(crate) fn check_room(prepared: &Prepared) -> anyhow::Result<()> {
    refuse_memory(prepared.memory_bytes(), available_memory_bytes())?;
    let folder = &prepared.recipe().run.folder;
    let checkpoint = prepared.plans().map(|plan| plan.checkpoint_bytes).max().unwrap_or(0);
    let kept = prepared.recipe().checkpoint.keep_last as u64;
    let episodes = prepared.plans().filter_map(|plan| plan.rollouts.as_ref());
    let episodes: u64 = episodes.map(|rollouts| rollouts.episodes_bytes).sum();
    // One more is written before the oldest goes.
    let needed = checkpoint * (kept + 1) + episodes;
    if let Some(free) = free_bytes(folder)
        && needed > free
    {
        let (needed, free) = (show_size(needed), show_size(free));
        return Err(anyhow::anyhow!(
            "checkpoints and episodes need {needed} on the disk of {}, and {free} are free",
            folder.display()
        ))
        .hint("free some, lower `checkpoint.keep_last`, or choose another `run.folder`");
    }
    Ok(())
}

/// Where the system doesn't tell what is available, nothing is refused.
fn refuse_memory(needed: u64, available: Option<u64>) -> anyhow::Result<()> {
    match available {
        Some(available) if needed > available => {
            let (needed, available) = (show_size(needed), show_size(available));
            Err(anyhow::anyhow!(
                "the run needs about {needed} of memory, and {available} are available"
            ))
            .hint(
                "lower `tokens_per_micro_batch` or `engine.kv_bytes`, set `recompute = true`, or train \
                 adapters (`lora`)",
            )
        }
        _ => Ok(()),
    }
}

/// Free bytes in the nearest folder above `path` that exists.
fn free_bytes(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::refuse_memory;

    #[test]
    fn more_memory_than_there_is_is_refused() {
        assert!(refuse_memory(2 << 30, Some(3 << 30)).is_ok());
        assert!(refuse_memory(2 << 30, None).is_ok());
        let error = refuse_memory(3 << 30, Some(2 << 30)).unwrap_err();
        let expected = "the run needs about 3.0 GiB of memory, and 2.0 GiB are available";
        assert_eq!(error.to_string(), expected);
    }
}
