//! Ctrl-C: the first asks the run to save its state and stop, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Whether the person asked the run to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// Exit status of a process that SIGINT ended, by the rule of shells.
const INTERRUPTED: i32 = 130;

impl Stop {
    /// Listens to SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// The system gives no thread or no signals.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no async runtime")?;
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let flag = Arc::clone(&asked);
        let listen = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if flag.swap(true, Ordering::Relaxed) {
                    end_at_once();
                }
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listen))
            .context("no thread for signals")?;
        Ok(Self(asked))
    }

    /// Whether the first signal has come.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is being written is under another name until it is whole, so nothing needs to be put right.
#[expect(clippy::exit, reason = "the thread that trains can't be interrupted")]
fn end_at_once() {
    std::process::exit(INTERRUPTED);
}
