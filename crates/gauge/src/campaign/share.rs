//! A workload for several generators: each gets its share of the load, and all together send what one would.

use std::net::SocketAddr;

use crate::load::workload::{Closed, Load, Open, Rates, Share, Source, Span, Workload};
use crate::plan::fits;

/// Numbers of a counter that a generator may use up before it meets those of the next one.
const COUNTERS: i64 = 100_000_000;

/// Shares of a load.
///
/// # Errors
/// When it is too small for so many generators.
pub(super) fn split(workload: &Workload, generators: usize) -> Result<Vec<Workload>, String> {
    let count = u32::try_from(generators).unwrap_or(u32::MAX).max(1);
    (0..count).map(|index| one(workload, index, count)).collect()
}

fn one(workload: &Workload, index: u32, count: u32) -> Result<Workload, String> {
    if count == 1 {
        return Ok(workload.clone());
    }
    fits(&workload.load, count)?;
    let mut own = workload.clone();
    own.share = Share { index, of: count };
    match &mut own.load {
        Load::Closed(_) => {}
        Load::Open(load) => *load = open(load, index, count),
        Load::Phases(phases) => {
            for phase in phases {
                if let (true, Some(closed)) = (phase.warmup, &mut phase.closed) {
                    enough(closed, count);
                }
                phase.open = phase.open.as_ref().map(|load| open(load, index, count));
            }
        }
    }
    // Else all would draw the same values, and a counter would be used twice.
    own.seed = workload.seed.wrapping_add(u64::from(index).wrapping_mul(0xD1B5_4A32_D192_ED03));
    for operation in own.operations.iter_mut().chain(&mut own.setup) {
        for source in operation.params.values_mut() {
            if let Source::Counter(from) = source {
                *from = from.saturating_add(i64::from(index) * COUNTERS);
            }
        }
    }
    Ok(own)
}

/// A warm-up is one of all generators.
fn enough(warmup: &mut Closed, count: u32) {
    warmup.users = match warmup.users {
        Span::Constant(users) => Span::Constant(users.max(count)),
        Span::Ramp { from, to } if from.max(to) < count => Span::Constant(count),
        ramp @ Span::Ramp { .. } => ramp,
    };
    let users = u64::from(warmup.users.most());
    warmup.iterations = warmup.iterations.map(|iterations| iterations.max(users));
}

fn open(load: &Open, index: u32, count: u32) -> Open {
    let share = |rate: f64| rate / f64::from(count);
    let rate = match load.rate {
        Rates::Constant(rate) => Rates::Constant(share(rate)),
        Rates::Ramp { from, to } => Rates::Ramp { from: share(from), to: share(to) },
    };
    Open { rate, connections: Share { index, of: count }.users(load.connections), ..load.clone() }
}

/// Sends requests to where another machine finds what is reached from here at an address.
pub(super) fn seen_from(workload: &mut Workload, seen: impl Fn(SocketAddr) -> SocketAddr) {
    let place = |base: &mut String| {
        let Some((scheme, rest)) = base.split_once("://") else { return };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if let Ok(here) = authority.parse::<SocketAddr>() {
            *base = format!("{scheme}://{}{path}", seen(here));
        }
    };
    place(&mut workload.base);
    let operations = workload.operations.iter_mut().chain(&mut workload.setup);
    operations.filter_map(|operation| operation.base.as_mut()).for_each(place);
}

#[cfg(test)]
mod tests;
