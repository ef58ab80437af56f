//! What the person sees: data on standard output, notes and progress on standard error.
//!
//! Invariant: nothing else in this crate writes to the terminal, except the error renderer. Colour
//! and bars are left out where standard error is no terminal or the person said so (`NO_COLOR`,
//! `--no-progress`); notes are always whole lines.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::ClosedOutput;

/// Text of others without what would steer a terminal: a model, its program or a server may write
/// anything.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let steers = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|letter| if steers(letter) { '·' } else { letter }).collect())
}

/// Where and how to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    bars: bool,
}

impl Terminal {
    /// `progress` is what the person wants; no terminal means no bars.
    pub(crate) fn new(progress: bool) -> Self {
        Self { bars: progress && std::io::stderr().is_terminal() }
    }

    /// Whether bars are drawn.
    pub(crate) const fn shows_bars(self) -> bool {
        self.bars
    }

    /// One line on standard error. What others wrote goes through [`plain`] first.
    pub(crate) fn note(self, line: impl Display) {
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(anstream::stderr(), "{line}");
    }

    /// Bytes on standard output, as they are.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(crate) fn data(self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ClosedOutput.into()),
            other => Ok(other?),
        }
    }

    /// A program's own output, each stream where the program meant it to go.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(crate) fn pass_through(self, stdout: &[u8], stderr: &[u8]) -> anyhow::Result<()> {
        // A closed standard error leaves nobody to tell.
        let _ = std::io::stderr().lock().write_all(stderr);
        self.data(stdout)
    }

    /// A value as readable JSON on standard output.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(crate) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.data(&text)
    }

    /// A value as one line of JSON on standard output, for programs that read line by line.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(crate) fn json_line(self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.data(&text)
    }

    /// A table on standard output; columns from `first_number` on are numbers.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(crate) fn table(
        self,
        head: &[&str],
        rows: &[Vec<String>],
        first_number: usize,
    ) -> anyhow::Result<()> {
        self.data(Self::table_text(head, rows, first_number).as_bytes())
    }

    /// The same table as text; cells are [`plain`].
    pub(crate) fn table_text(head: &[&str], rows: &[Vec<String>], first_number: usize) -> String {
        let mut table = Table::new();
        let rows = rows.iter().map(|row| row.iter().map(|cell| plain(cell)));
        table.load_style(presets::NOTHING).set_header(head).add_rows(rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if index >= first_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{}\n", table.trim_fmt())
    }

    /// A bar for `total` steps that shows the time left.
    pub(crate) fn bar(self, title: &'static str, total: u64) -> ProgressBar {
        self.styled(title, total, "{msg} {wide_bar} {pos}/{len} · {eta} left")
    }

    /// A bar for `total` bytes that shows the time left.
    pub(crate) fn byte_bar(self, title: &'static str, total: u64) -> ProgressBar {
        self.styled(title, total, "{msg} {wide_bar} {bytes}/{total_bytes} · {eta} left")
    }

    /// A bar below lines of text, which are its message.
    pub(crate) fn block(self, text: &'static str, total: u64) -> ProgressBar {
        self.styled(text, total, "{msg}\n{wide_bar} {pos}/{len}")
    }

    /// A sign of life for a wait of unknown length.
    pub(crate) fn spinner(self, title: &'static str) -> ProgressBar {
        self.styled(title, 0, "{spinner} {msg} · {elapsed}")
    }

    fn styled(self, title: &'static str, total: u64, template: &str) -> ProgressBar {
        let target =
            if self.bars { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(title);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if self.bars {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        bar
    }
}
