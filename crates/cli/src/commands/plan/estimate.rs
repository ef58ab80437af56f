//! What the stages of a recipe do, and how long that takes on given hardware.
//!
//! Operations are 2 and 6 a weight and token (8 where activations are computed again), attention apart.
//! An update takes these at a share of the peak rate. A step of generation reads the weights and all
//! keys and values once, and takes the longer of that and its operations; when most rollouts have
//! ended, the longest go on at the pace of reading the weights. Generation and update take turns, as in
//! `rocstar train`. Evaluations, start and checkpoints take no time here.

use rocstar_nn::config::ModelConfig;
use rocstar_train::recipe::{EngineStorage, OldLogProbs, Recipe, RlStage, SftStage, Stage};
use rocstar_train::{BYTES_PER_EPISODE_TOKEN, Needs};
use serde::Serialize;

use super::assumptions::Assumptions;
use super::hardware::Hardware;
use super::memory::{Demand, GenerationDemand, GenerationMemory, Memory};
use super::rows;
use crate::failure::{HintExt as _, WrongUse};

/// What a stage does and needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct StageEstimate {
    /// The stage, from 0.
    pub(super) stage: usize,
    /// What it does.
    pub(super) kind: &'static str,
    /// Rows of its data, where known.
    pub(super) rows: Option<u64>,
    /// Steps.
    pub(super) steps: u64,
    /// Updates of the optimiser in all steps.
    pub(super) optimizer_steps: u64,
    /// Of these, updates at a rising learning rate.
    pub(super) warm_up_steps: u64,
    /// Sequences that a step learns from, at most.
    pub(super) sequences_per_step: f64,
    /// Tokens that go through an update in a step.
    pub(super) tokens_per_step: Tokens,
    /// What is rolled out; of a stage of reinforcement learning.
    pub(super) rollouts: Option<Rollouts>,
    /// Operations of all updates.
    pub(super) update_operations: f64,
    /// Of a step, how long the update takes.
    pub(super) update_seconds_per_step: f64,
    /// All of it.
    pub(super) seconds: f64,
    /// What a device holds.
    pub(super) memory: Memory,
    /// A checkpoint on the disk.
    pub(super) checkpoint_bytes: u64,
    /// Episodes of the stage on the disk.
    pub(super) episodes_bytes: f64,
}

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Tokens {
    pub(super) mean: f64,
    pub(super) most: f64,
}

/// What a stage rolls out: a step's numbers, where nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Rollouts {
    /// Prompts.
    pub(super) prompts_per_step: u64,
    /// More, at most, in place of those that are of no use.
    pub(super) refill_prompts_per_step: u64,
    /// Rollouts.
    pub(super) rollouts_per_step: u64,
    /// Of these, learnt from, at most.
    pub(super) learnt_rollouts_per_step: u64,
    /// Updates of the optimiser.
    pub(super) updates_per_step: u64,
    /// Most turns of a rollout.
    pub(super) max_turns: u64,
    /// Tokens of a response.
    pub(super) response_tokens: Tokens,
    /// Tokens that are sampled; tools' answers count as if they were.
    pub(super) sampled_tokens_per_step: Tokens,
    /// Rollouts before the stage that find the tasks which the policy solves already.
    pub(super) filter_rollouts: u64,
    /// Operations of generation in the whole stage.
    pub(super) generation_operations: f64,
    /// How generation goes.
    pub(super) generation: Generation,
    /// Time of the filter.
    pub(super) filter_seconds: f64,
    /// Tool calls.
    pub(super) tool_calls_per_step: f64,
    /// Tool calls a second while a step generates: what the code environment must keep up with.
    pub(super) tool_calls_per_second: f64,
}

/// How the generation of some rollouts goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Generation {
    /// Models that generate side by side.
    pub(super) replicas: usize,
    /// Sequences that run at once in each.
    pub(super) running: f64,
    /// Tokens a second of all of them, while enough rollouts are left.
    pub(super) tokens_per_second: f64,
    /// How long it takes.
    pub(super) seconds: f64,
}

