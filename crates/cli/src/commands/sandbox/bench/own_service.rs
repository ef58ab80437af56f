//! The service that the benchmark measures when it is given no URL: this very binary, serving in a
//! process of its own, so that its cost can be told from the client's.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::env_vars;
use crate::settings::SettingsOptions;

/// This very program, even where its file has been replaced since it started.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A running service. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct OwnService {
    process: Child,
    /// What it said when it was ready.
    pub(crate) ready: Ready,
}

/// The line that `rocstar sandbox serve --json` prints.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) url: String,
    pub(crate) isolation: Vec<String>,
    pub(crate) degraded: bool,
    pub(crate) python_version: String,
    /// As `name version`.
    pub(crate) packages: Vec<String>,
}

impl Ready {
    /// Whether programs can import `package`.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.packages.iter().any(|entry| entry.split(' ').next() == Some(package))
    }
}

impl OwnService {
    /// Starts `rocstar sandbox serve` with the same settings and waits until it answers.
    ///
    /// # Errors
    /// It does not start; the cause is what it said on standard error.
    pub(crate) fn start(settings: &SettingsOptions, more: &[&str]) -> anyhow::Result<Self> {
        let mut process = Command::new(OWN_PROGRAM)
            .args(["sandbox", "serve", "--json", "--no-progress", "--stop-with-input"])
            .args(settings.to_arguments())
            .args(more)
            // Last, so that nothing moves it away from a free port of the loopback address.
            .args(["--set", "listen=127.0.0.1:0"])
            .env_remove(env_vars::LISTEN)
            .env_remove(env_vars::TOKEN)
            // However this process ends, the pipe ends with it, and the service with the pipe.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("can't start the service")?;
        let stdout = process.stdout.take().context("the service has no standard output")?;
        let stderr = process.stderr.take().context("the service has no standard error")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            let mut said = String::new();
            BufReader::new(stderr).read_to_string(&mut said)?;
            process.wait()?;
            let error = said.lines().skip_while(|line| !line.starts_with("error: "));
            bail!("the service did not start: {}", error.collect::<Vec<_>>().join("\n"));
        }
        // Its notes are not of interest from here on, and a full pipe would block it.
        std::thread::spawn(move || std::io::copy(&mut { stderr }, &mut std::io::sink()));
        let ready = serde_json::from_str(&line).context("the service announced itself wrongly")?;
        Ok(Self { process, ready })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for OwnService {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // Only an error if it was waited for before.
        let _ = self.process.wait();
    }
}
