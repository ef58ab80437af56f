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
/// Works over ssh. Keys: arrows or `j` and `k` choose an episode, Enter shows it, `n` and `p` go to the
/// next and previous step, `l` back to the newest, `q` ends.
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
    let look = Look::at(run, &view)?;
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
        let look = Look::at(run, &view)?;
        view.keep_within(&look);
        screen.draw(|frame| picture::draw(frame, &look, &view))?;
        if !event::poll(EACH)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match key.code {
            KeyCode::Char('q') => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Esc if view.is_open => view.is_open = false,
            KeyCode::Enter => view.is_open = !view.is_open,
            KeyCode::Down | KeyCode::Char('j') => view.chosen += 1,
            KeyCode::Up | KeyCode::Char('k') => view.chosen = view.chosen.saturating_sub(1),
            KeyCode::Char('n') | KeyCode::Right => view.step = look.next,
            KeyCode::Char('p') | KeyCode::Left => view.step = look.previous.or(view.step),
            KeyCode::Char('l') => view.step = None,
            _ => {}
        }
    }
}
