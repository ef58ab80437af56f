//! A plan as text for people.

use super::Whole;
use super::assumptions::Assumptions;
use super::estimate::{Rollouts, StageEstimate};
use super::hardware::Hardware;
use super::memory::Memory;

/// All of a plan.
pub(super) fn shown(plan: &Whole) -> String {
    let mut lines = vec![
        format!(
            "recipe     {}: {} weights ({})",
            plan.recipe,
            count(plan.model.parameters as f64),
            plan.model.source
        ),
        hardware(&plan.hardware),
    ];
    for stage in &plan.stages {
        lines.push(String::new());
        lines.extend(self::stage(stage, &plan.hardware));
    }
    lines.push(String::new());
    lines.push(format!("time       {} in all", time(plan.total_seconds)));
    lines.push(format!(
        "disk       {}: {} checkpoints of {}, episodes {}",
        bytes(plan.disk.total_bytes),
        plan.disk.checkpoints,
        bytes(plan.disk.checkpoint_bytes as f64),
        bytes(plan.disk.episodes_bytes)
    ));
    lines.push(verdict(plan));
    lines.push(assumed(&plan.assumptions));
    lines.join("\n") + "\n"
}

fn hardware(hardware: &Hardware) -> String {
    let each = if hardware.devices > 1 { " each" } else { "" };
    let kind = if hardware.is_cpu { "f32" } else { "dense bf16" };
    format!(
        "hardware   {}: {} of memory, {}FLOP/s {kind}, {}/s{each} ({})",
        hardware.name,
        bytes(hardware.memory_bytes as f64),
        scaled(hardware.peak_operations),
        bytes(hardware.bandwidth_bytes),
        hardware.source
    )
}

fn stage(stage: &StageEstimate, hardware: &Hardware) -> Vec<String> {
    let rows = |what: &str| match stage.rows {
        Some(rows) => format!("{} {what}", whole(rows as f64)),
        None => format!("{what}, how many isn't known"),
    };
    let mut lines = vec![format!(
        "stage {}: {}\n  steps    {}, {} updates, of which {} warm up",
        stage.stage,
        match stage.kind {
            "sft" => format!("fine-tuning on {}", rows("conversations")),
            _ => format!("reinforcement learning on {}", rows("tasks")),
        },
        whole(stage.steps as f64),
        whole(stage.optimizer_steps as f64),
        stage.warm_up_steps
    )];
    match &stage.rollouts {
        None => lines.push(format!(
            "  a step   {} conversations, {} tokens in the mean, {} at most",
            whole(stage.sequences_per_step),
            count(stage.tokens_per_step.mean),
            count(stage.tokens_per_step.most)
        )),
        Some(rollouts) => lines.extend(self::rollouts(stage, rollouts)),
    }
    lines.push(operations(stage));
    lines.extend(memory(&stage.memory, hardware));
    lines.push(step_time(stage));
    lines
}

fn rollouts(stage: &StageEstimate, rollouts: &Rollouts) -> Vec<String> {
    let refill = match rollouts.refill_prompts_per_step {
        0 => String::new(),
        more => format!(" and up to {more} more"),
    };
    let mut lines = vec![
        format!(
            "  a step   {} prompts{refill}, {} rollouts of up to {} turns, up to {} learnt in {} update{}",
            whole(rollouts.prompts_per_step as f64),
            whole(rollouts.rollouts_per_step as f64),
            rollouts.max_turns,
            whole(rollouts.learnt_rollouts_per_step as f64),
            rollouts.updates_per_step,
            if rollouts.updates_per_step == 1 { "" } else { "s" }
        ),
        format!(
            "  tokens   a response has {} in the mean, {} at most; a step samples {} in the mean, {} at most, \
             and learns from {} in the mean, {} at most",
            whole(rollouts.response_tokens.mean),
            whole(rollouts.response_tokens.most),
            count(rollouts.sampled_tokens_per_step.mean),
            count(rollouts.sampled_tokens_per_step.most),
            count(stage.tokens_per_step.mean),
            count(stage.tokens_per_step.most)
        ),
    ];
    if rollouts.filter_rollouts > 0 {
        lines.push(format!(
            "  filter   {} rollouts before the first step, {}",
            whole(rollouts.filter_rollouts as f64),
            time(rollouts.filter_seconds)
        ));
    }
    let generation = &rollouts.generation;
    lines.push(format!(
        "  rollouts {} models side by side, {} sequences at once in each, {} tokens/s of all",
        generation.replicas,
        whole(generation.running),
        count(generation.tokens_per_second)
    ));
    if rollouts.tool_calls_per_step > 0.0 {
        lines.push(format!(
            "  tool     {} calls a step: the code environment must run {} a second",
            whole(rollouts.tool_calls_per_step),
            count(rollouts.tool_calls_per_second)
        ));
    }
    lines
}

fn operations(stage: &StageEstimate) -> String {
    match &stage.rollouts {
        None => format!("  work     {:.2e} FLOP of updates", stage.update_operations),
        Some(rollouts) => format!(
            "  work     {:.2e} FLOP of updates, {:.2e} of generation",
            stage.update_operations, rollouts.generation_operations
        ),
    }
}

