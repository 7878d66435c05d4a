//! How metrics are written: the OpenMetrics text format, or the classic Prometheus one for readers that ask for nothing
//! else.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::histogram::{Bounds, Total};

/// Something that has values to show when metrics are read.
///
/// It is asked on the control thread, at every scrape. A family (name) must be written by one source only, and once.
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
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Exposition<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Exposition { encoder }
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
        self.encoder.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let encoder = self.encoder.encode_descriptor(name, help, None, kind)?;
        samples(&mut Samples { encoder, kind })
    }
}

/// Where the values of one family are written.
#[derive(Debug)]
pub struct Samples<'a> {
    encoder: MetricEncoder<'a>,
    kind: MetricType,
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
        let kind = self.kind;
        self.labelled(labels, |encoder| match (kind, value.into()) {
            (MetricType::Counter, Value::Count(n)) => encoder.encode_counter::<NoLabelSet, _, f64>(&n, None),
            (MetricType::Counter, Value::Number(n)) => encoder.encode_counter::<NoLabelSet, _, f64>(&n, None),
            (_, Value::Count(n)) => encoder.encode_gauge(&n),
            (_, Value::Number(n)) => encoder.encode_gauge(&n),
        })
    }

    pub(super) fn add_histogram(&mut self, labels: &[(&str, &str)], bounds: &Bounds, total: &Total) -> fmt::Result {
        self.labelled(labels, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(total.sum_seconds(), total.count(), &total.buckets(bounds), None)
        })
    }

    /// One histogram: upper bounds, and counts of each bucket with one more for what lies above.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn add_buckets(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) -> fmt::Result {
        let bounds = bounds.iter().copied().chain(std::iter::once(f64::MAX));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
        self.labelled(labels, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
        })
    }

    fn labelled(
        &mut self,
        labels: &[(&str, &str)],
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if labels.is_empty() { write(&mut self.encoder) } else { write(&mut self.encoder.encode_family(&labels)?) }
    }
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
    /// The one that an `Accept` field asks for. Scrapers that know OpenMetrics name it; browsers, curl and old ones get
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
