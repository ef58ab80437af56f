//! The compute thread's loop: take requests, plan a step, compute it, sample, tell the callers.
//!
//! Invariant: each turn of the loop either computes a step in which the oldest request goes on, or
//! waits for work. Whoever leaves the scheduler is told exactly once, after the figures and the room
//! that it leaves are up to date.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocstar_nn::decode::{BLOCK_TOKENS, DecodeError, DecodeWeights, Decoder, KvPool, Segment};

use crate::blocks::Blocks;
use crate::engine::{Job, Shared, Work};
use crate::generation::{FinishReason, WeightVersion};
use crate::output::Output;
use crate::sampler::{NotFinite, Outcome, Sampler, Task, Want};
use crate::scheduler::{Limits, Plan, Scheduler, Sequence};

/// Rows of logits computed in a step for the log-probabilities of prompts. A row is as long as the
/// vocabulary: without a bound a long prompt's would take gigabytes.
const PROMPT_ROWS: usize = 128;

/// The loop and all that it owns.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    scheduler: Scheduler<Output>,
    decoder: Decoder,
    pool: KvPool,
    sampler: Sampler,
    version: WeightVersion,
    longest_tokens: usize,
    totals: Totals,
    // Kept for their memory.
    plan: Plan,
    logits: Vec<f32>,
    tasks: Vec<Task>,
    /// Index of the running sequence, of each task.
    places: Vec<usize>,
    outcomes: Vec<Result<Outcome, NotFinite>>,
}

