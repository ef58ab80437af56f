//! `rocstar bench generate`: how fast the engine decodes on this machine.
//!
//! Invariant: prompts are distinct and nothing comes from a cache; the time of prefilling is taken
//! out by a second run, so a figure is the rate of decoding alone.

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_engine::measure::{DecodeLoad, DecodeRate};
use rocstar_engine::{Engine, EngineOptions, KvBudget};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::Storage;
use rocstar_nn::files;
use rocstar_nn::parameters::Parameters;
use serde::Serialize;

use super::Shape;
use super::peak::gemm_peak_gflops;
use crate::failure::Finish;
use crate::models::resolve_model;
use crate::terminal::Terminal;

/// Measure how fast tokens are generated
///
/// Random prompts of equal length, all at once, sampled at temperature 1; medians of several runs.
/// Without `--model` the weights are random, which takes as long as any others.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// Shape of the model
    #[arg(long, value_enum, default_value_t = Shape::Tiny)]
    shape: Shape,
    /// Measure this model instead: a folder, a GGUF file, or the name of a fetched model
    #[arg(long, value_name = "PATH", conflicts_with = "shape")]
    model: Option<String>,
    /// Sequences at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Tokens of each prompt
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    prompt_tokens: u32,
    /// Tokens generated for each prompt
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    new_tokens: u32,
    /// How weights are kept; arithmetic is f32 in each case
    #[arg(long, value_enum, default_value_t = Kept::F32)]
    storage: Kept,
    /// Threads of the arithmetic [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Runs; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// How weights are kept for decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Four bytes a weight
    F32,
    /// Two bytes a weight
    Bf16,
    /// One byte a weight
    Int8,
}

impl Kept {
    const fn storage(self) -> Storage {
        match self {
            Self::F32 => Storage::F32,
            Self::Bf16 => Storage::Bf16,
            Self::Int8 => Storage::Int8,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

/// What `--json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    model: String,
    batch: usize,
    prompt_tokens: usize,
    new_tokens: usize,
    storage: &'static str,
    threads: usize,
    /// Tokens decoded a second, over all sequences; the median of the runs.
    tokens_per_s: f64,
    /// Of each run, slowest first.
    tokens_per_s_runs: Vec<f64>,
    /// Operations of the model a second, in 10⁹, at `tokens_per_s`.
    gflops: f64,
    /// The machine's rate of large matrix products, in 10⁹ operations a second, in this run.
    gemm_peak_gflops: f64,
    /// `gflops / gemm_peak_gflops`.
    gemm_peak_share: f64,
    /// Tokens of prompts a second; the median.
    prefill_tokens_per_s: f64,
    /// Share of the steps' time outside the model's arithmetic; the median.
    overhead_share: f64,
    weight_bytes: usize,
}

impl Generate {
    /// Runs the command.
    ///
    /// # Errors
    /// The model can't be loaded or doesn't fit, or a generation failed.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let (model, config, parameters) = self.model()?;
        let load = DecodeLoad {
            batch: self.batch as usize,
            prompt_tokens: self.prompt_tokens as usize,
            new_tokens: self.new_tokens as usize,
        };
        let options = self.options(&load);
        let threads = options.threads.unwrap_or_else(rayon_threads);
        let engine = Engine::start(config.clone(), &parameters, options)?;
        drop(parameters);
        let bar = terminal.bar("measuring", u64::from(self.runs));
        let mut rates = Vec::new();
        for run in 0..self.runs {
            rates.push(load.measure(&engine, run).context("the measurement failed")?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let weight_bytes = engine.stats().weight_bytes;
        drop(engine);
        let gemm_peak_gflops = gemm_peak_gflops(threads)?;
        let medians = Medians::of(&load, &rates);
        let gflops = medians.tokens_per_s * load.operations_per_token(&config) / 1e9;
        let figures = Figures {
            model,
            batch: load.batch,
            prompt_tokens: load.prompt_tokens,
            new_tokens: load.new_tokens,
            storage: self.storage.name(),
            threads,
            tokens_per_s: medians.tokens_per_s,
            tokens_per_s_runs: medians.tokens_per_s_runs,
            gflops,
            gemm_peak_gflops,
            gemm_peak_share: gflops / gemm_peak_gflops,
            prefill_tokens_per_s: medians.prefill_tokens_per_s,
            overhead_share: medians.overhead_share,
            weight_bytes,
        };
        self.print(&figures, terminal)?;
        Ok(Finish::Good)
    }

    fn model(&self) -> anyhow::Result<(String, ModelConfig, Parameters)> {
        let Some(model) = &self.model else {
            let config = self.shape.config();
            let parameters = Parameters::random(&config, 0);
            return Ok((self.shape.name().to_owned(), config, parameters));
        };
        let loaded = files::load(&resolve_model(model)?)?;
        Ok((model.clone(), loaded.config, loaded.parameters))
    }

    /// An engine in which all of the load runs at once and prefills in one step.
    fn options(&self, load: &DecodeLoad) -> EngineOptions {
        let block = rocstar_nn::decode::BLOCK_TOKENS;
        let sequence = (load.prompt_tokens + load.new_tokens + 1).next_multiple_of(block) + block;
        EngineOptions {
            kv: KvBudget::Tokens(load.batch * sequence),
            max_running: load.batch,
            step_tokens: load.batch * (load.prompt_tokens + 1),
            storage: self.storage.storage(),
            threads: self.threads.map(|threads| threads as usize),
            share_prefixes: false,
            ..EngineOptions::default()
        }
    }

    fn print(&self, figures: &Figures, terminal: Terminal) -> anyhow::Result<()> {
        if self.json {
            return terminal.json(figures);
        }
        let rows = [
            ("tokens/s", format!("{:.1}", figures.tokens_per_s)),
            ("GFLOP/s", format!("{:.1}", figures.gflops)),
            ("share of GEMM peak", format!("{:.1} %", 100.0 * figures.gemm_peak_share)),
            ("GEMM peak, GFLOP/s", format!("{:.1}", figures.gemm_peak_gflops)),
            ("prefill, tokens/s", format!("{:.1}", figures.prefill_tokens_per_s)),
            ("outside arithmetic", format!("{:.1} %", 100.0 * figures.overhead_share)),
        ];
        let title = format!(
            "{}, {}, batch {}, {} threads",
            figures.model, figures.storage, figures.batch, figures.threads
        );
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        terminal.table(&[&title, ""], &rows, 1)
    }
}

fn rayon_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Medians over runs.
#[derive(Debug)]
struct Medians {
    tokens_per_s: f64,
    tokens_per_s_runs: Vec<f64>,
    prefill_tokens_per_s: f64,
    overhead_share: f64,
}

impl Medians {
    fn of(load: &DecodeLoad, rates: &[DecodeRate]) -> Self {
        let prompt_tokens = (load.batch * load.prompt_tokens) as f64;
        let sorted = |value: &dyn Fn(&DecodeRate) -> f64| {
            let mut values: Vec<f64> = rates.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let per_second = |time: Duration| prompt_tokens / time.as_secs_f64();
        let tokens_per_s_runs = sorted(&DecodeRate::tokens_per_s);
        Self {
            tokens_per_s: median(&tokens_per_s_runs),
            tokens_per_s_runs,
            prefill_tokens_per_s: median(&sorted(&|rate| per_second(rate.prefill_time))),
            overhead_share: median(&sorted(&|rate| rate.overhead_share)),
        }
    }
}

/// The middle of sorted values.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
