//! How metrics are written: as text (`text.rs`), or in OTLP for a collector.

use std::fmt;

use telemetry::metrics::{self as otlp, Metrics as Otlp, Number, Points};

use super::exemplars::Exemplar;
use super::histogram::{Bounds, Total};
use super::text::Text;

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
    Text(&'a mut Text),
    Otlp(&'a mut Otlp),
}

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A fact that is all labels.
    Info,
}

impl Kind {
    /// What the names of its samples end with.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }
}

impl<'a> Exposition<'a> {
    pub(super) fn text(text: &'a mut Text) -> Self {
        Exposition { form: Form::Text(text) }
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
        self.family(name, help, Kind::Counter, samples)
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
        self.family(name, help, Kind::Gauge, samples)
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
        self.family(name, help, Kind::Histogram, samples)
    }

    /// A fact that is all labels; `name` is without `_info`, which the format adds.
    pub(super) fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        self.family(name, help, Kind::Info, |s| s.add(labels, 1u64))
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: Kind,
        samples: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match &mut self.form {
            Form::Text(text) => {
                text.family(name, help, kind);
                samples(&mut Samples(Family::Text { text, name, kind }))
            }
            Form::Otlp(metrics) => {
                let mut written = Samples(Family::Otlp(metrics.points()));
                samples(&mut written)?;
                let Family::Otlp(points) = written.0 else { return Ok(()) };
                // The name that the text has: queries fit whichever way the values come.
                let (name, unit) = (format!("{name}{}", kind.suffix()), unit_of(name));
                let kind = match kind {
                    Kind::Counter => otlp::Kind::Counter,
                    Kind::Histogram => otlp::Kind::Histogram,
                    Kind::Gauge | Kind::Info => otlp::Kind::Gauge,
                };
                metrics.add(&name, help, unit, kind, points);
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
    Text { text: &'a mut Text, name: &'a str, kind: Kind },
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
            Family::Text { text, name, kind } => {
                text.sample(name, *kind, labels, value);
                Ok(())
            }
            Family::Otlp(points) => {
                let value = match value {
                    Value::Count(n) => Number::Count(n),
                    Value::Number(n) => Number::Float(n),
                };
                let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, otlp::Attribute::Text(value))).collect();
                points.number(&labels, value);
                Ok(())
            }
        }
    }

    pub(super) fn add_histogram(&mut self, labels: &[(&str, &str)], bounds: &Bounds, total: &Total) -> fmt::Result {
        self.buckets(labels, (&total.buckets(bounds), total.sum_seconds()), &[])
    }

    /// One histogram with exemplars, each with the place of its bucket.
    pub(super) fn add_traced(
        &mut self,
        labels: &[(&str, &str)],
        (bounds, total): (&Bounds, &Total),
        exemplars: &[(usize, Exemplar)],
    ) -> fmt::Result {
        self.buckets(labels, (&total.buckets(bounds), total.sum_seconds()), exemplars)
    }

    /// One histogram: upper bounds, and counts of each bucket with one more for what lies above.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn add_buckets(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) -> fmt::Result {
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
        self.buckets(labels, (&buckets, sum), &[])
    }

    /// The last bucket's bound is infinite.
    fn buckets(
        &mut self,
        labels: &[(&str, &str)],
        (buckets, sum): (&[(f64, u64)], f64),
        exemplars: &[(usize, Exemplar)],
    ) -> fmt::Result {
        match &mut self.0 {
            Family::Text { text, name, .. } => text.histogram(name, labels, (buckets, sum), exemplars),
            Family::Otlp(points) => {
                let (bounds, counts): (Vec<f64>, Vec<u64>) = buckets.iter().copied().unzip();
                let finite = bounds.iter().take_while(|bound| bound.is_finite()).count();
                let exemplars: Vec<otlp::Exemplar> = exemplars
                    .iter()
                    .map(|(_, exemplar)| otlp::Exemplar {
                        trace: exemplar.trace,
                        span: exemplar.span,
                        value: exemplar.ns as f64 / 1e9,
                        unix_ns: exemplar.unix_ms * 1_000_000,
                    })
                    .collect();
                let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, otlp::Attribute::Text(value))).collect();
                points.histogram(&labels, (&bounds[..finite], &counts), sum, &exemplars);
            }
        }
        Ok(())
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
