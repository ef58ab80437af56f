//! `rocstar sandbox bench`: measures a code environment over real HTTP, rocstar's or a peer's.
//!
//! Invariant: the server runs in a process of its own and every answer's text is checked, so a
//! figure never counts the client's work or a wrong answer.

mod case;
mod client;
mod load;
mod loops;
mod own_service;
mod summary;
mod usage;
mod wire;

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use self::case::Case;
use self::client::Target;
use self::load::{Finished, Load};
use self::own_service::OwnService;
use self::summary::{Summary, Used, to_ms};
use self::usage::{MemoryWatch, ProcessTree};
use self::wire::Api;
use crate::env_vars;
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::quantity::parse_duration;
use crate::settings::SettingsOptions;
use crate::terminal::Terminal;

/// Measure a code environment: rate, latency, CPU and memory
///
/// Without `--url` it starts its own service in another process and speaks to it over HTTP on the
/// loopback address. Exit status 0 if every call was answered with the right text, or else 1.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to run
    #[arg(long, value_enum, default_value_t = Case::Trivial)]
    case: Case,
    /// Server to measure, `http://HOST:PORT`
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// API that the server speaks
    #[arg(long, value_enum, default_value_t = Api::Native)]
    api: Api,
    /// Bearer token for `--url`
    #[arg(long, value_name = "TOKEN", env = env_vars::TOKEN, hide_env_values = true)]
    token: Option<String>,
    /// Number of calls [default: a few seconds' worth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    calls: Option<u32>,
    /// Requests under way at once [default: 32, or 1 with `--batch`]; 1 measures the idle latency
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    in_flight: Option<u32>,
    /// Send the calls in batches of this size
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u32).range(1..=45_000))]
    batch: Option<u32>,
    /// Send this many calls at once, in one batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=45_000))]
    #[arg(conflicts_with_all = ["calls", "in_flight", "batch"])]
    burst: Option<u32>,
    /// With `--url`: a process of the server on this machine, whose CPU and memory (with its
    /// descendants') are measured; may be repeated
    #[arg(long = "pid", value_name = "PID", requires = "url")]
    pids: Vec<u32>,
    /// Count a call as lost after this long without an answer
    #[arg(long, value_name = "TIME", default_value = "30min", value_parser = parse_duration)]
    patience: Duration,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsOptions,
}

