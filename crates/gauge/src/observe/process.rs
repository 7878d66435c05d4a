//! `/proc` of processes (proc(5)), as texts in and numbers out, so that those of another machine are read in the same way.

use std::fs;

use super::Reading;

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its parent.
    pub parent: u32,
    /// Process group.
    pub group: i32,
    /// CPU time in user mode, in clock ticks; of ended threads too.
    pub user_ticks: u64,
    /// CPU time in the kernel, in clock ticks; of ended threads too.
    pub system_ticks: u64,
    /// Threads.
    pub threads: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
    /// Resident memory, in pages.
    pub rss_pages: u64,
    /// Whether it has ended and only waits to be noticed.
    pub zombie: bool,
}

impl Stat {
    /// Reads the line. The name in it is in brackets and may hold anything, brackets included.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = &text[text.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Field 3 of the manual, the state, is the first here.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            parent: number(4)? as u32,
            group: fields.get(2)?.parse().ok()?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            threads: number(20)? as u32,
            start_ticks: number(22)?,
            rss_pages: number(24)?,
            zombie: matches!(fields.first(), Some(&("Z" | "X"))),
        })
    }

    /// That of a process of this machine.
    pub fn of(pid: u32) -> Option<Self> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// Proportional memory in bytes, of `/proc/PID/smaps_rollup`.
pub fn pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Nanoseconds on a processor, of `/proc/PID/task/TID/schedstat`.
pub fn schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Voluntary and involuntary context switches, of `/proc/PID/task/TID/status`.
pub fn switches(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].trim().parse().ok()
    };
    Some((field("voluntary_ctxt_switches:")?, field("nonvoluntary_ctxt_switches:")?))
}

/// The units in which `/proc` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// Clock ticks per second.
    pub ticks: u64,
    /// Bytes of a page.
    pub page: u64,
}

impl Units {
    /// Those of this machine.
    pub fn here() -> Self {
        Units { ticks: rustix::param::clock_ticks_per_second(), page: rustix::param::page_size() as u64 }
    }
}

/// What is known of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    /// CPU time in clock ticks, user and system; of ended threads too.
    pub user_ticks: u64,
    /// See `user_ticks`.
    pub system_ticks: u64,
    /// Nanoseconds on a processor of the threads that live; `None` when the kernel does not say.
    pub on_cpu_ns: Option<u64>,
    /// Resident memory, in pages.
    pub rss_pages: u64,
    /// Proportional memory; `None` when the kernel does not say.
    pub pss_bytes: Option<u64>,
    /// Threads.
    pub threads: u32,
    /// Open file descriptors.
    pub descriptors: Option<u32>,
    /// Context switches of the threads that live.
    pub voluntary: u64,
    /// See `voluntary`.
    pub involuntary: u64,
}

impl Process {
    /// A process of this machine; `None` when it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.zombie)?;
        let mut process = Process {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            on_cpu_ns: Some(0),
            rss_pages: stat.rss_pages,
            pss_bytes: fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().as_deref().and_then(pss),
            threads: stat.threads,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok().map(|list| list.count() as u32),
            ..Process::default()
        };
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).ok();
            let Some(status) = read("status") else { continue };
            if let Some((voluntary, involuntary)) = switches(&status) {
                process.voluntary += voluntary;
                process.involuntary += involuntary;
            }
            let on_cpu = read("schedstat").as_deref().and_then(schedstat);
            process.on_cpu_ns = process.on_cpu_ns.zip(on_cpu).map(|(sum, one)| sum + one);
        }
        Some(process)
    }
}

/// Processes as one part.
pub fn reading(processes: &[Process], units: Units) -> Reading {
    let ticks = |of: fn(&Process) -> u64| processes.iter().map(of).sum::<u64>() as f64 / units.ticks as f64;
    let on_cpu_ns: Option<u64> = processes.iter().map(|process| process.on_cpu_ns).sum();
    Reading {
        user_s: Some(ticks(|process| process.user_ticks)),
        system_s: Some(ticks(|process| process.system_ticks)),
        on_cpu_s: on_cpu_ns.map(|ns| ns as f64 / 1e9),
        // What has ended has no memory; that is not a measurement of it.
        rss_bytes: (!processes.is_empty())
            .then(|| processes.iter().map(|process| process.rss_pages).sum::<u64>() * units.page),
        pss_bytes: processes
            .iter()
            .map(|process| process.pss_bytes)
            .sum::<Option<u64>>()
            .filter(|_| !processes.is_empty()),
        voluntary: Some(processes.iter().map(|process| process.voluntary).sum()),
        involuntary: Some(processes.iter().map(|process| process.involuntary).sum()),
        throttled_s: None,
        processes: processes.len() as u32,
        threads: Some(processes.iter().map(|process| process.threads).sum()),
        descriptors: processes.iter().map(|process| process.descriptors).sum(),
    }
}

/// All processes of this machine.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The children of a process, their children and so on, that have not ended.
pub fn descendants(of: u32) -> Vec<u32> {
    let known: Vec<(u32, Stat)> = all().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = known.iter().filter(|(_, stat)| stat.parent == parent && !stat.zombie);
        found.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// The processes of a group that have not ended.
pub fn of_group(group: i32) -> Vec<u32> {
    all().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.group == group && !stat.zombie)).collect()
}
