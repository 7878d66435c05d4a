//! Which processors each part gets.

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::plan::{Hardware, Pin};

/// Processors that this process may use.
pub fn allowed() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// Distributes the processors of a machine: the first ones to the system, and of the rest the first half to the upstreams and the others to
/// the generator; both share one where only one is left. Nothing is pinned where the system would take all.
pub fn choose(hardware: &Hardware, allowed: &[u32]) -> Pin {
    assign(hardware, allowed, |rest| if rest.len() == 1 { (rest, rest) } else { rest.split_at(rest.len() / 2) })
}

/// The same for a system and its upstreams on a machine without the generator.
pub fn choose_without_generator(hardware: &Hardware, allowed: &[u32]) -> Pin {
    assign(hardware, allowed, |rest| (rest, &[]))
}

/// What the system does not get is divided between upstreams and generator.
fn assign(hardware: &Hardware, allowed: &[u32], divide: impl Fn(&[u32]) -> (&[u32], &[u32])) -> Pin {
    if let Some(pin) = &hardware.pin {
        return pin.clone();
    }
    let cpus = hardware.cpus as usize;
    if cpus >= allowed.len() {
        return Pin::default();
    }
    let (system, rest) = allowed.split_at(cpus);
    let (upstream, generator) = divide(rest);
    Pin { system: system.to_vec(), upstream: upstream.to_vec(), generator: generator.to_vec() }
}
