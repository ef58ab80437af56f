//! A code environment of this process's own: started, announced, served over HTTP, stopped.
//!
//! Invariant: the listener is bound before anything slow starts, an address that other machines
//! reach needs a token unless that was waived, and a stop answers or counts every accepted call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rocstar_jail::Effective;
use rocstar_sandbox::http;
use rocstar_sandbox::{LocalSandbox, Sandbox as _};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{HintExt as _, WrongUse};
use crate::settings::{SandboxOptions, Settings};
use crate::terminal::Terminal;

/// Files that a busy service has open: a connection and a few pipes for each running call.
const WANTED_OPEN_FILES: u64 = 65_536;

/// What a started service says of itself; `serve --json` prints it as one line.
#[derive(Debug, Serialize)]
pub(crate) struct Announcement {
    /// Where it listens.
    pub(crate) url: String,
    /// Its process id.
    pub(crate) pid: u32,
    /// The interpreter that runs programs.
    pub(crate) python: String,
    pub(crate) python_version: String,
    pub(crate) packages: Vec<String>,
    /// Names of the isolation layers that hold.
    pub(crate) isolation: Vec<String>,
    pub(crate) degraded: bool,
}

/// Starts the service's code environment on the calling thread. It has to be the main thread: the
/// kernel ties "ends with its parent" to the *thread* that started a process.
///
/// # Errors
/// The interpreter does not start, or a required isolation layer is missing.
pub(crate) fn start(
    runtime: &Runtime,
    settings: &Settings,
    terminal: Terminal,
) -> anyhow::Result<Arc<LocalSandbox>> {
    raise_open_files();
    let _context = runtime.enter();
    let bar = terminal.spinner("warming the interpreters");
    let started = LocalSandbox::start(settings.service.clone());
    bar.finish_and_clear();
    Ok(Arc::new(started?))
}

/// Starts the code environment of a command that runs programs itself, and notes what isolates them.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_for_run(
    runtime: &Runtime,
    options: &SandboxOptions,
    terminal: Terminal,
) -> anyhow::Result<(Arc<LocalSandbox>, Effective)> {
    let sandbox = start(runtime, &options.resolve()?, terminal)?;
    let effective = runtime.block_on(sandbox.effective())?;
    note_effective(&effective, terminal);
    Ok((sandbox, effective))
}

/// Notes which Python runs the programs and what isolates them.
pub(crate) fn note_effective(effective: &Effective, terminal: Terminal) {
    terminal.note(format_args!("python:    {} at {}", effective.python_version, effective.python));
    terminal.note(format_args!("packages:  {}", packages(effective)));
    terminal.note(format_args!("isolation: {}", effective.held().join(", ")));
    if effective.degraded {
        terminal.note("DEGRADED:  a required isolation layer is missing; see `rocstar doctor`");
    }
}

fn packages(effective: &Effective) -> String {
    if effective.packages.is_empty() {
        "the standard library only; `rocstar sandbox setup` adds numpy, sympy and others".to_owned()
    } else {
        effective.packages.join(", ")
    }
}

/// A runtime for a service, with the default number of threads: one a core.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no async runtime")
}

/// What tells a service to stop, beside SIGINT and SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopOn {
    /// Nothing else.
    Signals,
    /// The end of standard input: whoever holds its other end is gone.
    EndOfInput,
}

/// Binds the address and serves until it is told to stop. `announce` is called when requests are
/// answered.
///
/// # Errors
/// The address is refused or taken, or the code environment does not start.
pub(crate) fn serve(
    settings: &Settings,
    terminal: Terminal,
    stop_on: StopOn,
    announce: impl FnOnce(&Announcement) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let listener = runtime.block_on(bind(Address {
        listen: &settings.listen,
        has_token: settings.http.token.is_some(),
        allow_public_without_token: settings.allow_public_without_token,
    }))?;
    let address = listener.local_addr()?;
    let sandbox = start(&runtime, settings, terminal)?;
    let finished = runtime.block_on(async {
        let effective = sandbox.effective().await?;
        note_effective(&effective, terminal);
        // Before the announcement: whoever reads it may send a signal at once.
        let stops = Stops::new(stop_on)?;
        announce(&Announcement {
            url: format!("http://{address}"),
            pid: std::process::id(),
            isolation: effective.held(),
            python: effective.python,
            python_version: effective.python_version,
            packages: effective.packages,
            degraded: effective.degraded,
        })?;
        until_stopped(listener, &sandbox, settings, stops, terminal).await
    });
    // A second signal leaves threads inside running calls: the process does not wait for them.
    runtime.shutdown_background();
    finished
}