impl Bench {
    /// Runs the command.
    ///
    /// # Errors
    /// The server can't be started or reached.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let load = self.load()?;
        let own = match &self.url {
            Some(_) => None,
            None => Some(self.start_own(terminal)?),
        };
        let (target, tree) = match (&self.url, &own) {
            (None, Some(own)) => {
                (Target::new(&own.ready.url, None)?, Some(ProcessTree::of(vec![own.pid()])))
            }
            (url, _) => {
                let url = url.as_deref().unwrap_or_default();
                let tree = (!self.pids.is_empty()).then(|| ProcessTree::of(self.pids.clone()));
                (Target::new(url, self.token.clone())?, tree)
            }
        };
        // One thread: the client is to leave the cores to the server.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (finished, used) = runtime.block_on(measure(&load, &target, tree, terminal))?;
        let mut summary = Summary {
            case: self.case.name(),
            api: self.api.name(),
            url: self.url.clone(),
            load: self.describe(&load),
            isolation: own.as_ref().map(|own| own.ready.isolation.clone()),
            degraded: own.as_ref().map(|own| own.ready.degraded),
            ..Summary::new(&finished, used)
        };
        drop(own);
        if self.case == Case::Loop && self.url.is_none() {
            summary.slot_free_ms = Some(to_ms(runtime.block_on(loops::slot_free(&self.settings))?));
        }
        self.print(&summary, terminal)?;
        Ok(Finish::from_good(summary.ok == summary.calls))
    }

    fn load(&self) -> anyhow::Result<Load> {
        let batch = self.burst.or(self.batch);
        if batch.is_some() && self.api.batch_path().is_none() {
            return Err(WrongUse::error(format!("{} has no batch route", self.api.name())))
                .hint("use `--in-flight N`");
        }
        let calls = self
            .burst
            .or(self.calls)
            .map_or_else(|| self.case.default_calls(), |calls| calls as usize);
        let in_flight = self.in_flight.unwrap_or_else(|| if batch.is_some() { 1 } else { 32 });
        Ok(Load {
            api: self.api,
            case: self.case,
            calls,
            in_flight: in_flight as usize,
            batch: batch.map(|size| size as usize),
            patience: self.patience,
        })
    }

    fn start_own(&self, terminal: Terminal) -> anyhow::Result<OwnService> {
        let spinner = terminal.spinner("starting the service");
        let own = OwnService::start(&self.settings, &[]);
        spinner.finish_and_clear();
        let own = own?;
        terminal
            .note(format_args!("service: {}, python {}", own.ready.url, own.ready.python_version));
        if own.ready.degraded {
            terminal.note("DEGRADED: a required isolation layer is missing; see `rocstar doctor`");
        }
        if let Some(missing) = self.case.packages().iter().find(|name| !own.ready.has(name)) {
            let error = anyhow::anyhow!(
                "`--case {}` needs {missing}, and CPython {} has none",
                self.case.name(),
                own.ready.python_version
            );
            return Err(error.hint("`rocstar sandbox setup` builds an environment that has it"));
        }
        Ok(own)
    }

    fn describe(&self, load: &Load) -> String {
        let shape = match (self.burst, load.batch) {
            (Some(calls), _) => format!("one burst of {calls}"),
            (None, Some(size)) => format!("batches of {size}, {} at once", load.in_flight),
            (None, None) => format!("{} in flight", load.in_flight),
        };
        match self.case {
            Case::Loop => format!("{shape}, behind {} infinite loops", loops::LOOPS),
            Case::Trivial | Case::Science | Case::Mix => shape,
        }
    }

    fn print(&self, summary: &Summary, terminal: Terminal) -> anyhow::Result<()> {
        if let Some(problem) = &summary.first_problem {
            terminal.note(format_args!("first problem: {problem}"));
        }
        if self.json {
            return terminal.json(summary);
        }
        let title = format!("{}, {}, {}", summary.case, summary.api, summary.load);
        terminal.table(&[&title, ""], &summary.rows(), 1)
    }
}

/// Warms the server up, then runs the load and takes the cost of exactly that.
async fn measure(
    load: &Load,
    target: &Target,
    tree: Option<ProcessTree>,
    terminal: Terminal,
) -> anyhow::Result<(Finished, Used)> {
    let warm_up = Load { calls: load.in_flight.min(load.calls), batch: None, ..*load };
    warm_up.run(target, "warm-up", &|_| {}).await?;
    let bar = terminal.bar("measuring", load.calls as u64);
    let watch = tree.clone().map(MemoryWatch::start);
    let server_before = tree.as_ref().and_then(ProcessTree::cpu_ms);
    let client_before = usage::own_cpu_ms();
    let finished = run_load(load, target, &bar).await;
    let client_after = usage::own_cpu_ms();
    let server_after = tree.as_ref().and_then(ProcessTree::cpu_ms);
    // Behind infinite loops the server's CPU time is theirs.
    let countable = load.case != Case::Loop;
    let used = Used {
        cpu_ms: difference(server_before, server_after).filter(|_| countable),
        client_cpu_ms: difference(client_before, client_after),
        peak_rss_bytes: watch.and_then(MemoryWatch::peak_bytes),
        server_peak_rss_bytes: tree.as_ref().and_then(ProcessTree::root_peak_bytes),
    };
    bar.finish_and_clear();
    Ok((finished?, used))
}

/// Unknown where either end is, or where a process left the tree in between and took its time along.
fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

async fn run_load(load: &Load, target: &Target, bar: &ProgressBar) -> anyhow::Result<Finished> {
    let progress = |calls| bar.inc(calls);
    match load.case {
        Case::Loop => loops::run(load, target, &progress).await,
        Case::Trivial | Case::Science | Case::Mix => load.run(target, "bench", &progress).await,
    }
}
