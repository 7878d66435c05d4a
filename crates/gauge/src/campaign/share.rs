//! A workload for several generators: each gets its share of the load, and all together send what one would.

use std::net::SocketAddr;

use crate::load::workload::{Closed, Load, Open, Rates, Source, Span, Workload};

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
    let mut own = workload.clone();
    own.load = match &workload.load {
        Load::Closed(load) => Load::Closed(closed(load, index, count)?),
        Load::Open(load) => Load::Open(open(load, index, count)?),
        Load::Phases(phases) => {
            let mut phases = phases.clone();
            for phase in &mut phases {
                phase.closed = phase.closed.as_ref().map(|load| closed(load, index, count)).transpose()?;
                phase.open = phase.open.as_ref().map(|load| open(load, index, count)).transpose()?;
            }
            Load::Phases(phases)
        }
    };
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

/// The share of a number; the first ones get what is left over.
fn part(total: u64, index: u32, count: u32) -> u64 {
    let (index, count) = (u64::from(index), u64::from(count));
    total / count + u64::from(index < total % count)
}

fn users(total: u32, index: u32, count: u32) -> u32 {
    part(u64::from(total), index, count) as u32
}

fn closed(load: &Closed, index: u32, count: u32) -> Result<Closed, String> {
    let most = match load.users {
        Span::Constant(users) => users,
        Span::Ramp { from, to } => from.max(to),
    };
    if most < count {
        return Err(format!("a load of {most} users cannot be spread over {count} generators"));
    }
    if let Some(few) = load.iterations.filter(|iterations| *iterations < u64::from(most)) {
        return Err(format!("{few} requests of {most} users cannot be spread over {count} generators"));
    }
    let span = match load.users {
        Span::Constant(total) => Span::Constant(users(total, index, count)),
        // A generator without a user at one end of a ramp would have nothing to begin with.
        Span::Ramp { from, to } => {
            Span::Ramp { from: users(from, index, count).max(1), to: users(to, index, count).max(1) }
        }
    };
    let iterations = load.iterations.map(|total| part(total, index, count));
    Ok(Closed { users: span, iterations, ..load.clone() })
}

fn open(load: &Open, index: u32, count: u32) -> Result<Open, String> {
    let connections = users(load.connections, index, count);
    if connections == 0 {
        return Err(format!("{} connections cannot be spread over {count} generators", load.connections));
    }
    let share = |rate: f64| rate / f64::from(count);
    let rate = match load.rate {
        Rates::Constant(rate) => Rates::Constant(share(rate)),
        Rates::Ramp { from, to } => Rates::Ramp { from: share(from), to: share(to) },
    };
    Ok(Open { rate, connections, ..load.clone() })
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
