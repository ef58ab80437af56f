//! One look at a run, drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row as TableRow};
use ratatui::widgets::{Table, TableState, Wrap};

use super::state::{Curve, Look, Row, View};
use crate::terminal::plain;

const COLOURS: [Color; 2] = [Color::Cyan, Color::Yellow];

/// Draws a look.
pub(super) fn draw(frame: &mut Frame<'_>, look: &Look, view: &View) {
    let notices = u16::try_from(look.notices.len().min(3)).unwrap_or(3);
    let [status, told, curves, numbers, episodes, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(notices),
        Constraint::Length(14),
        Constraint::Length(2),
        Constraint::Min(5),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(status_line(look), status);
    let notices: Vec<Line<'_>> =
        look.notices.iter().take(3).map(|it| Line::from(plain(it))).collect();
    frame.render_widget(Paragraph::new(notices).style(Style::new().fg(Color::Yellow)), told);
    draw_curves(frame, look, curves);
    let text: Vec<String> =
        look.numbers.iter().map(|(name, value)| format!("{name} {value}")).collect();
    frame.render_widget(Paragraph::new(text.join(" · ")).wrap(Wrap { trim: true }), numbers);
    match &look.text {
        Some(text) => {
            let block = Block::bordered().title("episode · ↑↓ move · Enter closes it");
            frame.render_widget(
                Paragraph::new(plain(text))
                    .wrap(Wrap { trim: false })
                    .scroll((view.scroll, 0))
                    .block(block),
                episodes,
            );
        }
        None => draw_episodes(frame, look, view, episodes),
    }
    let help = "q end · ↑↓ choose · Enter show · ←→ step · l newest";
    frame.render_widget(Paragraph::new(help).style(Style::new().add_modifier(Modifier::DIM)), keys);
}

fn status_line(look: &Look) -> Paragraph<'_> {
    let overview = &look.overview;
    let colour = match overview.state {
        "running" | "finished" => Color::Green,
        "stopped" | "empty" => Color::Yellow,
        _ => Color::Red,
    };
    let steps = overview.steps.map(|steps| format!(" of {steps}")).unwrap_or_default();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (stage, stages) = overview.stage;
    Paragraph::new(Line::from(vec![
        Span::styled(&overview.name, bold),
        Span::raw("  "),
        Span::styled(overview.state, bold.fg(colour)),
        Span::raw(format!(
            "  stage {} of {}  step {}{steps}",
            stage + 1,
            stages.max(1),
            overview.step
        )),
    ]))
}

fn draw_curves(frame: &mut Frame<'_>, look: &Look, area: Rect) {
    if look.curves.is_empty() {
        return frame.render_widget(Paragraph::new("There are no metrics yet."), area);
    }
    let equal = vec![Constraint::Fill(1); look.curves.len()];
    let areas = Layout::horizontal(equal).split(area);
    for (curve, area) in look.curves.iter().zip(areas.iter()) {
        draw_curve(frame, curve, *area);
    }
}

fn draw_curve(frame: &mut Frame<'_>, curve: &Curve, area: Rect) {
    let points = || curve.lines.iter().flat_map(|(_, points)| points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::INFINITY, f64::min);
        let high = points().map(of).fold(f64::NEG_INFINITY, f64::max);
        if high > low { [low, high] } else { [low - 0.5, low + 0.5] }
    };
    let across = ends(|point| point.0);
    let mut up = ends(|point| point.1);
    if curve.is_share {
        up = [0.0, if up[1] > 0.6 { 1.0 } else { up[1].max(0.05) }];
    }
    let label = |value: f64| match curve.is_share {
        true => format!("{:.0}%", 100.0 * value),
        false => format!("{value:.1}"),
    };
    // A legend would cover the newest part of the curve.
    let newest = curve.lines.iter().zip(COLOURS).map(|((name, points), colour)| {
        let last = points.last().map(|point| label(point.1)).unwrap_or_default();
        Span::styled(format!(" {name} {last}"), Style::new().fg(colour))
    });
    let title: Line<'_> = std::iter::once(Span::raw(curve.title)).chain(newest).collect();
    let data = curve.lines.iter().zip(COLOURS).map(|((_, points), colour)| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(colour))
            .data(points)
    });
    let chart = Chart::new(data.collect())
        .block(Block::bordered().title(title))
        .x_axis(Axis::default().bounds(across).labels(across.map(|it| format!("{it:.0}"))))
        .y_axis(Axis::default().bounds(up).labels(up.map(label)));
    frame.render_widget(chart, area);
}

fn draw_episodes(frame: &mut Frame<'_>, look: &Look, view: &View, area: Rect) {
    let title = match look.step {
        Some(step) => format!("episodes of step {step}"),
        None => "no episodes yet".to_owned(),
    };
    let cells = |row: &Row| {
        let colour = if row.right { Color::Green } else { Color::Red };
        TableRow::new([
            format!("{}/{}", row.group, row.sample),
            if row.right { "✓ right".to_owned() } else { "✗ not right".to_owned() },
            if row.kept { "kept".to_owned() } else { format!("dropped: {}", plain(&row.cause)) },
            row.tokens.to_string(),
            row.calls.clone(),
            plain(&row.task).into_owned(),
        ])
        .style(Style::new().fg(colour))
    };
    let head = ["", "verdict", "fate", "tokens", "calls", "task"];
    let widths = [
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Length(26),
        Constraint::Length(7),
        Constraint::Length(22),
        Constraint::Fill(1),
    ];
    let table = Table::new(look.rows.iter().map(cells), widths)
        .header(TableRow::new(head).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(title));
    let chosen = (!look.rows.is_empty()).then_some(view.chosen);
    let mut state = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}
