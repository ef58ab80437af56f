//! The report as Markdown, to paste into an issue.

use std::fmt::Write as _;

use super::{OfRun, Panel, Report, number};

/// Points of a curve that its table shows.
const COLUMNS: usize = 8;

/// The text.
pub(super) fn text(report: &Report) -> String {
    let names: Vec<String> = report.runs.iter().map(|run| cell(&run.name)).collect();
    let mut text = format!(
        "# {}\n\n## Results\n\n| run | state | selection | seed | held-out before | held-out after | \
         last step's accuracy | failed calls in right episodes | response tokens | time |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        names.join(", ")
    );
    for run in &report.runs {
        let results = &run.results;
        let _ = writeln!(
            text,
            "| {} | {}, step {} | {} |",
            cell(&run.name),
            run.state,
            run.step,
            results.cells().map(|it| cell(&it)).join(" | "),
        );
    }
    for run in &report.runs {
        for notice in &run.notices {
            let _ = write!(text, "\n> {}: {}\n", cell(&run.name), cell(notice));
        }
    }
    text += "\n## Curves\n";
    report.panels.iter().for_each(|panel| curve(&mut text, panel, report));
    report.runs.iter().for_each(|run| of_run(&mut text, run));
    text
}

fn curve(text: &mut String, panel: &Panel, report: &Report) {
    let _ = write!(text, "\n{} ({}): {}\n\n", panel.name, panel.unit, panel.meaning);
    for line in &panel.lines {
        let each = line.points.len().div_ceil(COLUMNS).max(1);
        let mut points: Vec<&(f64, f64)> = line.points.iter().step_by(each).collect();
        let last = line.points.last();
        if points.last().copied() != last {
            points.extend(last);
        }
        let name = report.runs.get(line.run).map_or_else(String::new, |run| cell(&run.name));
        let row = |of: fn(&(f64, f64)) -> f64| -> String {
            points.iter().map(|point| format!(" {} |", number(of(point)))).collect()
        };
        let _ = write!(
            text,
            "| step |{}\n|---|{}\n| {name} |{}\n\n",
            row(|point| point.0),
            "---|".repeat(points.len()),
            row(|point| point.1)
        );
    }
}

fn of_run(text: &mut String, run: &OfRun) {
    let _ = write!(text, "\n## {}\n", cell(&run.name));
    for episode in &run.episodes {
        let _ = write!(
            text,
            "\n### {}: step {}, {}, sample {}\n\n{}\n",
            episode.why,
            episode.step,
            cell(&episode.task),
            episode.sample,
            cell(&episode.problem)
        );
        for part in &episode.parts {
            let language = if part.is_code && part.name == "program" { "python" } else { "text" };
            let _ = write!(text, "\n{}\n\n{}\n", cell(&part.name), fenced(&part.text, language));
        }
        let _ = write!(text, "\n{} (right is {})\n", cell(&episode.verdict), cell(&episode.answer));
    }
    let _ = write!(text, "\n### Settings\n\n{}\n", fenced(&run.config, "toml"));
    let environment = super::html::in_short(run.environment.as_ref());
    let _ = write!(text, "\n### Environment\n\n{}\n", cell(&environment));
}

/// Text within a line: no letter of it starts markup or ends a cell, lists at a line's begin apart.
///
/// A `_` between letters stays as it is, for it is no markup there (`CommonMark`, emphasis, rule 2)
/// and names of runs are full of them.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let within = before.is_alphanumeric()
            && letters.peek().is_some_and(|letter| letter.is_alphanumeric());
        match letter {
            '\n' | '\r' => cell.push(' '),
            '_' if within => cell.push(letter),
            '|' | '*' | '`' | '[' | ']' | '<' | '>' | '\\' | '!' | '~' | '#' | '&' | '_' => {
                cell.push('\\');
                cell.push(letter);
            }
            _ => cell.push(letter),
        }
        before = letter;
    }
    cell
}

/// Text as it is, between fences that are longer than any in it.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_place() {
        assert_eq!(cell("a|b\n<i>"), "a\\|b \\<i\\>");
        assert_eq!(cell("run_1 _so_ a__b"), "run_1 \\_so\\_ a\\_\\_b");
        assert_eq!(fenced("x\n```\ny\n", "text"), "````text\nx\n```\ny\n````");
    }
}