/// What the loop counts.
#[derive(Debug, Default)]
struct Totals {
    requests: u64,
    finished: u64,
    cancelled: u64,
    failed: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    prefilled_tokens: u64,
    new_tokens: u64,
    steps: u64,
    busy: Duration,
    forward: Duration,
    sampling: Duration,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (config, options) = (&shared.config, &shared.options);
        let limits = Limits {
            max_running: options.max_running,
            step_tokens: options.step_tokens,
            row_tokens: PROMPT_ROWS,
        };
        let count = options.kv_blocks(config);
        // The options were validated: the count fits.
        let numbered = u32::try_from(count).unwrap_or(u32::MAX);
        let blocks = Blocks::new(numbered, BLOCK_TOKENS, options.share_prefixes);
        Self {
            scheduler: Scheduler::new(limits, blocks),
            decoder: Decoder::new(config),
            pool: KvPool::new(config, count),
            sampler: Sampler::new(),
            version: WeightVersion(0),
            longest_tokens: shared.bounds.longest_tokens(),
            totals: Totals::default(),
            plan: Plan::default(),
            logits: Vec::new(),
            tasks: Vec::new(),
            places: Vec::new(),
            outcomes: Vec::new(),
            shared,
        }
    }

    /// Runs until the engine is to stop; why it ended.
    pub(crate) fn run(mut self) -> String {
        loop {
            match self.shared.work(self.scheduler.is_empty()) {
                Work::Jobs(jobs) => self.accept(jobs),
                Work::Stop(jobs) => {
                    self.accept(jobs);
                    self.end_all(&FinishReason::Cancelled);
                    return "it was stopped".to_owned();
                }
            }
            self.end_cancelled();
            if self.scheduler.is_empty() {
                continue;
            }
            if let Err(cause) = self.step() {
                self.end_all(&FinishReason::EngineFailed { cause: cause.clone() });
                return cause;
            }
        }
    }

    fn accept(&mut self, jobs: Vec<Job>) {
        self.totals.requests += jobs.len() as u64;
        for mut job in jobs {
            let prompt = std::mem::take(&mut job.request.prompt);
            let all_rows = job.request.prompt_log_probs;
            let output = Output::new(job, prompt.len());
            self.scheduler.submit(prompt, all_rows, output);
        }
    }

    /// Computes one step; why the engine can't go on, if it can't.
    fn step(&mut self) -> Result<(), String> {
        // The weights are held for the whole step; loads come in between.
        let shared = Arc::clone(&self.shared);
        let loaded = shared.weights().ok_or("a fault while the weights were replaced")?;
        let began = Instant::now();
        if loaded.version != self.version {
            self.scheduler.restart();
            self.version = loaded.version;
        }
        self.scheduler.plan(&mut self.plan);
        self.note_starts(began);
        let planned = Instant::now();
        self.compute(&loaded.weights).map_err(|error| error.to_string())?;
        drop(loaded);
        let computed = Instant::now();
        self.choose_tasks();
        let vocabulary = self.shared.config.vocabulary_size;
        self.sampler.run(&self.logits, vocabulary, &self.tasks, &mut self.outcomes);
        let sampled = Instant::now();
        let ended = self.apply(sampled);
        self.totals.steps += 1;
        self.totals.forward += computed - planned;
        self.totals.sampling += sampled - computed;
        self.totals.busy += began.elapsed();
        self.end(ended);
        Ok(())
    }

    /// Those that run for the first time.
    fn note_starts(&mut self, now: Instant) {
        for sequence in self.scheduler.running_mut() {
            if sequence.payload.note_start(now) {
                self.totals.prompt_tokens += sequence.payload.prompt_tokens() as u64;
                self.totals.cached_tokens += sequence.cached_tokens.unwrap_or(0) as u64;
            }
        }
    }

    /// Carries out the plan's copies and its arithmetic.
    fn compute(&mut self, weights: &DecodeWeights) -> Result<(), DecodeError> {
        for copy in &self.plan.copies {
            self.pool.copy_prefix(copy.from, copy.to, copy.tokens)?;
        }
        let running = self.scheduler.running();
        let segments = self.plan.parts.iter().map(|part| {
            let sequence = &running[part.index];
            let (start, blocks) = (sequence.computed, sequence.table().blocks());
            let tokens = &sequence.tokens[start..start + part.tokens];
            Segment { tokens, position: start, blocks, logits: part.logits }
        });
        let segments: Vec<Segment<'_>> = segments.collect();
        self.decoder.forward(weights, &mut self.pool, &segments, &mut self.logits)
    }

    /// Takes note of what was computed, and finds out what is wanted of each row.
    fn choose_tasks(&mut self) {
        self.tasks.clear();
        self.places.clear();
        let mut row = 0;
        for part in &self.plan.parts {
            if self.scheduler.running()[part.index].is_prefilling() {
                self.totals.prefilled_tokens += part.tokens as u64;
            }
            self.scheduler.computed(*part);
            let sequence = &self.scheduler.running()[part.index];
            let rows = part.logits.rows(part.tokens);
            // A row says which token follows its own.
            for next in sequence.computed - rows + 1..=sequence.computed {
                let known = sequence.tokens.get(next).copied();
                if let Some(want) = sequence.payload.wanted(next, known) {
                    self.tasks.push(Task { row, want, top: sequence.payload.top() });
                    self.places.push(part.index);
                }
                row += 1;
            }
        }
    }

    /// Hands the sequences their outcomes; takes out those that have ended.
    fn apply(&mut self, now: Instant) -> Vec<(Sequence<Output>, FinishReason)> {
        let mut ending: Vec<(usize, FinishReason)> = Vec::new();
        for (outcome, (task, index)) in
            self.outcomes.drain(..).zip(self.tasks.iter().zip(&self.places))
        {
            // A sequence ends once; its rows lie together.
            if ending.last().is_some_and(|(ended, _)| ended == index) {
                continue;
            }
            let sequence = &mut self.scheduler.running_mut()[*index];
            let sampled = matches!(task.want, Want::Draw { .. });
            let end = match outcome {
                Ok(outcome) if sampled => {
                    self.totals.new_tokens += u64::from(!sequence.payload.wants_no_token());
                    let longest = self.longest_tokens;
                    take_token(sequence, outcome, self.version, now, longest)
                }
                Ok(outcome) => {
                    let first = sequence.tokens[0];
                    sequence.payload.take_prompt_row(first, outcome, self.version);
                    None
                }
                Err(NotFinite) => Some(FinishReason::EngineFailed {
                    cause: format!(
                        "the logits after {} tokens are not finite; weights of version {}",
                        sequence.computed, self.version
                    ),
                }),
            };
            ending.extend(end.map(|reason| (*index, reason)));
        }
        ending.sort_unstable_by_key(|(index, _)| Reverse(*index));
        let remove = |(index, reason)| (self.scheduler.remove(index), reason);
        ending.into_iter().map(remove).collect()
    }

    fn end_cancelled(&mut self) {
        let cancelled = self.scheduler.remove_where(Output::is_cancelled);
        if !cancelled.is_empty() {
            let ended = cancelled.into_iter().map(|sequence| (sequence, FinishReason::Cancelled));
            self.end(ended.collect());
        }
    }

    fn end_all(&mut self, reason: &FinishReason) {
        let all = self.scheduler.remove_where(|_| true);
        self.end(all.into_iter().map(|sequence| (sequence, reason.clone())).collect());
    }

    /// Brings the figures up to date, then tells those that have left.
    fn end(&mut self, ended: Vec<(Sequence<Output>, FinishReason)>) {
        for (_, reason) in &ended {
            self.totals.finished += 1;
            match reason {
                FinishReason::Cancelled => self.totals.cancelled += 1,
                FinishReason::EngineFailed { .. } => self.totals.failed += 1,
                FinishReason::StopToken(_)
                | FinishReason::StopString { .. }
                | FinishReason::Length
                | FinishReason::Context => {}
            }
        }
        self.settle(ended.len());
        for (sequence, reason) in ended {
            let (cached, pre_emptions) = (sequence.cached_tokens, sequence.pre_emptions);
            sequence.payload.finish(reason, cached.unwrap_or(0), pre_emptions);
        }
    }

    fn settle(&self, ended: usize) {
        let (totals, blocks) = (&self.totals, self.scheduler.blocks());
        self.shared.settle(ended, |stats| {
            stats.running = self.scheduler.running().len();
            stats.kv_blocks_free = blocks.free();
            stats.kv_blocks_cached = blocks.idle();
            stats.requests = totals.requests;
            stats.finished = totals.finished;
            stats.cancelled = totals.cancelled;
            stats.failed = totals.failed;
            stats.prompt_tokens = totals.prompt_tokens;
            stats.cached_tokens = totals.cached_tokens;
            stats.prefilled_tokens = totals.prefilled_tokens;
            stats.new_tokens = totals.new_tokens;
            stats.pre_emptions = self.scheduler.pre_emptions();
            stats.steps = totals.steps;
            stats.busy = totals.busy;
            stats.forward = totals.forward;
            stats.sampling = totals.sampling;
        });
    }
}

/// A sequence takes a sampled token; how that ends it, if it does.
fn take_token(
    sequence: &mut Sequence<Output>,
    outcome: Outcome,
    version: WeightVersion,
    now: Instant,
    longest_tokens: usize,
) -> Option<FinishReason> {
    sequence.payload.tell_prompt(sequence.tokens[0], version);
    sequence.all_rows = false;
    if sequence.payload.wants_no_token() {
        return Some(FinishReason::Length);
    }
    sequence.tokens.push(outcome.token);
    let full = sequence.tokens.len() >= longest_tokens;
    sequence.payload.take_token(outcome, version, now, full)
}
