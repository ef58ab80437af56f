//! The local service against a live jail: what callers see, and that the books add up.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the helpers of tests are tests: they fail by panicking and say why they skip"
)]

use std::time::Duration;

use rocstar_sandbox::jail::{self, Report, Request};
use rocstar_sandbox::{
    ClientId, Error, LocalSandbox, Result, Sandbox, Schedule, ServiceConfig, Stats,
};

mod batches;
mod calls;
mod fairness;
mod helpers_killed;
mod judging;
mod mcp;
mod sessions;
mod shutdown;
mod storm;

/// A program that ends only when it is made to.
const LOOP: &str = "while True:\n    pass";

/// A configuration that starts quickly: no scientific interpreter, few slots.
fn small() -> ServiceConfig {
    ServiceConfig {
        jail: jail::Config { slots: 8, scientific: false, ..jail::Config::default() },
        ..ServiceConfig::default()
    }
}

/// One call at a time, and a running one keeps its turn.
fn one_at_a_time() -> ServiceConfig {
    let mut config = small();
    config.active_calls = 1;
    config.jail.turn_ms = 3_600_000;
    config
}

/// Starts the service, or says why this host can't run it.
fn start(config: ServiceConfig) -> Option<LocalSandbox> {
    match LocalSandbox::start(config) {
        Ok(sandbox) => Some(sandbox),
        Err(Error::Jail(jail::Error::Isolation { lacks })) => {
            println!("SKIP: {lacks}");
            None
        }
        Err(error) => panic!("the service does not start: {error}"),
    }
}

fn client(name: &str) -> ClientId {
    ClientId::new(name)
}

/// Runs a program for a client that nobody else is.
async fn run(sandbox: &LocalSandbox, program: &str) -> Result<Report> {
    sandbox.execute(&client("someone"), Request::new(program), Schedule::default()).await
}

/// A call that ends only when it is made to, with a limit that no test reaches.
fn endless() -> Request {
    let limits =
        jail::Limits { wall_ms: Some(600_000), cpu_ms: Some(600_000), ..Default::default() };
    Request { limits, ..Request::new(LOOP) }
}

/// Waits until the counts are as wanted. The runner of the tests limits how long that may take.
async fn until(sandbox: &LocalSandbox, wanted: impl Fn(&Stats) -> bool) -> Stats {
    loop {
        let stats = sandbox.stats();
        let in_books = stats.answered + stats.cancelled + stats.queued + stats.running;
        assert_eq!(stats.accepted, in_books, "{stats:?}");
        if wanted(&stats) {
            return stats;
        }
        tokio::task::yield_now().await;
    }
}

/// A wait that no test is meant to sit out.
const LONG: Duration = Duration::from_secs(600);
