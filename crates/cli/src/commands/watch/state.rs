//! What is known of the run at one look, and what the person chose to see of it.

use ratatui::crossterm::event::KeyCode;
use rocstar_dash::Run;
use rocstar_dash::episode::Place;
use rocstar_dash::run::Overview;
use rocstar_dash::sketch::{EpisodeSketch, outcome};
use rocstar_dash::step::cause;

/// Episodes of a step that are listed.
const MOST_ROWS: usize = 400;

/// A run at one look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) overview: Overview,
    /// Each a name, and its course over the steps.
    pub(super) curves: Vec<Curve>,
    /// Numbers of the last step.
    pub(super) numbers: Vec<(String, String)>,
    /// The step whose episodes are listed, and those around it.
    pub(super) step: Option<u64>,
    pub(super) previous: Option<u64>,
    pub(super) next: Option<u64>,
    pub(super) rows: Vec<Row>,
    pub(super) notices: Vec<String>,
    /// The text of the chosen episode, where it is open.
    pub(super) text: Option<String>,
}

/// A curve.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) title: &'static str,
    pub(super) is_share: bool,
    pub(super) lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// An episode in the list.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) group: u64,
    pub(super) sample: u32,
    pub(super) task: String,
    pub(super) kept: bool,
    pub(super) right: bool,
    pub(super) tokens: usize,
    pub(super) calls: String,
    pub(super) cause: String,
}

/// What the person chose.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The step; `None` for the newest.
    pub(super) step: Option<u64>,
    pub(super) chosen: usize,
    pub(super) is_open: bool,
    /// Lines of the open episode that are above what is shown.
    pub(super) scroll: u16,
}

/// Lines that a key for a page moves.
const PAGE: u16 = 12;
/// Columns that a line of text has at least before it goes on in the next.
const NARROWEST: usize = 40;

impl View {
    pub(super) fn keep_within(&mut self, look: &Look) {
        self.chosen = self.chosen.min(look.rows.len().saturating_sub(1));
        let lines = look.text.iter().flat_map(|text| text.lines());
        let lines: usize = lines.map(|line| 1 + line.chars().count() / NARROWEST).sum();
        self.scroll = self.scroll.min(u16::try_from(lines.saturating_sub(1)).unwrap_or(u16::MAX));
    }

    /// Does what a key says; whether it says to end.
    pub(super) fn press(&mut self, key: KeyCode, look: &Look) -> bool {
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Esc => (self.is_open, self.scroll) = (false, 0),
            KeyCode::Enter => (self.is_open, self.scroll) = (!self.is_open, 0),
            KeyCode::Down | KeyCode::Char('j') => self.go_down(1),
            KeyCode::Up | KeyCode::Char('k') => self.go_up(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go_down(PAGE),
            KeyCode::PageUp => self.go_up(PAGE),
            KeyCode::Char('n') | KeyCode::Right => self.go_to(look.next),
            KeyCode::Char('p') | KeyCode::Left => self.go_to(look.previous.or(self.step)),
            KeyCode::Char('l') => self.go_to(None),
            _ => {}
        }
        false
    }

    /// In the text of the open episode, or in the list.
    fn go_down(&mut self, lines: u16) {
        if self.is_open {
            self.scroll = self.scroll.saturating_add(lines);
        } else {
            self.chosen = self.chosen.saturating_add(lines.into());
        }
    }

    fn go_up(&mut self, lines: u16) {
        if self.is_open {
            self.scroll = self.scroll.saturating_sub(lines);
        } else {
            self.chosen = self.chosen.saturating_sub(lines.into());
        }
    }

    fn go_to(&mut self, step: Option<u64>) {
        (self.step, self.scroll) = (step, 0);
    }
}

