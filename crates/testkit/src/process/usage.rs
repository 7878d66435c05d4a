//! What a process uses and which are below it, from /proc.

use std::fs;
use std::io::{self, Error};
use std::time::Duration;

/// A reading of /proc/PID.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// The most that was ever resident, bytes (VmHWM).
    pub peak_resident_bytes: u64,
    /// CPU time in user mode since the start; the kernel counts in ticks of 10 ms.
    pub user_cpu: Duration,
    /// CPU time in the kernel since the start; ticks of 10 ms.
    pub system_cpu: Duration,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl Usage {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let missing = |what: &str| Error::other(format!("no {what}"));
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).ok_or_else(|| missing(name))
        };
        // The second field is the program's name in parentheses and may hold anything; utime and stime are the 14th and 15th.
        let after_name = stat.rsplit_once(')').ok_or_else(|| missing("stat"))?.1;
        let ticks: Vec<u64> =
            after_name.split_whitespace().skip(11).take(2).filter_map(|value| value.parse().ok()).collect();
        let [user, system] = ticks[..] else {
            return Err(missing("utime and stime"));
        };
        let per_second = rustix::param::clock_ticks_per_second();
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / per_second);
        Ok(Self {
            resident_bytes: field("VmRSS")? * 1024,
            peak_resident_bytes: field("VmHWM")? * 1024,
            user_cpu: time(user),
            system_cpu: time(system),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            threads: field("Threads")? as usize,
        })
    }
}

/// The letter of the process's state: R, S, D, T (stopped), Z (ended, not waited for); `None` when there is no such process.
pub(super) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The children of a process, and their children.
pub(super) fn descendants(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let below: Vec<u32> = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, below].concat()
}
