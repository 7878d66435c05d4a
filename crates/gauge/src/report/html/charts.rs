//! Charts as SVG. Every series has a shape and a name beside its colour, and every chart a table below it.

use std::fmt::Write;

use super::svg::{Scale, dash, escape, mark, text, xy};
use crate::stats::Estimate;

const WIDTH: f64 = 820.0;

/// A system in a chart.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    /// Its place among the systems: colour, shape and dash follow from it. 0 is the baseline.
    pub(super) index: usize,
}

impl Series {
    fn class(&self) -> String {
        color(self.index)
    }
}

/// The class that sets a system's colour.
pub(super) fn color(index: usize) -> String {
    format!("c{}", if index == 0 { 0 } else { (index - 1) % 10 + 1 })
}

/// A figure with its chart and the table that says the same; without a table, where one stands beside it.
pub(super) fn figure(caption: &str, svg: &str, table: &str) -> String {
    let mut html = format!("<figure>\n<figcaption>{}</figcaption>\n{svg}", escape(caption));
    if !table.is_empty() {
        let _ = writeln!(html, "<details><summary>As a table</summary>\n{table}</details>");
    }
    html.push_str("</figure>\n");
    html
}

fn open(height: f64, label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n", xy(height), escape(label))
}

/// One line for each system with its value and interval. `bars`: from 0; else a mark alone, on a scale of its own.
pub(super) fn intervals(label: &str, rows: &[(Series, Estimate)], words: &dyn Fn(f64) -> String, bars: bool) -> String {
    const LEFT: f64 = 150.0;
    const RIGHT: f64 = 610.0;
    const STEP: f64 = 30.0;
    let bottom = 8.0 + rows.len() as f64 * STEP;
    let mut svg = open(bottom + 26.0, label);
    let scale = Scale::linear(
        rows.iter().flat_map(|(_, estimate)| [estimate.low, estimate.high].map(|end| end.unwrap_or(estimate.value))),
        LEFT,
        RIGHT,
    );
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{} 4V{}\"/>", xy(x), xy(bottom));
        svg.push_str(&text(x, bottom + 16.0, "middle", "soft", &words(tick)));
    }
    svg.push('\n');
    for (index, (series, estimate)) in rows.iter().enumerate() {
        let y = 8.0 + (index as f64 + 0.5) * STEP;
        let middle = scale.at(estimate.value);
        let [low, high] = [estimate.low, estimate.high].map(|end| end.map_or(middle, |end| scale.at(end)));
        let all = super::super::view::interval(Some(estimate), words);
        let _ = write!(svg, "<g class=\"{}\">", series.class());
        svg.push_str(&text(LEFT - 10.0, y + 4.0, "end", "own", &series.name));
        if bars {
            let _ = write!(
                svg,
                "<rect class=\"bar\" opacity=\".35\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"14\" rx=\"2\"/>",
                xy(scale.at(0.0)),
                xy(y - 7.0),
                xy((middle - scale.at(0.0)).max(0.0))
            );
        }
        let _ = write!(svg, "<path class=\"whisker\" d=\"M{} {y}H{}\"/>", xy(low), xy(high));
        svg.push_str(&mark(series.index, middle, y, "mark", &format!("{}: {all}", series.name)));
        svg.push_str(&text(RIGHT + 12.0, y + 4.0, "start", "", &all));
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// A line of a chart.
pub(super) struct Line {
    pub(super) series: Series,
    /// Places on both axes; whether the mark is filled, hollow or left out.
    pub(super) points: Vec<(f64, f64, Mark)>,
    /// Marks beside the line.
    pub(super) beside: Vec<(f64, f64, Mark)>,
}

/// How a point is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Full,
    Hollow,
    No,
}

/// The two axes of [`lines`].
pub(super) struct Axes<'a> {
    pub(super) x_name: &'a str,
    pub(super) y_name: &'a str,
    /// Ticks of the x axis with their words; none: round numbers.
    pub(super) x_ticks: Vec<(f64, String)>,
    /// What the objective allows.
    pub(super) limit: Option<(f64, String)>,
    pub(super) y_words: &'a dyn Fn(f64) -> String,
    pub(super) x_words: &'a dyn Fn(f64) -> String,
}

