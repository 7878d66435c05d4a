//! Pieces of charts.

/// Text that stays text in HTML and SVG, also within quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters may not be in a document.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A value's place on a chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// From 0, or from a little below the smallest where there are values below 0.
    pub(super) fn linear(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = ends(values);
        let high = if high > 0.0 { high * 1.05 } else { 1.0 };
        Scale { low: low.min(0.0) * 1.05, high, from, to, log: false }
    }

    /// A given range.
    pub(super) fn between(low: f64, high: f64, from: f64, to: f64) -> Self {
        Scale { low, high: if high > low { high } else { low + 1.0 }, from, to, log: false }
    }

    /// By ratios, for values above 0.
    pub(super) fn log(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = ends(values.filter(|value| *value > 0.0));
        let (low, high) = if low <= high { (low / 1.12, high * 1.12) } else { (1.0, 10.0) };
        Scale { low, high, from, to, log: true }
    }

    /// Where a value lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round values within the range, five or so.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log && self.high / self.low > 10.0 {
            let mut ticks = Vec::new();
            let steps: &[f64] = if self.high / self.low > 2_000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let mut power = 10_f64.powf(self.low.log10().floor());
            while power <= self.high {
                ticks
                    .extend(steps.iter().map(|step| step * power).filter(|tick| (self.low..=self.high).contains(tick)));
                power *= 10.0;
            }
            return ticks;
        }
        let span = self.high - self.low;
        let power = 10_f64.powf((span / 5.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| span / step <= 6.0);
        let step = step.unwrap_or(span);
        let first = (self.low / step).ceil();
        // A multiple, not a sum, so that nothing adds up.
        (0..20)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|tick| *tick <= self.high * (1.0 + 1e-9))
            .collect()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// A coordinate, to a tenth: what no screen shows makes no document longer.
pub(super) fn xy(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A system's own mark: its shape tells it apart where its colour does not.
pub(super) fn mark(series: usize, x: f64, y: f64, class: &str, title: &str) -> String {
    let r = 4.5;
    let points = |points: &[(f64, f64)]| -> String {
        points.iter().map(|(dx, dy)| format!("{},{}", xy(x + dx * r), xy(y + dy * r))).collect::<Vec<_>>().join(" ")
    };
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
    let shape: &[(f64, f64)] = match series % 6 {
        0 => return format!("<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{r}\">{title}</circle>", xy(x), xy(y)),
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
        3 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
        4 => &[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
        _ => &[
            (-0.4, -1.15),
            (0.4, -1.15),
            (0.4, -0.4),
            (1.15, -0.4),
            (1.15, 0.4),
            (0.4, 0.4),
            (0.4, 1.15),
            (-0.4, 1.15),
            (-0.4, 0.4),
            (-1.15, 0.4),
            (-1.15, -0.4),
            (-0.4, -0.4),
        ],
    };
    format!("<polygon class=\"{class}\" points=\"{}\">{title}</polygon>", points(shape))
}

/// A system's own dash.
pub(super) fn dash(series: usize) -> &'static str {
    match (series, series / 6) {
        (0, _) => " stroke-dasharray=\"2 4\"",
        (_, 0) => "",
        (_, 1) => " stroke-dasharray=\"9 4\"",
        _ => " stroke-dasharray=\"9 3 2 3\"",
    }
}

/// Text at a place.
pub(super) fn text(x: f64, y: f64, anchor: &str, class: &str, words: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\"{class}>{}</text>", xy(x), xy(y), escape(words))
}
