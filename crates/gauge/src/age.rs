//! The score of the paper on the automatic gateway evaluator (AGE), equations 3 to 6, and the score as its program computes it.
//!
//! For each of ten metrics the best gateway gets 1 and the others their ratio to it: best / value where small is best, value / best where large is (equations
//! 3 and 4). An endpoint's score is 100 x the mean over the metrics (5), a gateway's the mean over its endpoints (6). It is defined on the sample as it
//! is: percentiles are the sample's own, however small it is, so the number of samples belongs beside it. A gateway's score depends on
//! which others are present; that is how it is defined, and why Gauge has its own.
//!
//! The program differs: the error rate counts twice (divisor 11), taken as 1 - rate with large best; the result is rounded down; and it is
//! computed on the totals of all endpoints together instead of endpoint by endpoint.
//!
//! Both divide by 0 where a best value is 0. Here: best 0 and value 0 give 1, best 0 and value above 0 give 0.
//!
//! A metric that is missing for any of the gateways is left out for all, and the divisor shrinks; with published tables that happens.

/// What is measured of a gateway at an endpoint. Times in any unit, the same for all gateways.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// Requests per second.
    pub throughput: Option<f64>,
    /// Smallest response time.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub stdev: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Share of requests that went wrong, from 0 to 1.
    pub error_rate: Option<f64>,
}

impl Metrics {
    fn throughput(&self) -> Option<f64> {
        self.throughput
    }

    /// Those of which small is best, errors apart.
    fn times(&self) -> [Option<f64>; 8] {
        [self.min, self.max, self.mean, self.stdev, self.p50, self.p90, self.p95, self.p99]
    }
}

/// Small is best (equation 3).
fn small_is_best(values: &[f64]) -> Vec<f64> {
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().map(|value| if *value == best { 1.0 } else { best / value }).collect()
}

/// Large is best (equation 4). Where the best is 0, all are.
fn large_is_best(values: &[f64]) -> Vec<f64> {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter().map(|value| if *value == best { 1.0 } else { value / best }).collect()
}

/// The ratios of one metric of all gateways; null when one of them does not have it.
fn ratios(
    gateways: &[Metrics],
    metric: impl Fn(&Metrics) -> Option<f64>,
    best: fn(&[f64]) -> Vec<f64>,
) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> =
        gateways.iter().map(|gateway| metric(gateway).filter(|value| value.is_finite())).collect();
    values.map(|values| best(&values))
}

/// Ratios of throughput and times.
fn common(gateways: &[Metrics]) -> Vec<Vec<f64>> {
    let mut all = Vec::with_capacity(10);
    all.extend(ratios(gateways, Metrics::throughput, large_is_best));
    for index in 0..8 {
        all.extend(ratios(gateways, |gateway| gateway.times()[index], small_is_best));
    }
    all
}

/// Mean over the metrics, gateway by gateway, times 100, with the number of metrics.
fn means(gateways: usize, metrics: &[Vec<f64>]) -> (Vec<f64>, usize) {
    let mean = |gateway: usize| {
        let sum: f64 = metrics.iter().map(|metric| metric[gateway]).sum();
        if metrics.is_empty() { 0.0 } else { 100.0 * sum / metrics.len() as f64 }
    };
    ((0..gateways).map(mean).collect(), metrics.len())
}

/// Scores of one endpoint as in the paper (0 to 100), gateway by gateway, and the number of metrics that all of them have.
pub fn paper_endpoint(gateways: &[Metrics]) -> (Vec<f64>, usize) {
    let mut metrics = common(gateways);
    metrics.extend(ratios(gateways, |gateway| gateway.error_rate, small_is_best));
    means(gateways.len(), &metrics)
}

/// Scores as the program computes them, on the totals of all endpoints, gateway by gateway.
pub fn as_coded(totals: &[Metrics]) -> Vec<f64> {
    let mut metrics = common(totals);
    if let Some(errors) = ratios(totals, |gateway| gateway.error_rate.map(|rate| 1.0 - rate), large_is_best) {
        metrics.push(errors.clone());
        metrics.push(errors);
    }
    // Ratios of equal values must not lose a point to the last binary digit.
    means(totals.len(), &metrics).0.into_iter().map(|score| (score + 1e-9).floor()).collect()
}

#[cfg(test)]
mod tests;
