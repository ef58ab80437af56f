//! A line chart as SVG text.

use std::fmt::Write as _;

use super::{Panel, number};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;

/// The chart. It holds numbers and names of classes only, so nothing in it needs escaping.
pub(super) fn chart(panel: &Panel) -> String {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let (x0, x1) = ends(points().map(|point| point.0));
    let (y0, y1) = ends(points().map(|point| point.1));
    let pad = if panel.unit == "share" { 0.0 } else { (y1 - y0) * 0.05 };
    let (y0, y1) =
        if panel.unit == "share" { (0.0, y1.max(0.05) * 1.05) } else { (y0 - pad, y1 + pad) };
    let to_x = |x: f64| LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
    let to_y = |y: f64| TOP + (1.0 - (y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for value in ticks(y0, y1) {
        let y = to_y(value);
        let label = if panel.unit == "share" {
            format!("{} %", number(value * 100.0))
        } else {
            number(value)
        };
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
        );
    }
    for value in ticks(x0, x1) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            to_x(value),
            HEIGHT - 8.0,
            number(value)
        );
    }
    for line in &panel.lines {
        let colour = line.run % 6;
        let path: Vec<String> =
            line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", to_x(*x), to_y(*y))).collect();
        let _ = write!(svg, "<polyline class=\"c{colour}\" points=\"{}\"/>", path.join(" "));
        if line.points.len() < 30 {
            for (x, y) in &line.points {
                let _ = write!(
                    svg,
                    "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    to_x(*x),
                    to_y(*y)
                );
            }
        }
    }
    svg + "</svg>"
}

/// The lowest and the highest; apart from each other, so that they can be divided by.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)));
    match (low.is_finite(), high > low) {
        (true, true) => (low, high),
        (true, false) => (low - 0.5, low + 0.5),
        (false, _) => (0.0, 1.0),
    }
}

/// About four round numbers between the two.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|at| at as f64 * step).take_while(|at| *at <= high).take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(1.0, 60.0), [20.0, 40.0, 60.0]);
        assert!(ticks(0.0, f64::MIN_POSITIVE).len() <= 12);
        assert_eq!(ends([3.0].into_iter()), (2.5, 3.5));
        assert_eq!(ends(std::iter::empty()), (0.0, 1.0));
    }
}
