//! Tells in the run's directory, about once a second, what the code environment does.
//!
//! Invariant: a run depends on nothing of this, and ends without waiting for it: what can't be
//! written is not told.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rocstar_record::run::SandboxFile;
use rocstar_rollout::Pulse;
use rocstar_sandbox::Sandbox;

use super::log::unix_s;

/// Between two looks.
const EACH: Duration = Duration::from_secs(1);

/// Looks as long as it lives, and once more at its end.
#[derive(Debug)]
pub(super) struct Watch {
    /// Dropped first: that ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at `sandbox`; does nothing where it is another process's.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn begin(file: SandboxFile, sandbox: &Arc<dyn Sandbox>) -> std::io::Result<Self> {
        if sandbox.now().is_none() {
            return Ok(Self { stop: None, thread: None });
        }
        let (stop, stopped) = mpsc::channel();
        let sandbox = Arc::clone(sandbox);
        let look = move || {
            let mut pulse = Pulse::default();
            let mut tell = || {
                if let Some(now) = sandbox.now() {
                    // A full disk fails the run by its metrics, with the reason.
                    let _ = file.write(&pulse.beat(&now, (unix_s() * 1_000.0) as u64));
                }
            };
            tell();
            while stopped.recv_timeout(EACH) == Err(RecvTimeoutError::Timeout) {
                tell();
            }
            tell();
        };
        let builder = std::thread::Builder::new().name("rocstar-watch".to_owned());
        Ok(Self { stop: Some(stop), thread: Some(builder.spawn(look)?) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there is no reason to fail the run.
            let _ = thread.join();
        }
    }
}
