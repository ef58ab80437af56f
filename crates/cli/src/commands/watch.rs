//! `rocstar watch`: a run in the terminal, for where there is no browser.
//!
//! Invariant: what is drawn is read from the run's directory at each look; the terminal is given back
//! as it was, however the command ends.

mod picture;
mod state;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ratatui::Terminal as Screen;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rocstar_dash::Run;

use self::state::{Look, View};
use crate::failure::{Finish, HintExt as _};
use crate::terminal::Terminal;

/// Between two looks at the run.
const EACH: Duration = Duration::from_millis(500);
/// Columns and rows of a picture that is printed.
const PRINTED: (u16, u16) = (110, 44);

/// Watch a run in the terminal: status, curves and the last episodes
///
/// Works over ssh. Keys: arrows or `j` and `k` choose an episode, Enter shows it, and they and the keys
/// for pages move in it; `n` and `p` go to the next and previous step, `l` back to the newest, `q` ends.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The run's directory
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print one picture on standard output and end
    #[arg(long)]
    once: bool,
}

impl Watch {
    /// Runs the command.
    ///
    /// # Errors
    /// The run can't be read, or the terminal can't be drawn on.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let run = Run::open(&self.run)?;
        if self.once {
            return print(&run, terminal);
        }
        if !std::io::stdout().is_terminal() {
            let error = anyhow::anyhow!("standard output is no terminal");
            return Err(error.hint("print one picture with `--once`"));
        }
        let mut screen = ratatui::try_init()?;
        let watched = watch(&run, &mut screen);
        ratatui::try_restore()?;
        watched.map(|()| Finish::Good)
    }
}

fn print(run: &Run, terminal: Terminal) -> anyhow::Result<Finish> {
    let mut screen = Screen::new(TestBackend::new(PRINTED.0, PRINTED.1))?;
    let view = View::default();
    let look = Look::at(run, &view);
    screen.draw(|frame| picture::draw(frame, &look, &view))?;
    let buffer = screen.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(PRINTED.0)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text += line.trim_end();
        text.push('\n');
    }
    terminal.data(format!("{}\n", text.trim_end()).as_bytes())?;
    Ok(Finish::Good)
}

fn watch(run: &Run, screen: &mut ratatui::DefaultTerminal) -> anyhow::Result<()> {
    let mut view = View::default();
    loop {
        let look = Look::at(run, &view);
        view.keep_within(&look);
        screen.draw(|frame| picture::draw(frame, &look, &view))?;
        if !event::poll(EACH)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
        if is_interrupt || view.press(key.code, &look) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at a run of two steps, in which nothing is read.
    fn look(text: Option<String>) -> Look {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.toml"), "").unwrap();
        let run = Run::open(folder.path()).unwrap();
        // Metrics that can't be opened are told, and end nothing.
        std::fs::create_dir(folder.path().join("metrics.jsonl")).unwrap();
        let look = Look::at(&run, &View::default());
        assert!(look.notices.iter().any(|it| it.contains("metrics.jsonl")), "{:?}", look.notices);
        Look { next: Some(2), text, ..look }
    }

    fn drawn(look: &Look, view: &View) -> String {
        let mut screen = Screen::new(TestBackend::new(PRINTED.0, PRINTED.1)).unwrap();
        screen.draw(|frame| picture::draw(frame, look, view)).unwrap();
        let cells = screen.backend().buffer().content().iter();
        cells.map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn an_open_episode_is_read_to_its_end_and_the_choice_stays() {
        let text: String = (0..100).map(|line| format!("line {line}.\n")).collect();
        let (look, mut view) = (look(Some(text)), View::default());
        assert!(!view.press(KeyCode::Enter, &look) && view.is_open);
        view.press(KeyCode::Char('j'), &look);
        let picture = drawn(&look, &view);
        assert!(!picture.contains("line 0.") && picture.contains("line 1."), "{picture}");
        for _ in 0..50 {
            view.press(KeyCode::PageDown, &look);
            view.keep_within(&look);
        }
        assert!(drawn(&look, &view).contains("line 99."));
        assert_eq!((view.chosen, view.scroll), (0, 99));
        view.press(KeyCode::PageUp, &look);
        view.press(KeyCode::Char('k'), &look);
        assert_eq!(view.scroll, 86);
        view.press(KeyCode::Char('n'), &look);
        assert_eq!((view.step, view.scroll), (Some(2), 0));
        view.press(KeyCode::Esc, &look);
        view.press(KeyCode::Char('j'), &look);
        assert_eq!((view.is_open, view.chosen), (false, 1));
        assert!(view.press(KeyCode::Char('q'), &look));
    }
}