/// Everything that may tell the service to stop.
#[derive(Debug)]
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    stop_on: StopOn,
}

impl Stops {
    /// Listens for signals from now on.
    ///
    /// # Errors
    /// The system gives no signal handlers.
    pub(crate) fn new(stop_on: StopOn) -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())?, stop_on })
    }

    /// Waits for the next; the end of input counts once.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = end_of_input(), if self.stop_on == StopOn::EndOfInput => {
                self.stop_on = StopOn::Signals;
            }
        }
    }
}

async fn end_of_input() {
    // What arrives is of no interest, and an input that can't be read has ended too.
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
}

async fn until_stopped(
    listener: TcpListener,
    sandbox: &Arc<LocalSandbox>,
    settings: &Settings,
    mut stops: Stops,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let server = http::serve(listener, Arc::clone(sandbox), settings.http.clone(), stop.clone());
    let grace = Duration::from_millis(settings.shutdown_grace_ms);
    let told_to_stop = async {
        stops.next().await;
        terminal.note(format_args!(
            "stopping: running calls have up to {} s; a second signal stops at once",
            grace.as_secs_f64()
        ));
        stop.cancel();
        let stats = tokio::select! {
            stats = sandbox.shutdown(grace) => Some(stats),
            () = stops.next() => None,
        };
        stats.ok_or_else(|| StoppedAtOnce.into())
    };
    let served = async { server.await.context("the HTTP server failed") };
    // Both run to their end: the server answers what is open while the calls finish.
    let ((), stats) = tokio::try_join!(served, told_to_stop)?;
    terminal.note(format_args!(
        "stopped: {} calls accepted, {} answered, {} cancelled",
        stats.accepted, stats.answered, stats.cancelled
    ));
    Ok(())
}

/// The person did not want to wait.
#[derive(Debug, thiserror::Error)]
#[error("stopped at once; running calls were ended")]
pub(crate) struct StoppedAtOnce;

/// Where to listen, and what is known of who may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address<'a> {
    /// `HOST:PORT`.
    pub(crate) listen: &'a str,
    /// Clients must send a token.
    pub(crate) has_token: bool,
    /// Other machines may come without one.
    pub(crate) allow_public_without_token: bool,
}

/// Listens.
///
/// # Errors
/// The address is none, is taken, or is open to other machines without a token.
pub(crate) async fn bind(address: Address<'_>) -> anyhow::Result<TcpListener> {
    let Address { listen, has_token, allow_public_without_token } = address;
    bind_for(
        listen,
        has_token || allow_public_without_token,
        "no token is set: set one with `ROCSTAR_TOKEN` or `--token`; or serve everybody who reaches \
         the port with `--allow-public-without-token`",
    )
    .await
}

/// Listens, on an address that other machines reach only where `may_be_public`; `hint` says how it
/// may.
///
/// # Errors
/// The address is none, is taken, or is open to other machines and may not be.
pub(crate) async fn bind_for(
    listen: &str,
    may_be_public: bool,
    hint: &str,
) -> anyhow::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(listen)
        .await
        .map_err(|error| WrongUse::error(format!("{error}")))
        .hint("write `HOST:PORT`, such as `127.0.0.1:8088`")
        .with_context(|| format!("can't listen on `{listen}`"))?
        .collect();
    let public = addresses.iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = public.filter(|_| !may_be_public) {
        return Err(WrongUse::error(format!("other machines can reach {address}"))).hint(hint);
    }
    TcpListener::bind(addresses.as_slice())
        .await
        .with_context(|| format!("can't listen on `{listen}`"))
}

/// Lifts the soft limit on open files towards what a busy service needs, as far as the hard one
/// lets it.
pub(crate) fn raise_open_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED_OPEN_FILES, |hard| hard.min(WANTED_OPEN_FILES));
    if limit.current.is_some_and(|soft| soft < wanted) {
        let raised = rustix::process::Rlimit { current: Some(wanted), maximum: limit.maximum };
        // Raising a soft limit to at most the hard one is always allowed; and if it failed, the
        // service would meet the old limit and say so in the calls that it affects.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }
}