/// What all stages share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) hardware: &'a Hardware,
    pub(super) assumed: &'a Assumptions,
}

/// All stages of a recipe.
///
/// # Errors
/// How much data a stage has isn't known and decides its steps, or adapters don't fit the model.
pub(super) fn stages(recipe: &Recipe, setting: Setting<'_>) -> anyhow::Result<Vec<StageEstimate>> {
    let mut rl_stages = 0..;
    let estimates = recipe.stage.iter().enumerate().map(|(index, stage)| match stage {
        Stage::Sft(stage) => setting.sft(stage, index),
        Stage::Rl(stage) => setting.rl(stage, index, rl_stages.next().unwrap_or(0)),
    });
    estimates.collect()
}

impl Setting<'_> {
    fn sft(&self, options: &SftStage, stage: usize) -> anyhow::Result<StageEstimate> {
        let rows = match &options.practice {
            Some(made_up) => Some(made_up.count as u64),
            None => rows::of(&options.data.paths, options.data.limit, self.assumed.rows),
        };
        let longest = options.sequence_tokens as u64;
        let mean = self.assumed.conversation_tokens.unwrap_or(longest / 2).min(longest) as f64;
        let sequences = match (options.sequences_per_step, options.tokens_per_step) {
            (Some(sequences), _) => sequences as f64,
            (None, Some(tokens)) => (tokens as f64 / mean).max(1.0),
            (None, None) => 1.0,
        };
        let learnt = rows.map(|rows| rows as f64 * (1.0 - options.evaluation.held_out_share));
        let of_epochs = match (options.epochs, learnt) {
            (Some(epochs), Some(rows)) => Some(epochs * (rows / sequences).ceil() as u64),
            _ => None,
        };
        let Some(steps) = of_epochs.into_iter().chain(options.steps).min() else {
            let told = format!("how many conversations stage {stage} has isn't known");
            return Err(WrongUse::error(told)).hint("say it by `--rows N`, or limit its `steps`");
        };
        let micro_batch = options.tokens_per_micro_batch.max(options.sequence_tokens);
        let needs = Needs::new(self.config, options.lora.as_ref(), options.recompute, micro_batch)?;
        let demand = Demand { needs: &needs, config: self.config, generation: None };
        let tokens = sequences * mean;
        let operations = needs.operations(self.config, tokens as u64, mean);
        let update_seconds_per_step = self.update_seconds(operations);
        Ok(StageEstimate {
            stage,
            kind: "sft",
            rows,
            steps,
            optimizer_steps: steps,
            warm_up_steps: options.optimizer.warm_up_steps,
            sequences_per_step: sequences,
            tokens_per_step: Tokens {
                mean: tokens,
                most: options
                    .tokens_per_step
                    .map_or(sequences * longest as f64, |most| most as f64),
            },
            rollouts: None,
            update_operations: operations * steps as f64,
            update_seconds_per_step,
            seconds: update_seconds_per_step * steps as f64,
            memory: Memory::of(&demand, self.hardware, self.assumed),
            checkpoint_bytes: needs.checkpoint_bytes(),
            episodes_bytes: 0.0,
        })
    }

    fn rl(
        &self,
        options: &RlStage,
        stage: usize,
        rl_index: usize,
    ) -> anyhow::Result<StageEstimate> {
        let rows = match &options.practice {
            Some(made_up) => Some(made_up.count as u64),
            None => rows::of(&options.data.paths, options.data.limit, self.assumed.rows),
        };
        let limit = options.rollout.response_tokens as u64;
        let prompt = options
            .data
            .prompt_tokens
            .map_or(self.assumed.prompt_tokens, |most| self.assumed.prompt_tokens.min(most as u64));
        let response = Tokens {
            mean: self.assumed.mean_response_tokens(rl_index, limit) as f64,
            most: limit as f64,
        };
        let longest = options.data.prompt_tokens.unwrap_or(prompt as usize) + limit as usize;
        let micro_batch = options.tokens_per_micro_batch.max(longest);
        let needs = Needs::new(self.config, options.lora.as_ref(), options.recompute, micro_batch)?;
        let demand = Demand {
            needs: &needs,
            config: self.config,
            generation: Some(generation_demand(options, longest)),
        };
        let memory = Memory::of(&demand, self.hardware, self.assumed);
        let (rollouts, learnt) = (options.rollouts_per_step(), options.learnt_per_step());
        let mean_length = prompt as f64 + response.mean;
        let learnt_mean = learnt as f64 * self.assumed.useful_groups * mean_length;
        let operations = self.rl_operations(options, &needs, learnt_mean, mean_length);
        let update_seconds_per_step = self.update_seconds(operations);
        let rolled_out = self.rollouts(
            options,
            &needs,
            memory.generation.as_ref(),
            (prompt as f64, response, rows),
        );
        let steps = options.steps;
        let seconds_per_step = update_seconds_per_step + rolled_out.generation.seconds;
        let all_rollouts = (steps * rollouts + rolled_out.filter_rollouts) as f64;
        Ok(StageEstimate {
            stage,
            kind: "rl",
            rows,
            steps,
            optimizer_steps: steps * options.updates_per_step as u64,
            warm_up_steps: options.optimizer.warm_up_steps,
            sequences_per_step: learnt as f64,
            tokens_per_step: Tokens { mean: learnt_mean, most: learnt as f64 * longest as f64 },
            update_operations: operations * steps as f64,
            update_seconds_per_step,
            seconds: seconds_per_step * steps as f64 + rolled_out.filter_seconds,
            rollouts: Some(rolled_out),
            memory,
            checkpoint_bytes: needs.checkpoint_bytes(),
            episodes_bytes: all_rollouts * mean_length * BYTES_PER_EPISODE_TOKEN as f64,
        })
    }

    /// Operations of a step's updates, with the forward passes that old log-probabilities and a
    /// reference policy need.
    fn rl_operations(&self, options: &RlStage, needs: &Needs, tokens: f64, length: f64) -> f64 {
        let passes = u32::from(options.old_log_probs == OldLogProbs::Recomputed)
            + u32::from(options.loss.kl_weight != 0.0);
        needs.operations(self.config, tokens as u64, length)
            + f64::from(passes) * self.forward(needs, tokens, length)
    }

    fn rollouts(
        &self,
        options: &RlStage,
        needs: &Needs,
        memory: Option<&GenerationMemory>,
        (prompt, response, rows): (f64, Tokens, Option<u64>),
    ) -> Rollouts {
        let count = options.rollouts_per_step();
        let batch = |rollouts: u64, prompts: f64| Batch { rollouts, prompts, prompt, response };
        let step = batch(count, options.tasks_per_step as f64);
        let generation = self.generation(options, needs, memory, &step);
        let filter = options.filter.as_ref().zip(rows);
        let filter_rollouts = filter.map_or(0, |(filter, rows)| rows * filter.samples as u64);
        let filtered = batch(filter_rollouts, rows.unwrap_or(0) as f64);
        let filter_seconds = match filter_rollouts {
            0 => 0.0,
            _ => self.generation(options, needs, memory, &filtered).seconds,
        };
        let has_tool = options.rollout.tool != rocstar_rollout::ToolMode::None;
        let calls = if has_tool { count as f64 * self.assumed.tool_calls } else { 0.0 };
        let tokens = (options.steps * count + filter_rollouts) as f64 * response.mean;
        Rollouts {
            prompts_per_step: options.tasks_per_step as u64,
            refill_prompts_per_step: options.refill_tasks_per_step as u64,
            rollouts_per_step: count,
            learnt_rollouts_per_step: options.learnt_per_step(),
            updates_per_step: options.updates_per_step as u64,
            max_turns: options.rollout.max_turns as u64,
            response_tokens: response,
            sampled_tokens_per_step: Tokens {
                mean: count as f64 * response.mean,
                most: count as f64 * response.most,
            },
            filter_rollouts,
            generation_operations: self.forward(needs, tokens, 2.0 * prompt + response.mean),
            generation,
            filter_seconds,
            tool_calls_per_step: calls,
            tool_calls_per_second: calls / generation.seconds,
        }
    }

    /// How the generation of a batch goes.
    fn generation(
        &self,
        options: &RlStage,
        needs: &Needs,
        memory: Option<&GenerationMemory>,
        batch: &Batch,
    ) -> Generation {
        let (hardware, share) = (self.hardware, self.assumed.generation_utilisation);
        let (devices, weight_bytes, kv_bytes, kv_bytes_per_token) =
            memory.map_or((1, 0.0, 0.0, 1.0), |memory| {
                let bytes = (memory.weight_bytes as f64, memory.kv_bytes as f64);
                (memory.replica_devices, bytes.0, bytes.1, memory.kv_bytes_per_token as f64)
            });
        let replicas = (hardware.devices / devices).max(1);
        let context = batch.prompt + batch.response.mean / 2.0;
        let each = batch.rollouts as f64 / replicas as f64;
        let mut running = each.min(kv_bytes / (kv_bytes_per_token * context));
        if hardware.is_cpu {
            running = running.min(options.engine.most_running as f64);
        }
        if options.rollout.most_running > 0 {
            running = running.min(options.rollout.most_running as f64 / replicas as f64);
        }
        let running = running.max(1.0);
        let bandwidth = hardware.bandwidth_bytes * devices as f64 * share;
        let rate = hardware.peak_operations * devices as f64 * share;
        let reading = (weight_bytes + running * context * kv_bytes_per_token) / bandwidth;
        let step = reading.max(self.forward(needs, running, 2.0 * context) / rate);
        let bulk = each * batch.response.mean / running * step;
        let alone = (weight_bytes / bandwidth).max(self.forward(needs, 1.0, 2.0 * context) / rate);
        let tail = (batch.response.most - batch.response.mean) * alone;
        let prompts = self.forward(needs, batch.prompts * batch.prompt, batch.prompt);
        Generation {
            replicas,
            running,
            tokens_per_second: running / step * replicas as f64,
            seconds: bulk + tail + self.update_seconds(prompts),
        }
    }

    /// Operations of a forward pass over sequences of a length.
    fn forward(&self, needs: &Needs, tokens: f64, length: f64) -> f64 {
        let plain = Needs { recompute: false, adapters: false, ..*needs };
        plain.operations(self.config, 1, length) / 3.0 * tokens
    }

    /// Time that operations of large products take on all devices.
    fn update_seconds(&self, operations: f64) -> f64 {
        let Hardware { devices, peak_operations, .. } = self.hardware;
        operations / (*devices as f64 * peak_operations * self.assumed.training_utilisation)
    }
}

/// Rollouts that are generated together.
struct Batch {
    rollouts: u64,
    prompts: f64,
    prompt: f64,
    response: Tokens,
}

fn generation_demand(options: &RlStage, longest: usize) -> GenerationDemand {
    GenerationDemand {
        sequence_tokens: longest as u64,
        local_kv_bytes: options.engine.kv_bytes,
        local_weight_bytes: match options.engine.storage {
            EngineStorage::F32 => 4,
            EngineStorage::Bf16 => 2,
        },
        has_reference: options.loss.kl_weight != 0.0,
    }
}

/// A step's numbers that the options only imply.
trait PerStep {
    fn rollouts_per_step(&self) -> u64;
    fn learnt_per_step(&self) -> u64;
}

impl PerStep for RlStage {
    fn rollouts_per_step(&self) -> u64 {
        (self.tasks_per_step * self.rollout.samples) as u64
    }

    fn learnt_per_step(&self) -> u64 {
        (self.tasks_per_step * self.selection.keep) as u64
    }
}
