//! A load as k6's scenarios: one for each phase, one after the other.

use std::time::Duration;

use super::super::{ExternalError, Single, Tool};
use crate::load::workload::{Arrivals, Closed, Load, Open, Rates, Span, Think, Vary, Workload};

/// The shortest that k6 takes.
const SHORTEST: Duration = Duration::from_secs(1);
/// For a load whose length its requests decide.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A phase of the load as a scenario.
pub(super) struct Scenario<'w> {
    /// Of the phase; `load` where there are none.
    pub(super) name: &'w str,
    pub(super) measured: bool,
    pub(super) load: Single<'w>,
    start: Duration,
    /// In messages: which phase this is, where there are phases.
    place: String,
}

/// The scenarios of a load, in order.
pub(super) fn all(workload: &Workload) -> Result<Vec<Scenario<'_>>, ExternalError> {
    if !workload.setup.is_empty() {
        return Err(Tool::K6.cannot("`setup`, which its figures would include"));
    }
    let mut all = Vec::new();
    let mut add = |name, measured, load, place| {
        all.push(Scenario { name, measured, load, start: Duration::ZERO, place });
    };
    match &workload.load {
        Load::Closed(closed) => add("load", true, Single::Closed(closed), String::new()),
        Load::Open(open) => add("load", true, Single::Open(open), String::new()),
        Load::Phases(phases) => {
            for phase in phases {
                let load = match (&phase.closed, &phase.open) {
                    (Some(closed), None) => Single::Closed(closed),
                    (None, Some(open)) => Single::Open(open),
                    _ => {
                        let what = format!("phase `{}`: neither `closed` nor `open`, or both", phase.name);
                        return Err(Tool::K6.cannot(what));
                    }
                };
                add(&phase.name, !phase.warmup, load, format!("phase `{}`: ", phase.name));
            }
        }
    }
    let last = all.len().saturating_sub(1);
    let mut start = Duration::ZERO;
    for (number, scenario) in all.iter_mut().enumerate() {
        scenario.start = start;
        start += match (scenario.planned(), &scenario.load) {
            (Some(length), _) => length,
            (None, Single::Closed(closed)) if number < last => match closed.duration {
                // Its requests may end it before.
                Some(most) => most,
                None => {
                    return Err(scenario.cannot(
                        "`closed.iterations` without `closed.duration`: when the next phase begins must be known before",
                    ));
                }
            },
            (None, _) => Duration::ZERO,
        };
    }
    Ok(all)
}

impl<'w> Scenario<'w> {
    fn cannot(&self, what: &str) -> ExternalError {
        Tool::K6.cannot(format!("{}{what}", self.place))
    }

    /// How long it takes by plan; none where its requests end it.
    pub(super) fn planned(&self) -> Option<Duration> {
        match self.load {
            Single::Closed(closed) => closed.duration.filter(|_| closed.iterations.is_none()),
            Single::Open(open) => Some(open.duration),
        }
    }

    /// Longest time, where there is one.
    pub(super) fn most(&self) -> Option<Duration> {
        match self.load {
            Single::Closed(closed) => closed.duration,
            Single::Open(open) => Some(open.duration),
        }
    }

    pub(super) fn think(&self) -> Option<Think> {
        match self.load {
            Single::Closed(closed) => closed.think,
            Single::Open(_) => None,
        }
    }

    /// An element of k6's option `scenarios`.
    pub(super) fn option(&self, number: usize, stop: Duration) -> Result<String, ExternalError> {
        if self.most().is_some_and(|most| most < SHORTEST) {
            return Err(self.cannot("a `duration` below 1 s"));
        }
        let executor = match self.load {
            Single::Closed(closed) => self.closed(closed, stop)?,
            Single::Open(open) => self.open(open)?,
        };
        let tags = if self.measured { "{ measured: 'yes' }" } else { "{}" };
        Ok(format!(
            "    p{number}: {{ exec: 'p{number}', startTime: {}, gracefulStop: {}, tags: {tags}, {executor} }},\n",
            seconds(self.start),
            seconds(stop),
        ))
    }

    fn closed(&self, closed: &Closed, stop: Duration) -> Result<String, ExternalError> {
        Ok(match (closed.users, closed.iterations, closed.duration) {
            (Span::Constant(users), None, Some(duration)) => {
                format!("executor: 'constant-vus', vus: {users}, duration: {}", seconds(duration))
            }
            (Span::Constant(users), Some(requests), duration) => {
                let limit = seconds(duration.unwrap_or(LONGEST));
                let all = u64::from(users);
                if requests % all == 0 {
                    let each = requests / all;
                    format!("executor: 'per-vu-iterations', vus: {users}, iterations: {each}, maxDuration: {limit}")
                } else {
                    let users = all.min(requests);
                    format!("executor: 'shared-iterations', vus: {users}, iterations: {requests}, maxDuration: {limit}")
                }
            }
            (Span::Ramp { from, to }, None, Some(duration)) => format!(
                "executor: 'ramping-vus', startVUs: {from}, stages: [{{ target: {to}, duration: {} }}], gracefulRampDown: {}",
                seconds(duration),
                seconds(stop),
            ),
            _ => return Err(self.cannot("a changing number of `closed.users` with `closed.iterations`")),
        })
    }

    fn open(&self, open: &Open) -> Result<String, ExternalError> {
        if open.arrivals == Arrivals::Poisson {
            return Err(self.cannot("`open.arrivals: poisson`"));
        }
        let users = open.connections;
        let workers = format!("preAllocatedVUs: {users}, maxVUs: {users}");
        Ok(match open.rate {
            Rates::Constant(rate) => {
                let (per, [rate]) = self.whole([rate])?;
                format!(
                    "executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '{per}s', duration: {}, {workers}",
                    seconds(open.duration)
                )
            }
            Rates::Ramp { from, to } => {
                let (per, [from, to]) = self.whole([from, to])?;
                format!(
                    "executor: 'ramping-arrival-rate', startRate: {from}, timeUnit: '{per}s', stages: [{{ target: {to}, duration: {} }}], {workers}",
                    seconds(open.duration)
                )
            }
        })
    }

    /// Rates as k6 has them: whole numbers in so many seconds.
    fn whole<const N: usize>(&self, rates: [f64; N]) -> Result<(u32, [f64; N]), ExternalError> {
        // A share that nothing measures.
        const OFF: f64 = 1e-4;
        let scales = [1, 10, 60, 100, 1000, 3600, 86_400];
        let whole = |per: u32| rates.map(|rate| (rate * f64::from(per)).round());
        let fits = |per: &u32| {
            let exact = |(rate, whole): (&f64, f64)| (rate * f64::from(*per) - whole).abs() <= whole * OFF;
            rates.iter().zip(whole(*per)).all(exact)
        };
        let per = scales.into_iter().find(fits).ok_or_else(|| self.cannot("an `open.rate` this low"))?;
        Ok((per, whole(per)))
    }
}

/// The time that a user thinks, as a JavaScript expression of seconds.
pub(super) fn pause(think: Think) -> String {
    let mean = think.mean.as_secs_f64();
    match think.vary {
        Vary::None => mean.to_string(),
        Vary::Uniform => format!("Math.random() * {}", 2.0 * mean),
        Vary::Exponential => format!("-Math.log(1 - Math.random()) * {mean}"),
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("'{}s'", duration.as_secs_f64())
}
