//! What processes and the machine use while a run is measured.
//!
//! A [`Reading`] is all that is known of a part (a system with all of its workers, the upstreams, the generator) at one moment: counters
//! since its start, and how much it has now. [`Watcher`] takes one when the measured load begins, one when it ends, and some between, and
//! makes a [`Usage`] of them.

pub mod machine;
pub mod process;
mod usage;

pub use usage::{Usages, Watcher};

/// A part at one moment. Counters count from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// CPU time in user mode, seconds; as a rule in steps of some milliseconds.
    pub user_s: Option<f64>,
    /// CPU time in the kernel, seconds, likewise.
    pub system_s: Option<f64>,
    /// CPU time, user mode and kernel together, to the nanosecond; without threads that have ended where the kernel counts by thread.
    pub on_cpu_s: Option<f64>,
    /// Resident memory now.
    pub rss_bytes: Option<u64>,
    /// Proportional memory now: shared pages divided among those who share them.
    pub pss_bytes: Option<u64>,
    /// Context switches because a thread waited.
    pub voluntary: Option<u64>,
    /// Context switches because a thread's time was up.
    pub involuntary: Option<u64>,
    /// Seconds in which a quota of processor time held it up.
    pub throttled_s: Option<f64>,
    /// Processes now.
    pub processes: u32,
    /// Threads now.
    pub threads: Option<u32>,
    /// Open file descriptors now.
    pub descriptors: Option<u32>,
}

impl Reading {
    /// Several parts as one.
    pub fn sum(parts: impl IntoIterator<Item = Reading>) -> Option<Reading> {
        fn both<T: std::ops::Add<Output = T>>(left: Option<T>, right: Option<T>) -> Option<T> {
            Some(left? + right?)
        }
        parts.into_iter().reduce(|left, right| Reading {
            user_s: both(left.user_s, right.user_s),
            system_s: both(left.system_s, right.system_s),
            on_cpu_s: both(left.on_cpu_s, right.on_cpu_s),
            rss_bytes: both(left.rss_bytes, right.rss_bytes),
            pss_bytes: both(left.pss_bytes, right.pss_bytes),
            voluntary: both(left.voluntary, right.voluntary),
            involuntary: both(left.involuntary, right.involuntary),
            throttled_s: both(left.throttled_s, right.throttled_s),
            processes: left.processes + right.processes,
            threads: both(left.threads, right.threads),
            descriptors: both(left.descriptors, right.descriptors),
        })
    }
}

#[cfg(test)]
mod tests;
