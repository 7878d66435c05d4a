//! Summary, histogram and samples of a set of durations.

use serde::{Deserialize, Serialize};

use super::Histogram;

/// A distribution of durations. Readers of other tools' results fill what the tool says and leave the rest null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of durations.
    pub count: Option<u64>,
    /// Smallest.
    pub min_ms: Option<f64>,
    /// Mean.
    pub mean_ms: Option<f64>,
    /// Standard deviation, of the population.
    pub stdev_ms: Option<f64>,
    /// Largest.
    pub max_ms: Option<f64>,
    /// Half are at or below.
    pub p50_ms: Option<f64>,
    /// 75 % are at or below.
    pub p75_ms: Option<f64>,
    /// 90 % are at or below.
    pub p90_ms: Option<f64>,
    /// 95 % are at or below.
    pub p95_ms: Option<f64>,
    /// 99 % are at or below; see [`Latency::p99_suffices`].
    pub p99_ms: Option<f64>,
    /// 99.9 % are at or below; see [`Latency::p999_suffices`].
    pub p999_ms: Option<f64>,
    /// All of them in an HDR histogram, as base64 of its V2 compressed form.
    pub histogram: Option<Histogram>,
    /// Each of them in nanoseconds, in the order of the responses (by thread); kept only for small samples, where they make the summary exact.
    pub samples_ns: Option<Vec<u64>>,
}

const MS: f64 = 1e6;

/// Most durations that are kept one by one; beyond that the histogram says enough.
pub const SAMPLES: usize = 10_000;

impl Latency {
    /// Summarises a histogram; null for an empty one.
    pub fn of(histogram: Histogram) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let (mean_ns, stdev_ns) = (histogram.mean_ns(), histogram.stdev_ns());
        let summary = Latency::summary(histogram.count(), mean_ns, stdev_ns, |quantile| match quantile {
            0.0 => histogram.min_ns(),
            1.0 => histogram.max_ns(),
            _ => histogram.quantile_ns(quantile),
        });
        Some(Latency { histogram: Some(histogram), ..summary })
    }

    /// A summary by a function from a quantile (0: the smallest, 1: the largest) to nanoseconds.
    fn summary(count: u64, mean_ns: f64, stdev_ns: f64, quantile_ns: impl Fn(f64) -> u64) -> Self {
        let at = |quantile| Some(quantile_ns(quantile) as f64 / MS);
        Latency {
            count: Some(count),
            min_ms: at(0.0),
            mean_ms: Some(mean_ns / MS),
            stdev_ms: Some(stdev_ns / MS),
            max_ms: at(1.0),
            p50_ms: at(0.5),
            p75_ms: at(0.75),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            histogram: None,
            samples_ns: None,
        }
    }

    /// Summarises samples exactly (a quantile is the smallest sample that at least that share does not exceed: nearest rank) and keeps
    /// them; null for none.
    pub fn of_samples(samples_ns: Vec<u64>) -> Option<Self> {
        if samples_ns.is_empty() {
            return None;
        }
        let mut sorted = samples_ns.clone();
        sorted.sort_unstable();
        let count = sorted.len();
        let mean = sorted.iter().map(|&sample| sample as f64).sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|&sample| (sample as f64 - mean).powi(2)).sum::<f64>() / count as f64;
        let summary = Latency::summary(count as u64, mean, variance.sqrt(), |quantile| {
            let rank = ((quantile * count as f64).ceil() as usize).clamp(1, count);
            sorted[rank - 1]
        });
        let mut histogram = Histogram::default();
        for &sample in &sorted {
            histogram.record(sample);
        }
        Some(Latency { histogram: Some(histogram), samples_ns: Some(samples_ns), ..summary })
    }

    /// Whether there are enough durations (1,000) for the p99 to mean something: ten above it.
    pub fn p99_suffices(&self) -> bool {
        self.count.is_some_and(|count| count >= 1_000)
    }

    /// Whether there are enough durations (10,000) for the p99.9 to mean something.
    pub fn p999_suffices(&self) -> bool {
        self.count.is_some_and(|count| count >= 10_000)
    }

    /// Both together: from all samples where both have them and they are few ([`SAMPLES`]), else from the histograms. Null where one has neither, since
    /// percentiles cannot be merged.
    pub fn merge(&self, other: &Latency) -> Option<Latency> {
        if let (Some(own), Some(added)) = (&self.samples_ns, &other.samples_ns)
            && own.len() + added.len() <= SAMPLES
        {
            return Latency::of_samples(own.iter().chain(added).copied().collect());
        }
        let mut histogram = self.histogram.clone()?;
        histogram.add(other.histogram.as_ref()?);
        Latency::of(histogram)
    }
}
