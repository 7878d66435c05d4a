//! When the requests of an open loop are due.
//!
//! The plan gives a rate over time; its integral N(t) is the number of requests due by t. The k-th request of constant arrivals is due
//! when N(t) = k, those of a Poisson process when N(t) reaches the sum of k independent exponential variates with mean 1 (a change of the
//! clock turns any rate into the process of rate 1). So neither drifts, and nothing depends on when the generator gets to run.

use super::workload::{Arrivals, Open, Rates};

/// The due times of one thread, in nanoseconds from the start of the phase, ascending. Threads share a schedule: of constant
/// arrivals thread i of T takes every T-th, of a Poisson process each takes an independent one of 1/T of the rate, which add up.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    from: f64,
    to: f64,
    duration_s: f64,
    /// N at the end.
    total: f64,
    /// N of the next request.
    position: f64,
    threads: f64,
    random: Option<fastrand::Rng>,
}

impl Schedule {
    pub(crate) fn new(open: &Open, thread: u32, threads: u32, seed: u64) -> Self {
        let (from, to) = match open.rate {
            Rates::Constant(rate) => (rate, rate),
            Rates::Ramp { from, to } => (from, to),
        };
        let duration_s = open.duration.as_secs_f64();
        let total = open.rate.mean() * duration_s;
        // 500/s for 10 s are 5,000 requests, whatever the last bit of the product says.
        let total = if (total - total.round()).abs() < 1e-6 { total.round() } else { total };
        let mut schedule =
            Schedule { from, to, duration_s, total, position: 0.0, threads: f64::from(threads), random: None };
        match open.arrivals {
            Arrivals::Constant => schedule.position = f64::from(thread),
            Arrivals::Poisson => {
                let mut random =
                    fastrand::Rng::with_seed(seed ^ (u64::from(thread) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                schedule.position = exponential(&mut random) * schedule.threads;
                schedule.random = Some(random);
            }
        }
        schedule
    }

    /// When the next one is due; `None` when the phase holds no more.
    pub(crate) fn peek(&self) -> Option<u64> {
        (self.position < self.total).then(|| (self.time_of(self.position) * 1e9) as u64)
    }

    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        self.position += match &mut self.random {
            None => self.threads,
            Some(random) => exponential(random) * self.threads,
        };
    }

    /// The number of the next one among all threads' (constant arrivals).
    pub(crate) fn number(&self) -> u64 {
        self.position as u64
    }

    /// t with N(t) = n. The form of the quadratic's solution that loses no digits.
    fn time_of(&self, n: f64) -> f64 {
        if n <= 0.0 {
            return 0.0;
        }
        let slope = (self.to - self.from) / self.duration_s;
        let root = (self.from * self.from + 2.0 * slope * n).max(0.0).sqrt();
        (2.0 * n / (self.from + root)).min(self.duration_s)
    }
}

/// An exponential variate with mean 1.
pub(crate) fn exponential(random: &mut fastrand::Rng) -> f64 {
    // 1 - f64() lies in (0, 1].
    -(1.0 - random.f64()).ln()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn open(rate: Rates, seconds: f64, arrivals: Arrivals) -> Open {
        Open { rate, duration: Duration::from_secs_f64(seconds), arrivals, connections: 1 }
    }

    fn times(open: &Open, thread: u32, threads: u32) -> Vec<u64> {
        let mut schedule = Schedule::new(open, thread, threads, 7);
        let mut times = Vec::new();
        while let Some(time) = schedule.peek() {
            times.push(time);
            schedule.advance();
        }
        times
    }

    #[test]
    fn constant_arrivals_are_even() {
        let times = times(&open(Rates::Constant(500.0), 10.0, Arrivals::Constant), 0, 1);
        assert_eq!(times.len(), 5_000);
        assert!(times.windows(2).all(|pair| (1_999_998..=2_000_002).contains(&(pair[1] - pair[0]))));
        assert_eq!(times[0], 0);
    }

    #[test]
    fn a_ramp_has_half_of_its_requests_in_the_last_part() {
        // From 0 to 100/s in 10 s: 500 in all, N(t) = 5 t^2, so the first 125 by 5 s.
        let times = times(&open(Rates::Ramp { from: 0.0, to: 100.0 }, 10.0, Arrivals::Constant), 0, 1);
        assert_eq!(times.len(), 500);
        assert_eq!(times.iter().filter(|&&time| time < 5_000_000_000).count(), 125);
        let down = self::times(&open(Rates::Ramp { from: 100.0, to: 0.0 }, 10.0, Arrivals::Constant), 0, 1);
        assert_eq!(down.len(), 500);
        assert_eq!(down.iter().filter(|&&time| time < 5_000_000_000).count(), 375);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_the_process() {
        let open = open(Rates::Constant(2_000.0), 10.0, Arrivals::Poisson);
        let mut all = [times(&open, 0, 2), times(&open, 1, 2)].concat();
        all.sort_unstable();
        // 20,000 with a deviation of 141; the seed is fixed.
        assert!((19_400..20_600).contains(&all.len()), "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.05, "exponential gaps deviate by their mean: {}", deviation / mean);
    }

    proptest! {
        #[test]
        fn threads_share_a_schedule_without_loss(from in 0.0_f64..2_000.0, to in 0.0_f64..2_000.0, seconds in 0.1_f64..5.0, threads in 1_u32..5) {
            let open = open(Rates::Ramp { from, to }, seconds, Arrivals::Constant);
            let alone = times(&open, 0, 1);
            let mut shared: Vec<u64> = (0..threads).flat_map(|thread| times(&open, thread, threads)).collect();
            shared.sort_unstable();
            prop_assert_eq!(&alone, &shared);
            prop_assert!(alone.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!((alone.len() as f64 - (from + to) / 2.0 * seconds).abs() <= 1.0);
            prop_assert!(alone.last().is_none_or(|&last| last as f64 <= seconds * 1e9));
        }
    }
}
