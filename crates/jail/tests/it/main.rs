//! The jail through its public interface, on a real host. A host that can't isolate prints SKIP.

#![cfg(test)]

mod degraded;
mod files;
mod limits;
mod ordinary_user;
mod outcomes;
mod output;
mod recovery;
mod session_fork;
mod sessions;
mod state;

use std::sync::LazyLock;

use rocstar_jail::{Config, Control, Error, Jail, Limits, Outcome, Report, Request};

/// One jail for all tests of this process, with the system's Python and bare zygotes only.
fn jail() -> Option<&'static Jail> {
    static JAIL: LazyLock<Option<Jail>> = LazyLock::new(|| start(Config::default()));
    JAIL.as_ref()
}

/// A jail, or nothing (after a printed reason) where the host does not give the isolation.
fn start(config: Config) -> Option<Jail> {
    let config = Config { zygotes: 1, scientific: false, ..config };
    match Jail::start(config) {
        Ok(jail) => Some(jail),
        Err(error @ (Error::Isolation { .. } | Error::Python { .. })) => {
            println!("SKIP: {error}");
            None
        }
        Err(error) => panic!("the jail did not start: {error}"),
    }
}

fn run(jail: &Jail, request: &Request) -> Report {
    jail.run(request, &Control::default()).expect("a valid request")
}

fn run_with(jail: &Jail, program: &str, limits: Limits) -> Report {
    run(jail, &Request { limits, ..Request::new(program) })
}

/// Runs a program with the default limits and gives its outcome and standard output.
fn outcome(jail: &Jail, program: &str) -> (Outcome, String) {
    let report = run(jail, &Request::new(program));
    (report.outcome, report.stdout.text)
}
