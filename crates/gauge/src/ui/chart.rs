//! Small line charts, drawn here: as wide as their box, with a text that says the last values.

use std::fmt::Write as _;

use super::html::text;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// A line: its name, and values from old to new; none where nothing is known.
pub(super) struct Line<'l> {
    pub(super) name: &'l str,
    pub(super) values: Vec<Option<f64>>,
}

/// The smallest of 1, 2, 5 times a power of ten that is not below the value.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(10.0 * power)
}

fn path(values: &[Option<f64>], top: f64) -> String {
    let step = WIDTH / (values.len().saturating_sub(1).max(1)) as f64;
    let mut out = String::new();
    let mut pen = 'M';
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            pen = 'M';
            continue;
        };
        let (x, y) = (index as f64 * step, HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT);
        let _ = write!(out, "{pen}{x:.1} {y:.1}");
        // A point by itself is drawn as a dot.
        if pen == 'M' && values.get(index + 1).copied().flatten().is_none() {
            out.push_str("h0.01");
        }
        pen = 'L';
    }
    out
}

/// A chart. `marks` are places on the x axis to point out. The last values, in words, are its legend and its label.
pub(super) fn chart(
    title: &str,
    lines: &[Line<'_>],
    words: impl Fn(f64) -> String,
    ends: (&str, &str),
    marks: &[usize],
) -> String {
    let all = lines.iter().flat_map(|line| line.values.iter().flatten());
    let highest = all.copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let top = if highest > 0.0 { ceiling(highest) } else { 1.0 };
    let last =
        |line: &Line<'_>| line.values.iter().rev().flatten().next().map_or("—".to_owned(), |value| words(*value));
    let spoken: Vec<String> = lines.iter().map(|line| format!("{} {}", line.name, last(line))).collect();
    let count = lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let mut out = format!("<figure><figcaption><span>{}</span><span class=\"legend\">", text(title));
    for (index, line) in lines.iter().enumerate() {
        let (name, last) = (text(line.name), text(&last(line)));
        let _ = write!(out, "<span><i class=\"c{}\"></i>{name} <b>{last}</b></span>", index % 6 + 1);
    }
    let label = text(&format!("{title}: {}", spoken.join(", ")));
    let _ = write!(
        out,
        "</span></figcaption><div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">"
    );
    for share in [0.0, 0.5, 1.0] {
        let _ = write!(out, "<path class=\"grid\" d=\"M0 {:.0}H{WIDTH}\"/>", HEIGHT * share);
    }
    for mark in marks {
        let x = *mark as f64 * WIDTH / (count.saturating_sub(1).max(1)) as f64;
        let _ = write!(out, "<path class=\"cursor\" d=\"M{x:.1} 0V{HEIGHT}\"/>");
    }
    for (index, line) in lines.iter().enumerate().rev() {
        let _ = write!(out, "<path class=\"c{}\" d=\"{}\"/>", index % 6 + 1, path(&line.values, top));
    }
    let above = if highest > 0.0 { words(top) } else { String::new() };
    let _ = write!(
        out,
        "</svg><span>{}</span></div><div class=\"times\"><span>{}</span><span>{}</span></div></figure>",
        text(&above),
        text(ends.0),
        text(ends.1)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{Line, ceiling, chart};

    #[test]
    fn a_chart_says_its_last_values_and_breaks_where_nothing_is_known() {
        assert_eq!((ceiling(3.0), ceiling(100.0), ceiling(0.07)), (5.0, 100.0, 0.1));
        let line = Line { name: "a<b", values: vec![Some(1.0), None, Some(2.0), Some(4.0)] };
        let svg = chart("Rate", &[line], |value| format!("{value}/s"), ("then", "now"), &[2]);
        assert!(svg.contains("aria-label=\"Rate: a&lt;b 4/s\""), "{svg}");
        assert!(svg.contains("d=\"M0.0 96.0h0.01M400.0 72.0L600.0 24.0\""), "{svg}");
    }
}
