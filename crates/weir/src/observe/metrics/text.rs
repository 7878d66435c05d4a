//! Metrics as text: OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), and the classic format 0.0.4 of Prometheus, in which a
//! family carries the name of its samples (`_total`, `_info` included), histograms have no exemplars, and nothing marks the end.

use std::fmt::{self, Write as _};

use super::exemplars::Exemplar;
use super::exposition::{Format, Kind, Value};

/// A text that grows.
#[derive(Debug)]
pub(super) struct Text {
    out: String,
    format: Format,
}

impl Text {
    pub(super) fn new(format: Format) -> Self {
        Text { out: String::with_capacity(16 * 1024), format }
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let is_open = self.format == Format::OpenMetrics;
        let suffix = if is_open { "" } else { kind.suffix() };
        let shown = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info if is_open => "info",
            Kind::Info => "gauge",
        };
        self.out.extend(["# HELP ", name, suffix, " "]);
        escape(&mut self.out, help, is_open);
        self.out.extend(["\n# TYPE ", name, suffix, " ", shown, "\n"]);
    }

    /// One sample, up to the end of its value. `le` is the upper bound of a bucket.
    fn begin(&mut self, (name, suffix): (&str, &str), labels: &[(&str, &str)], le: Option<f64>) {
        self.out.extend([name, suffix]);
        if labels.is_empty() && le.is_none() {
            self.out.push(' ');
            return;
        }
        self.out.push('{');
        for (position, (label, value)) in labels.iter().enumerate() {
            self.out.extend([if position > 0 { "," } else { "" }, label, "=\""]);
            escape(&mut self.out, value, true);
            self.out.push('"');
        }
        if let Some(bound) = le {
            self.out.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
            float(&mut self.out, bound);
            self.out.push('"');
        }
        self.out.push_str("} ");
    }

    pub(super) fn sample(&mut self, name: &str, kind: Kind, labels: &[(&str, &str)], value: Value) {
        self.begin((name, kind.suffix()), labels, None);
        match value {
            Value::Count(n) => put(&mut self.out, format_args!("{n}")),
            Value::Number(n) => float(&mut self.out, n),
        }
        self.out.push('\n');
    }

    /// One histogram; `exemplars` with the place of their bucket.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        (buckets, sum): (&[(f64, u64)], f64),
        exemplars: &[(usize, Exemplar)],
    ) {
        let mut count: u64 = 0;
        self.begin((name, "_sum"), labels, None);
        float(&mut self.out, sum);
        self.out.push('\n');
        self.begin((name, "_count"), labels, None);
        let all: u64 = buckets.iter().map(|(_, count)| count).sum();
        put(&mut self.out, format_args!("{all}\n"));
        for (place, (bound, own)) in buckets.iter().enumerate() {
            count += own;
            self.begin((name, "_bucket"), labels, Some(*bound));
            put(&mut self.out, format_args!("{count}"));
            if self.format == Format::OpenMetrics
                && let Some((_, exemplar)) = exemplars.iter().find(|(bucket, _)| *bucket == place)
            {
                put(&mut self.out, format_args!("{exemplar}"));
            }
            self.out.push('\n');
        }
    }
}

impl fmt::Display for Exemplar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exemplar { trace, span, ns, unix_ms } = self;
        let seconds = *ns as f64 / 1e9;
        let (s, ms) = (unix_ms / 1000, unix_ms % 1000);
        write!(f, " # {{trace_id=\"{:032x}\",span_id=\"{:016x}\"}} {seconds} {s}.{ms:03}", trace.0, span.0)
    }
}

fn put(out: &mut String, what: fmt::Arguments<'_>) {
    // A String takes whatever is written.
    let _ = out.write_fmt(what);
}

/// A number that is read as a float: whole ones end with `.0`, which is the canonical form of a bound.
fn float(out: &mut String, value: f64) {
    match value {
        _ if value.is_nan() => out.push_str("NaN"),
        _ if value.is_infinite() => out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" }),
        _ if value.fract() == 0.0 => put(out, format_args!("{value:.1}")),
        _ => put(out, format_args!("{value}")),
    }
}

/// Text between quotes, or of a comment, where the classic format leaves quotes as they are.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' if quotes => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
