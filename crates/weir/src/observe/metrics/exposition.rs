//! How metrics are written: the OpenMetrics text format, the classic Prometheus one for readers that request nothing else, or
//! OTLP for a collector.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use telemetry::metrics::{Kind, Metrics as Otlp, Number, Points};

use super::histogram::{Bounds, Total};

/// Something that has values to show when metrics are read.
///
/// It is read on the control thread, at every scrape. A family (name) must be written by one source only, and once.
pub trait Source: Send + Sync {
    /// Writes its families.
    ///
    /// # Errors
    /// Only those of `out`.
    fn collect(&self, out: &mut Exposition<'_>) -> fmt::Result;
}

impl<F: Fn(&mut Exposition<'_>) -> fmt::Result + Send + Sync> Source for F {
    fn collect(&self, out: &mut Exposition<'_>) -> fmt::Result {
        self(out)
    }
}

/// Where a [`Source`] writes its families.
#[derive(Debug)]
pub struct Exposition<'a> {
    form: Form<'a>,
}

#[derive(Debug)]
enum Form<'a> {
    Text(DescriptorEncoder<'a>),
    Otlp(&'a mut Otlp),
}

impl<'a> Exposition<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Exposition { form: Form::Text(encoder) }
    }

    pub(super) fn otlp(metrics: &'a mut Otlp) -> Self {
        Exposition { form: Form::Otlp(metrics) }
    }

    /// A family of values that only grow. `name` is without `_total`, which the format adds; `help` is one line.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, samples)
    }

    /// A family of values that go up and down.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, samples)
    }

    /// A family of histograms.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Histogram, samples)
    }

    /// A fact that is all labels; `name` is without `_info`, which the format adds.
    pub(super) fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        match &mut self.form {
            Form::Text(encoder) => encoder.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels),
            Form::Otlp(metrics) => {
                let mut points = metrics.points();
                points.number(labels, Number::Count(1));
                metrics.add(&format!("{name}_info"), help, "", Kind::Gauge, points);
                Ok(())
            }
        }
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match &mut self.form {
            Form::Text(encoder) => {
                let encoder = encoder.encode_descriptor(name, help, None, kind)?;
                samples(&mut Samples(Family::Text { encoder, kind }))
            }
            Form::Otlp(metrics) => {
                let mut written = Samples(Family::Otlp(metrics.points()));
                samples(&mut written)?;
                let Family::Otlp(points) = written.0 else { return Ok(()) };
                let (suffix, kind) = match kind {
                    // The name that the text has: queries fit whichever way the values come.
                    MetricType::Counter => ("_total", Kind::Counter),
                    MetricType::Histogram => ("", Kind::Histogram),
                    _ => ("", Kind::Gauge),
                };
                metrics.add(&format!("{name}{suffix}"), help, unit_of(name), kind, points);
                Ok(())
            }
        }
    }
}

/// Unit by the Unified Code for Units of Measure, as names here tell it.
fn unit_of(name: &str) -> &'static str {
    match name {
        _ if name.ends_with("_seconds") => "s",
        _ if name.ends_with("_bytes") => "By",
        _ => "",
    }
}

/// Where the values of one family are written.
#[derive(Debug)]
pub struct Samples<'a>(Family<'a>);

#[derive(Debug)]
enum Family<'a> {
    Text { encoder: MetricEncoder<'a>, kind: MetricType },
    Otlp(Points),
}

/// Value of a sample: counts stay whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// Anything else, in base units (seconds, bytes).
    Number(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Value::Count(n)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Value::Count(u64::from(yes))
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Value::Number(n)
    }
}

impl Samples<'_> {
    /// One value. A set of labels may occur once in a family; their values may hold anything, they are escaped.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) -> fmt::Result {
        let value = value.into();
        match &mut self.0 {
            Family::Text { encoder, kind } => labelled(encoder, labels, |encoder| match (kind, value) {
                (MetricType::Counter, Value::Count(n)) => encoder.encode_counter::<NoLabelSet, _, f64>(&n, None),
                (MetricType::Counter, Value::Number(n)) => encoder.encode_counter::<NoLabelSet, _, f64>(&n, None),
                (_, Value::Count(n)) => encoder.encode_gauge(&n),
                (_, Value::Number(n)) => encoder.encode_gauge(&n),
            }),
            Family::Otlp(points) => {
                let value = match value {
                    Value::Count(n) => Number::Count(n),
                    Value::Number(n) => Number::Float(n),
                };
                points.number(labels, value);
                Ok(())
            }
        }
    }

    pub(super) fn add_histogram(&mut self, labels: &[(&str, &str)], bounds: &Bounds, total: &Total) -> fmt::Result {
        self.buckets(labels, &total.buckets(bounds), total.sum_seconds())
    }

    /// One histogram: upper bounds, and counts of each bucket with one more for what lies above.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn add_buckets(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) -> fmt::Result {
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
        self.buckets(labels, &buckets, sum)
    }

    /// The last bucket's bound is infinite.
    fn buckets(&mut self, labels: &[(&str, &str)], buckets: &[(f64, u64)], sum: f64) -> fmt::Result {
        match &mut self.0 {
            Family::Text { encoder, .. } => labelled(encoder, labels, |encoder| {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
            }),
            Family::Otlp(points) => {
                let (bounds, counts): (Vec<f64>, Vec<u64>) = buckets.iter().copied().unzip();
                let finite = bounds.iter().take_while(|bound| bound.is_finite()).count();
                points.histogram(labels, &bounds[..finite], &counts, sum);
                Ok(())
            }
        }
    }
}

fn labelled(
    encoder: &mut MetricEncoder<'_>,
    labels: &[(&str, &str)],
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { write(encoder) } else { write(&mut encoder.encode_family(&labels)?) }
}

/// Text format of an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Classic,
}

impl Format {
    /// The one that an `Accept` field requests. Scrapers that know OpenMetrics name it; browsers, curl and old ones get
    /// the classic format.
    pub fn of_accept(accept: &str) -> Format {
        let wants = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"))
                && !parts.any(|p| matches!(p, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        });
        if wants { Format::OpenMetrics } else { Format::Classic }
    }

    /// Value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Rewrites an OpenMetrics exposition as a classic one: there a family carries the name of its samples (`_total`,
/// `_info` included), has no unit, and nothing marks the end.
pub(super) fn to_classic(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        if let Some(rest) = comment.strip_prefix("HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = comment.strip_prefix("TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                same => ("", same),
            };
            if let Some((_, text)) = help.take() {
                out.push_str(&format!("# HELP {name}{suffix} {text}\n"));
            }
            out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        }
    }
    out
}