/// A chart's title, whether it shows shares, and its lines: kind, metric, name.
type Drawn = (&'static str, bool, &'static [(&'static str, &'static str, &'static str)]);

const CURVES: [Drawn; 4] = [
    (
        "accuracy",
        true,
        &[("rl_step", "accuracy", "rollouts"), ("rl_evaluation", "accuracy", "held out")],
    ),
    (
        "failed calls",
        true,
        &[("rl_step", "tool_error_share", "all"), ("rl_step", "tool_error_share_right", "right")],
    ),
    ("response tokens", false, &[("rl_step", "response_tokens_mean", "mean")]),
    ("loss", false, &[("sft_step", "loss", "step"), ("sft_evaluation", "loss", "evaluation")]),
];

const NUMBERS: [&str; 8] = [
    "reward_mean",
    "groups_used",
    "entropy_mean",
    "gradient_norm",
    "mismatch_kl",
    "truncated_share",
    "tokens_per_s",
    "seconds",
];

impl Look {
    /// The run now, as far as `view` wants to see it. What can't be read now is among its notices, and
    /// may be read at the next look.
    pub(super) fn at(run: &Run, view: &View) -> Self {
        let overview = run.overview(None);
        // It tells why metrics can't be read.
        let mut notices = overview.notices.clone();
        let curves = curves(run).unwrap_or_default();
        let numbers = numbers(run).unwrap_or_default();
        let steps = run.reader().episode_steps().unwrap_or_default();
        let shown = view.step.filter(|step| steps.contains(step)).or_else(|| steps.last().copied());
        let at = shown.and_then(|step| steps.iter().position(|known| *known == step));
        let neighbour = |at: Option<usize>| at.and_then(|at| steps.get(at)).copied();
        let rows = match shown.map(|step| rows(run, step)) {
            Some(Ok(rows)) => rows,
            Some(Err(error)) => {
                notices.push(error.to_string());
                Vec::new()
            }
            None => Vec::new(),
        };
        let mut look = Self {
            overview,
            curves,
            numbers,
            step: shown,
            previous: neighbour(at.and_then(|at| at.checked_sub(1))),
            next: neighbour(at.map(|at| at + 1)),
            rows,
            notices,
            text: None,
        };
        if view.is_open {
            look.text = look.text_of(run, view.chosen);
        }
        look
    }

    /// The text of the episode in this row.
    fn text_of(&self, run: &Run, row: usize) -> Option<String> {
        let (step, row) = (self.step?, self.rows.get(row)?);
        let place = Place::Step { step, group: row.group };
        let found = place.find(run, row.sample);
        Some(match found {
            Ok(found) => found.view(run, &place).to_text(),
            Err(error) => error.to_string(),
        })
    }
}

fn curves(run: &Run) -> Result<Vec<Curve>, rocstar_dash::Error> {
    let read = run.curves()?;
    let all = CURVES.into_iter().filter_map(|(title, is_share, lines)| {
        let lines = lines.iter().filter_map(|(kind, metric, name)| {
            let rows = read.rows(kind)?;
            let column = rows.columns.get(*metric)?;
            let points = rows.steps.iter().zip(column).filter(|(_, value)| value.is_finite());
            let points: Vec<_> = points.map(|(step, value)| (*step as f64, *value)).collect();
            (!points.is_empty()).then_some((*name, points))
        });
        let lines: Vec<_> = lines.collect();
        (!lines.is_empty()).then_some(Curve { title, is_share, lines })
    });
    Ok(all.take(3).collect())
}

fn numbers(run: &Run) -> Result<Vec<(String, String)>, rocstar_dash::Error> {
    let read = run.curves()?;
    let Some(rows) = read.main_kind().and_then(|kind| read.rows(kind)) else {
        return Ok(Vec::new());
    };
    let number = |name: &&str| {
        let value = rows.last(name)?;
        let text = if name.ends_with("share") {
            format!("{:.1} %", 100.0 * value)
        } else if value != 0.0 && value.abs() < 1e-3 {
            format!("{value:.1e}")
        } else {
            format!("{value:.3}")
        };
        Some((name.replace('_', " "), text))
    };
    Ok(NUMBERS.iter().filter_map(number).collect())
}

fn rows(run: &Run, step: u64) -> Result<Vec<Row>, rocstar_dash::Error> {
    let read = run.step(step)?;
    let mut rows = Vec::new();
    for (number, group) in (0..).zip(&read.groups) {
        let row = |episode: &EpisodeSketch, kept: bool, cause: String| Row {
            group: number,
            sample: episode.sample,
            task: group.task.0.clone(),
            kept,
            right: episode.is_right(),
            tokens: episode.response_tokens(),
            calls: episode
                .calls()
                .map(|call| outcome(&call.outcome).0)
                .collect::<Vec<_>>()
                .join(" "),
            cause,
        };
        let kept = group.kept.iter().map(|it| row(&it.episode, true, String::new()));
        let dropped = group
            .dropped
            .iter()
            .map(|it| row(&it.episode, false, cause(&it.cause).replace('_', " ")));
        rows.extend(kept.chain(dropped));
        if rows.len() >= MOST_ROWS {
            break;
        }
    }
    rows.sort_by_key(|row| (row.group, row.sample));
    Ok(rows)
}
