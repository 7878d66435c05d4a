//! The machine as a whole: `/proc/stat` and `/proc/loadavg` (proc(5)).

use crate::campaign::results::Machine;

/// Processor time since the machine started, all processors together, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    /// All of it.
    pub total: u64,
    /// Spent waiting for something to do.
    pub idle: u64,
    /// Given by the host to others.
    pub steal: u64,
}

impl Ticks {
    /// Reads `/proc/stat`.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.starts_with("cpu "))?;
        let fields: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest times are in user and nice already.
        let of = |index: usize| fields.get(index).copied().unwrap_or(0);
        Some(Ticks { total: fields.iter().take(8).sum(), idle: of(3) + of(4), steal: of(7) })
    }

    /// Those of this machine.
    pub fn here() -> Option<Self> {
        Ticks::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }
}

/// The load average of the last minute, of `/proc/loadavg`.
pub fn load1(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// What happened between two moments.
pub fn between(begin: Option<Ticks>, end: Option<Ticks>, load1: Option<f64>) -> Machine {
    let shares = begin.zip(end).and_then(|(begin, end)| {
        let total = end.total.checked_sub(begin.total).filter(|total| *total > 0)? as f64;
        let idle = end.idle.saturating_sub(begin.idle) as f64;
        let steal = end.steal.saturating_sub(begin.steal) as f64;
        Some((steal / total, ((total - idle - steal) / total).max(0.0)))
    });
    Machine { steal: shares.map(|shares| shares.0), busy: shares.map(|shares| shares.1), load1 }
}
