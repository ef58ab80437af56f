//! An evaluation as the person sees it: a bar with the running score, its error and the time left, or
//! a line now and then; and the result.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rocstar_eval::report::EvalResult;
use rocstar_eval::run::Progress;
use rocstar_eval::suite::Suite;

use crate::commands::train::stop::Stop;
use crate::terminal::Terminal;

/// Least time between two lines where there is no bar.
const BETWEEN_LINES: Duration = Duration::from_secs(30);
/// How often it is looked whether the person wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows an evaluation on its way.
#[derive(Debug)]
pub(super) struct Show {
    suite: String,
    terminal: Terminal,
    bar: ProgressBar,
    /// When the last line was written; `None` before the first news.
    last: Mutex<Option<Instant>>,
}

impl Show {
    pub(super) fn new(suite: &Suite, terminal: Terminal) -> Self {
        let bar = terminal.bar("", 0);
        bar.set_message(suite.name.clone());
        Self { suite: suite.name.clone(), terminal, bar, last: Mutex::new(None) }
    }

    /// Shows how far it is.
    pub(super) fn progress(&self, progress: &Progress) {
        let score = progress.score.map_or_else(String::new, |score| {
            let error = score.standard_error.map(|error| format!(" ± {:.1}", error * 100.0));
            format!(" · {:.1} %{}", score.value * 100.0, error.unwrap_or_default())
        });
        let failed = match progress.failed {
            0 => String::new(),
            failed => format!(" · {failed} failed"),
        };
        let status = format!("{}{score}{failed}", self.suite);
        self.bar.set_length(progress.of as u64);
        self.bar.set_position(progress.ended as u64);
        self.bar.set_message(status.clone());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = *last else {
            // What earlier sessions made says nothing of the speed of this one.
            self.bar.reset_eta();
            *last = Some(Instant::now());
            return;
        };
        if !self.terminal.shows_bars() && since.elapsed() >= BETWEEN_LINES {
            *last = Some(Instant::now());
            let left = self.bar.eta().as_secs();
            let (ended, of) = (progress.ended, progress.of);
            self.terminal.note(format_args!("{status} · {ended}/{of} · about {left} s left"));
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Ends when the person asks to stop.
pub(super) async fn until_asked(stop: &Stop) {
    while !stop.is_asked() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Prints a result.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn result(result: &EvalResult, json: bool, terminal: Terminal) -> anyhow::Result<()> {
    if json {
        return terminal.json_line(result);
    }
    let rows: Vec<Vec<String>> =
        result.rows().into_iter().map(|(name, value)| vec![name, value]).collect();
    terminal.table(&[&result.protocol.suite.name, &result.protocol.model.name], &rows, 1)
}