fn memory(memory: &Memory, hardware: &Hardware) -> Vec<String> {
    let mut lines = vec![format!(
        "  memory   {} of {} {}: {} weights, gradient and moments; {} activations of a micro-batch{}",
        bytes(memory.needed_bytes as f64),
        bytes(memory.usable_bytes as f64),
        if hardware.is_cpu { "that can be used" } else { "that each device can use" },
        bytes(memory.state_bytes as f64),
        bytes(memory.activation_bytes as f64),
        match memory.gathered_bytes {
            0 => String::new(),
            gathered => format!("; {} gathered layers", bytes(gathered as f64)),
        }
    )];
    if let Some(generation) = &memory.generation {
        let over = match generation.replica_devices {
            1 => String::new(),
            devices => format!(" over {devices} devices"),
        };
        lines.push(format!(
            "  cache    {} of keys and values a token; {} beside a model of {}{over} hold {} sequences of \
             full length",
            bytes(generation.kv_bytes_per_token as f64),
            bytes(generation.kv_bytes as f64),
            bytes(generation.weight_bytes as f64),
            whole(generation.full_sequences as f64)
        ));
    }
    if !memory.fits {
        lines.push(format!("  DOES NOT FIT: {}", remedy(memory, hardware)));
    }
    lines
}

/// What would fit.
fn remedy(memory: &Memory, hardware: &Hardware) -> String {
    let smaller =
        "a smaller `tokens_per_micro_batch`, `recompute = true` or adapters (`lora`) need less";
    match memory.fewest_devices {
        Some(devices) => format!(
            "needs at least {devices} x {} of {}; {smaller}",
            hardware.device_name(),
            bytes(hardware.memory_bytes as f64)
        ),
        None if hardware.is_cpu => format!(
            "needs {} of memory; {smaller}, as does a smaller `engine.kv_bytes`",
            bytes(
                memory.needed_bytes as f64 / memory.usable_bytes as f64
                    * hardware.memory_bytes as f64
            )
        ),
        None => format!(
            "no number of such devices holds it: the activations alone are too many; {smaller}"
        ),
    }
}

fn step_time(stage: &StageEstimate) -> String {
    match &stage.rollouts {
        None => format!(
            "  time     {}: a step takes {}",
            time(stage.seconds),
            time(stage.update_seconds_per_step)
        ),
        Some(rollouts) => {
            let generating = rollouts.generation.seconds;
            let step = generating + stage.update_seconds_per_step;
            format!(
                "  time     {}: a step takes {}, {:.0} % generating, {:.0} % updating",
                time(stage.seconds),
                time(step),
                100.0 * generating / step,
                100.0 * stage.update_seconds_per_step / step
            )
        }
    }
}

fn verdict(plan: &Whole) -> String {
    let name = plan.hardware.device_name();
    match (plan.fits, plan.fewest_devices) {
        (true, Some(devices)) if !plan.hardware.is_cpu => {
            format!("fits       yes; at least {devices} x {name} would do")
        }
        (true, _) => "fits       yes".to_owned(),
        (false, Some(devices)) if !plan.hardware.is_cpu => {
            format!("fits       no: needs at least {devices} x {name}")
        }
        (false, _) => "fits       no".to_owned(),
    }
}

fn assumed(assumed: &Assumptions) -> String {
    let precision = serde_json::to_value(assumed.precision).unwrap_or_default();
    let given = |tokens: Option<u64>| {
        tokens.map_or_else(|| "half of the limit".to_owned(), |tokens| tokens.to_string())
    };
    let responses: Vec<String> = assumed.response_tokens.iter().map(u64::to_string).collect();
    let responses = if responses.is_empty() { given(None) } else { responses.join(",") };
    format!(
        "assumed    --precision {} --training-utilisation {} --generation-utilisation {} \
         --memory-share {} --prompt-tokens {} --useful-groups {} --tool-calls {}; mean tokens of a \
         response: {responses}; of a conversation: {}; tools keep up; no time for evaluations, \
         checkpoints and transfers",
        precision.as_str().unwrap_or_default(),
        assumed.training_utilisation,
        assumed.generation_utilisation,
        assumed.memory_share,
        assumed.prompt_tokens,
        assumed.useful_groups,
        assumed.tool_calls,
        given(assumed.conversation_tokens)
    )
}

/// A number with its thousands set apart.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number with three digits and its unit.
fn count(number: f64) -> String {
    for (name, scale) in [("T", 1e12), ("G", 1e9), ("M", 1e6)] {
        if number >= scale {
            return format!("{:.2} {name}", number / scale);
        }
    }
    whole(number)
}

/// With a decimal prefix, to stand before a unit.
fn scaled(number: f64) -> String {
    for (name, scale) in [("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if number >= scale {
            let decimals = if number >= 100.0 * scale { 0 } else { 1 };
            return format!("{:.decimals$} {name}", number / scale);
        }
    }
    format!("{number:.0} ")
}

/// Decimal units, as data sheets have them.
fn bytes(number: f64) -> String {
    scaled(number) + "B"
}

fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if seconds < 7200.0 => format!("{:.1} min", seconds / 60.0),
        _ if seconds < 48.0 * 3600.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} h ({:.1} days)", seconds / 3600.0, seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(
            (whole(16384.0), whole(7.0), whole(999.6)),
            ("16,384".to_owned(), "7".to_owned(), "1,000".to_owned())
        );
        assert_eq!(
            (count(14_768_307_200.0), count(45056.0)),
            ("14.77 G".to_owned(), "45,056".to_owned())
        );
        assert_eq!(
            (bytes(192e9), bytes(5.3e12), bytes(512.0)),
            ("192 GB".to_owned(), "5.3 TB".to_owned(), "512 B".to_owned())
        );
        assert_eq!(
            (time(0.02), time(86_400.0 * 7.0)),
            ("20 ms".to_owned(), "168.0 h (7.0 days)".to_owned())
        );
    }
}