/// Lines over x, with y by ratios, each named at its end.
pub(super) fn lines(label: &str, lines: &[Line], axes: &Axes<'_>) -> String {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 650.0;
    const TOP: f64 = 24.0;
    const BOTTOM: f64 = 330.0;
    let mut svg = open(BOTTOM + 44.0, label);
    let points = || lines.iter().flat_map(|line| line.points.iter().chain(&line.beside));
    let x = if axes.x_ticks.is_empty() {
        Scale::linear(points().map(|point| point.0), LEFT, RIGHT)
    } else {
        let ends = points().map(|point| point.0).chain(axes.x_ticks.iter().map(|tick| tick.0));
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        Scale::between(low, high, LEFT, RIGHT)
    };
    let limit = axes.limit.iter().map(|limit| limit.0);
    let y = Scale::log(points().map(|point| point.1).chain(limit), BOTTOM, TOP);
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {}H{RIGHT}\"/>", xy(at));
        svg.push_str(&text(LEFT - 8.0, at + 4.0, "end", "soft", &(axes.y_words)(tick)));
    }
    let own = x.ticks().into_iter().map(|tick| (tick, (axes.x_words)(tick)));
    let ticks: Vec<(f64, String)> = if axes.x_ticks.is_empty() { own.collect() } else { axes.x_ticks.clone() };
    for (tick, words) in &ticks {
        let at = x.at(*tick);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{} {TOP}V{BOTTOM}\"/>", xy(at));
        svg.push_str(&text(at, BOTTOM + 17.0, "middle", "soft", words));
    }
    svg.push_str(&text((LEFT + RIGHT) / 2.0, BOTTOM + 37.0, "middle", "soft", axes.x_name));
    svg.push_str(&text(8.0, 12.0, "start", "soft", axes.y_name));
    if let Some((limit, words)) = &axes.limit {
        let at = y.at(*limit);
        let _ = write!(svg, "<path class=\"one\" d=\"M{LEFT} {}H{RIGHT}\"/>", xy(at));
        svg.push_str(&text(RIGHT - 4.0, at - 5.0, "end", "soft", words));
    }
    svg.push('\n');
    for line in lines {
        let _ = write!(svg, "<g class=\"{}\">", line.series.class());
        let path: Vec<String> =
            line.points.iter().map(|(px, py, _)| format!("{} {}", xy(x.at(*px)), xy(y.at(*py)))).collect();
        let _ = write!(svg, "<path class=\"line\"{} d=\"M{}\"/>", dash(line.series.index), path.join("L"));
        for (px, py, kind) in line.points.iter().chain(&line.beside) {
            let class = match kind {
                Mark::Full => "mark",
                Mark::Hollow => "hollow",
                Mark::No => continue,
            };
            let title = format!("{}: {} at {}", line.series.name, (axes.y_words)(*py), nearest(&ticks, *px, axes));
            svg.push_str(&mark(line.series.index, x.at(*px), y.at(*py), class, &title));
        }
        svg.push_str("</g>\n");
    }
    let ends: Vec<(&Series, f64, f64)> = lines
        .iter()
        .filter_map(|line| line.points.last().map(|(px, py, _)| (&line.series, x.at(*px), y.at(*py))))
        .collect();
    names(&mut svg, ends, TOP, BOTTOM, RIGHT);
    svg.push_str("</svg>\n");
    svg
}

fn nearest(ticks: &[(f64, String)], x: f64, axes: &Axes<'_>) -> String {
    ticks.iter().find(|tick| (tick.0 - x).abs() < 1e-9).map_or_else(|| (axes.x_words)(x), |tick| tick.1.clone())
}

/// The names of lines at their ends, pushed apart so that none covers another.
fn names(svg: &mut String, mut ends: Vec<(&Series, f64, f64)>, top: f64, bottom: f64, right: f64) {
    const MIN_DISTANCE: f64 = 15.0;
    const NEAR: f64 = 40.0;
    ends.sort_by(|a, b| a.2.total_cmp(&b.2));
    let mut places: Vec<f64> = Vec::with_capacity(ends.len());
    for (_, _, y) in &ends {
        let above = places.last().map_or(top, |above: &f64| above + MIN_DISTANCE);
        places.push(y.max(above));
    }
    let mut below = bottom + MIN_DISTANCE;
    for place in places.iter_mut().rev() {
        *place = place.min(below - MIN_DISTANCE);
        below = *place;
    }
    for ((series, x, y), place) in ends.iter().zip(places) {
        let _ = write!(svg, "<g class=\"{}\">", series.class());
        // A line that ends far from its name would lead across others; there colour and shape must do.
        if right - x < NEAR {
            let _ = write!(
                svg,
                "<path class=\"line\" style=\"stroke-width:1\" opacity=\".6\" d=\"M{} {}L{} {}\"/>",
                xy(x + 5.0),
                xy(*y),
                xy(right + 14.0),
                xy(place)
            );
        }
        svg.push_str(&mark(series.index, right + 21.0, place, "mark", ""));
        svg.push_str(&text(right + 31.0, place + 4.0, "start", "own", &series.name));
        svg.push_str("</g>\n");
    }
}

/// A system's values, round by round.
pub(super) struct Strip {
    pub(super) series: Series,
    /// Round, value, and whether the round counts.
    pub(super) rounds: Vec<(u32, f64, bool)>,
}

/// One line for each system with a mark for each round; crosses are rounds that do not count.
pub(super) fn strips(label: &str, strips: &[Strip], words: &dyn Fn(f64) -> String) -> String {
    const LEFT: f64 = 150.0;
    const RIGHT: f64 = 800.0;
    const STEP: f64 = 28.0;
    let bottom = 6.0 + strips.len() as f64 * STEP;
    let mut svg = open(bottom + 24.0, label);
    let scale = Scale::log(strips.iter().flat_map(|strip| strip.rounds.iter().map(|round| round.1)), LEFT, RIGHT);
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{} 4V{}\"/>", xy(x), xy(bottom));
        svg.push_str(&text(x, bottom + 16.0, "middle", "soft", &words(tick)));
    }
    svg.push('\n');
    for (index, strip) in strips.iter().enumerate() {
        let y = 6.0 + (index as f64 + 0.5) * STEP;
        let _ = write!(svg, "<g class=\"{}\">", strip.series.class());
        svg.push_str(&text(LEFT - 10.0, y + 4.0, "end", "own", &strip.series.name));
        for (round, value, counts) in &strip.rounds {
            // Rounds take turns in height, so that equal values do not cover each other.
            let y = y + f64::from(round % 3) * 4.0 - 4.0;
            let x = scale.at(*value);
            let title = format!("{}, round {round}: {}", strip.series.name, words(*value));
            if *counts {
                svg.push_str(&mark(strip.series.index, x, y, "mark", &title));
            } else {
                let _ = write!(
                    svg,
                    "<path class=\"out\" d=\"M{} {}l8 8m0-8l-8 8\"><title>{} (left out)</title></path>",
                    xy(x - 4.0),
                    xy(y - 4.0),
                    escape(&title)
                );
            }
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}
