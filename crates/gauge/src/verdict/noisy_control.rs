//! The lane without a gateway moved, though nothing about it changed: then the machine did, and the round says nothing of gateways either.

use super::words::{number, percent, time};
use crate::load::report::Measurement;
use crate::stats::median;

/// How far the lane may be from its median over the rounds.
const MOVED: f64 = 0.10;

/// Differences of response times below this are the kernel's timers and scheduler, not a machine that is slower.
const FINEST_MS: f64 = 0.05;

/// Rounds from which on there is a median to be far from.
const ROUNDS: usize = 3;

/// The lane without a gateway in one round.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    /// Which round.
    pub round: u32,
    /// What was measured there.
    pub total: &'a Measurement,
}

/// The rounds of one workload in which the lane without a gateway moved, with the evidence. In a closed loop its rate is looked at, in an open loop,
/// where the rate is given, its median response time.
pub fn noisy_rounds(controls: &[Control<'_>]) -> Vec<(u32, String)> {
    let open = controls.iter().any(|control| control.total.rate.requested.is_some());
    let figure = |control: &Control<'_>| {
        if open {
            control.total.latency.as_ref().and_then(|latency| latency.p50_ms)
        } else {
            control.total.rate.achieved
        }
    };
    let values: Vec<(u32, f64)> = controls
        .iter()
        .filter_map(|control| Some((control.round, figure(control).filter(|value| *value > 0.0)?)))
        .collect();
    let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let Some(middle) = median(&all).filter(|_| all.len() >= ROUNDS) else {
        return Vec::new();
    };
    let words = |value: f64| if open { time(value) } else { format!("{}/s", number(value)) };
    let what = if open { "median response time" } else { "rate" };
    values
        .into_iter()
        .filter(|(_, value)| {
            let off = (value - middle).abs();
            off > middle * MOVED && (!open || off > FINEST_MS)
        })
        .map(|(round, value)| {
            let evidence = format!(
                "in round {round} the lane without a gateway had a {what} of {}, {} {} its {} over {} rounds (at most {} is allowed)",
                words(value),
                percent((value / middle - 1.0).abs()),
                if value > middle { "above" } else { "below" },
                words(middle),
                all.len(),
                percent(MOVED),
            );
            (round, evidence)
        })
        .collect()
}
