//! Something that should be the same in every round was not: the baseline, or the frequency of the processors. Then the machine moved, and the round says
//! nothing of gateways either.

use std::collections::BTreeMap;

use super::words::{number, percent, time};
use crate::results::report::Measurement;
use crate::stats::median;

/// How far a round may be from the median over the rounds.
const MOVED: f64 = 0.10;

/// Differences of latency below this are the kernel's timers and scheduler, not a machine that is slower.
const FINEST_MS: f64 = 0.05;

/// Rounds from which on there is a median to be far from.
const ROUNDS: usize = 3;

/// A round that is far from the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Which.
    pub round: u32,
    /// Its value.
    pub value: f64,
    /// The median over the rounds.
    pub median: f64,
}

impl Moved {
    /// `12 % above its 3.0 over 10 rounds`.
    fn words(&self, words: impl Fn(f64) -> String) -> String {
        let side = if self.value > self.median { "above" } else { "below" };
        let off = percent((self.value / self.median - 1.0).abs());
        format!(
            "{}, {off} {side} the median of the rounds, {} (at most {} is allowed)",
            words(self.value),
            words(self.median),
            percent(MOVED)
        )
    }

    /// Evidence for a frequency.
    pub fn frequency(&self) -> String {
        format!("in round {} the processors ran at {}", self.round, self.words(|mhz| format!("{} MHz", number(mhz))))
    }
}

/// The rounds whose value is far from the median, and by more than `finest`.
pub fn moved(values: &[(u32, f64)], finest: f64) -> Vec<Moved> {
    let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let Some(median) = median(&all).filter(|_| all.len() >= ROUNDS) else {
        return Vec::new();
    };
    let far = |(_, value): &&(u32, f64)| (value - median).abs() > (median * MOVED).max(finest);
    values.iter().filter(far).map(|(round, value)| Moved { round: *round, value: *value, median }).collect()
}

/// The baseline in one round.
#[derive(Debug, Clone, Copy)]
pub struct Baseline<'a> {
    /// Which round.
    pub round: u32,
    /// What was measured there.
    pub total: &'a Measurement,
}

fn is_open(trials: &[Baseline<'_>]) -> bool {
    trials.iter().any(|trial| trial.total.rate.requested.is_some())
}

/// By round: the rate of a closed loop, and the median latency of an open one.
fn figures(trials: &[Baseline<'_>], open: bool) -> Vec<(u32, f64)> {
    let figure = |trial: &Baseline<'_>| {
        if open { trial.total.latency.as_ref().and_then(|latency| latency.p50_ms) } else { trial.total.rate.achieved }
    };
    trials.iter().filter_map(|trial| Some((trial.round, figure(trial).filter(|value| *value > 0.0)?))).collect()
}

/// Systems that must have moved together before a round is the machine's doing: of two, one may have moved by itself.
const TOGETHER: usize = 3;

/// The rounds of one workload in which all systems moved together, where there is no baseline to see it by: the median over the systems of what each has
/// in the round, over its own median. One system that moves alone is that system's business.
pub fn noisy_together(systems: &[Vec<Baseline<'_>>]) -> Vec<(u32, String)> {
    let open = systems.iter().any(|trials| is_open(trials));
    let mut ratios: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trials in systems {
        let own = figures(trials, open);
        let Some(median) = median(&own.iter().map(|(_, value)| *value).collect::<Vec<_>>()) else { continue };
        let finest = if open { FINEST_MS } else { 0.0 };
        for (round, value) in own {
            let ratio = if (value - median).abs() > finest { value / median } else { 1.0 };
            ratios.entry(round).or_default().push(ratio);
        }
    }
    let enough = |ratios: &Vec<f64>| ratios.len() >= TOGETHER;
    let all = ratios.into_iter().filter(|(_, ratios)| enough(ratios));
    let values: Vec<(u32, f64)> = all.filter_map(|(round, ratios)| Some((round, median(&ratios)?))).collect();
    let what = if open { "median latencies" } else { "rates" };
    moved(&values, 0.0)
        .into_iter()
        .map(|moved| {
            let words = moved.words(|ratio| format!("{ratio:.2} times their own medians"));
            (moved.round, format!("in round {} the {what} of all systems together were {words}", moved.round))
        })
        .collect()
}

/// The rounds of one workload in which the baseline moved, with the evidence. In a closed loop its rate is looked at, in an open loop, where the rate is
/// given, its median latency.
pub fn noisy_rounds(baselines: &[Baseline<'_>]) -> Vec<(u32, String)> {
    let open = is_open(baselines);
    let values = figures(baselines, open);
    let words = |value: f64| if open { time(value) } else { format!("{}/s", number(value)) };
    let what = if open { "median latency" } else { "rate" };
    moved(&values, if open { FINEST_MS } else { 0.0 })
        .into_iter()
        .map(|moved| {
            (moved.round, format!("in round {} the baseline had a {what} of {}", moved.round, moved.words(words)))
        })
        .collect()
}
