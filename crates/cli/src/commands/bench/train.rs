//! `rocstar bench train`: how fast a training step is on this machine.
//!
//! Invariant: a step is all of it: forward, backward, norm of the gradient, clipping, AdamW. The
//! first step, which asks for memory, doesn't count.

use std::time::Instant;

use clap::Args;
use rocstar_nn::config::ModelConfig;
use rocstar_nn::gauge;
use rocstar_nn::optimizer::{AdamW, AdamWOptions, clip_scale, global_norm};
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::{
    CrossEntropy, Gradient, Model, Packed, Policy, Recompute, StepOptions, Workspace,
    forward_backward,
};
use rocstar_record::draw::{Key, Purpose};
use serde::Serialize;

use super::Shape;
use super::peak::gemm_peak_gflops;
use crate::failure::Finish;
use crate::terminal::Terminal;

/// Measure how fast a model is trained
///
/// Packed sequences of random tokens, all of them targets; the median of the steps' times counts.
#[derive(Debug, Args)]
pub(crate) struct Train {
    /// Shape of the model
    #[arg(long, value_enum, default_value_t = Shape::Tiny)]
    shape: Shape,
    /// Sequences of a step [default: 8 for tiny, 4 for smol]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Option<u32>,
    /// Tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=8192))]
    sequence_tokens: u32,
    /// Steps that are measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Threads of the arithmetic [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Keep only the input of each layer and compute the rest again: less memory, more time
    #[arg(long)]
    recompute: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    shape: &'static str,
    batch: usize,
    sequence_tokens: usize,
    steps: u32,
    threads: usize,
    recompute: bool,
    /// Tokens trained on a second, by the median step.
    tokens_per_s: f64,
    /// Of each step, slowest first.
    tokens_per_s_steps: Vec<f64>,
    /// Operations of the model a second, in 10⁹, at `tokens_per_s`.
    gflops: f64,
    /// The machine's rate of large matrix products, in 10⁹ operations a second, in this run.
    gemm_peak_gflops: f64,
    /// `gflops / gemm_peak_gflops`.
    gemm_peak_share: f64,
    /// Most memory that the process held; absent where the system doesn't say.
    peak_rss_bytes: Option<u64>,
    /// Loss of the last step, nats.
    loss: f64,
}

impl Train {
    /// Runs the command.
    ///
    /// # Errors
    /// Threads can't be started.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or_else(cores, |threads| threads as usize);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut load = Load::new(&self.shape.config(), self.batch(), self.sequence_tokens as usize);
        let bar = terminal.bar("measuring", u64::from(self.steps) + 1);
        let recompute = if self.recompute { Recompute::Layers } else { Recompute::None };
        let mut rates = Vec::new();
        let mut loss = f64::NAN;
        for step in 0..=self.steps {
            let began = Instant::now();
            loss = pool.install(|| load.step(recompute))?;
            if step > 0 {
                rates.push(load.tokens.len() as f64 / began.elapsed().as_secs_f64());
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        rates.sort_by(f64::total_cmp);
        let tokens_per_s = rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN);
        let gflops = tokens_per_s * load.operations() / load.tokens.len() as f64 / 1e9;
        let peak_rss_bytes = peak_rss_bytes();
        let gemm_peak_gflops = gemm_peak_gflops(threads)?;
        let figures = Figures {
            shape: self.shape.name(),
            batch: self.batch(),
            sequence_tokens: self.sequence_tokens as usize,
            steps: self.steps,
            threads,
            recompute: self.recompute,
            tokens_per_s,
            tokens_per_s_steps: rates,
            gflops,
            gemm_peak_gflops,
            gemm_peak_share: gflops / gemm_peak_gflops,
            peak_rss_bytes,
            loss,
        };
        self.print(&figures, terminal)?;
        Ok(Finish::Good)
    }

    fn batch(&self) -> usize {
        let default = match self.shape {
            Shape::Tiny => 8,
            Shape::Smol => 4,
        };
        self.batch.map_or(default, |batch| batch as usize)
    }

    fn print(&self, figures: &Figures, terminal: Terminal) -> anyhow::Result<()> {
        if self.json {
            return terminal.json(figures);
        }
        let gibibytes = |bytes| format!("{:.2}", bytes as f64 / (1_u64 << 30) as f64);
        let rows = [
            ("tokens/s", format!("{:.1}", figures.tokens_per_s)),
            ("GFLOP/s", format!("{:.1}", figures.gflops)),
            ("share of GEMM peak", format!("{:.1} %", 100.0 * figures.gemm_peak_share)),
            ("GEMM peak, GFLOP/s", format!("{:.1}", figures.gemm_peak_gflops)),
            (
                "peak memory, GiB",
                figures.peak_rss_bytes.map_or_else(|| "unknown".to_owned(), gibibytes),
            ),
            ("loss", format!("{:.4}", figures.loss)),
        ];
        let title = format!(
            "{}, {} x {} tokens, {} threads",
            figures.shape, figures.batch, figures.sequence_tokens, figures.threads
        );
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        terminal.table(&[&title, ""], &rows, 1)
    }
}

/// A model in training, with the batch that it sees in every step.
struct Load {
    model: Model,
    gradient: Parameters,
    optimizer: AdamW,
    workspace: Workspace,
    tokens: Vec<u32>,
    targets: Vec<u32>,
    starts: Vec<usize>,
}

impl Load {
    fn new(config: &ModelConfig, batch: usize, sequence_tokens: usize) -> Self {
        let config = ModelConfig {
            context_tokens: config.context_tokens.max(sequence_tokens),
            ..config.clone()
        };
        let parameters = Parameters::random(&config, 0);
        let layout = parameters.layout().clone();
        let draw = |task: u64| -> Vec<u32> {
            let mut draws = Key { task, ..Key::new(0, Purpose::Tasks) }.at(0);
            let vocabulary_size = config.vocabulary_size as u64;
            (0..batch * sequence_tokens).map(|_| draws.below(vocabulary_size) as u32).collect()
        };
        Self {
            gradient: Parameters::zeros(layout.clone()),
            optimizer: AdamW::for_parameters(&layout, AdamWOptions::default()),
            workspace: Workspace::new(),
            tokens: draw(0),
            targets: draw(1),
            starts: (0..=batch).map(|sequence| sequence * sequence_tokens).collect(),
            model: Model { config, parameters },
        }
    }

    /// Floating-point operations of a step.
    fn operations(&self) -> f64 {
        let lengths: Vec<usize> = self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gauge::step_operations(&self.model.config, &lengths, self.targets.len())
    }

    /// One step; gives the loss before it.
    fn step(&mut self, recompute: Recompute) -> anyhow::Result<f64> {
        let mut objective = CrossEntropy::new(self.targets.len() as f64);
        let packed = Packed { tokens: &self.tokens, starts: &self.starts, targets: &self.targets };
        forward_backward(
            Policy::new(&self.model),
            packed,
            StepOptions { recompute, ..StepOptions::default() },
            &mut objective,
            Gradient::Full(&mut self.gradient),
            &mut self.workspace,
        )?;
        let scale = clip_scale(global_norm(self.gradient.values()), 1.0);
        let values = self.model.parameters.values_mut();
        self.optimizer.step(values, self.gradient.values_mut(), 1e-3, scale);
        Ok(objective.loss())
    }
}

/// Most memory that this process held so far, where the system says it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}
