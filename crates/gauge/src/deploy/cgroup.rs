//! Control groups: caps that a process cannot leave, and counters that lose no child (cgroups(7)). Version 2 where its controllers are,
//! else version 1; and nothing at all where this user may not make any, as in most containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cgroups {
    /// One directory for everything, memory included.
    V2 { parent: PathBuf },
    /// A directory for each controller.
    V1 { accounting: Option<PathBuf>, memory: Option<PathBuf> },
}

/// Where the groups of this process are, by controller; the empty name is version 2.
fn own_groups() -> Vec<(Vec<String>, String)> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?.split(',').map(str::to_owned).collect();
        Some((controllers, parts.next()?.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Mount point and type of each mounted hierarchy, with its options.
fn mounts() -> Vec<(PathBuf, bool, String)> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            [_, at, "cgroup2", options, ..] => Some((PathBuf::from(at), true, options.to_owned())),
            [_, at, "cgroup", options, ..] => Some((PathBuf::from(at), false, options.to_owned())),
            _ => None,
        }
    };
    text.lines().filter_map(line).collect()
}

impl Cgroups {
    /// What can be used here, determined by trying.
    pub(super) fn find() -> Option<Self> {
        let (mounts, own) = (mounts(), own_groups());
        for (at, v2, _) in &mounts {
            if !v2 {
                continue;
            }
            let group =
                own.iter().find(|(controllers, _)| controllers == &[String::new()]).map(|(_, path)| path.as_str());
            for parent in [at.join(group.unwrap_or("/").trim_start_matches('/')), at.clone()] {
                // Without the cpu controller cpu.stat is there and has the times all the same; without memory there is no cap, and version 1
                // may have one.
                if probe(&parent, "memory.max") == Some(true) && parent.join("cpu.stat").exists() {
                    return Some(Cgroups::V2 { parent });
                }
            }
        }
        let v1 = |controller: &str, file: &str| {
            let of = |options: &str| options.split(',').any(|option| option == controller);
            let (at, ..) = mounts.iter().find(|(_, v2, options)| !v2 && of(options))?;
            let group = own.iter().find(|(controllers, _)| controllers.iter().any(|one| one == controller))?;
            let candidates = [at.join(group.1.trim_start_matches('/')), at.clone()];
            candidates.into_iter().find(|parent| probe(parent, file) == Some(true))
        };
        let accounting = v1("cpuacct", "cpuacct.usage_user");
        let memory = v1("memory", "memory.limit_in_bytes");
        (accounting.is_some() || memory.is_some()).then_some(Cgroups::V1 { accounting, memory })
    }

    /// Whether memory can be capped.
    pub(super) fn caps_memory(&self) -> bool {
        match self {
            Cgroups::V2 { .. } => true,
            Cgroups::V1 { memory, .. } => memory.is_some(),
        }
    }

    /// Makes the groups of a process, with its cap.
    pub(super) fn make(&self, name: &str, memory_bytes: Option<u64>) -> Vec<PathBuf> {
        let parents = match self {
            Cgroups::V2 { parent } => vec![parent],
            Cgroups::V1 { accounting, memory } => accounting.iter().chain(memory).collect(),
        };
        let mut made: Vec<PathBuf> = Vec::new();
        for parent in parents {
            let group = parent.join(name);
            if made.contains(&group) || fs::create_dir(&group).is_err() {
                continue;
            }
            if let Some(bytes) = memory_bytes {
                for file in ["memory.max", "memory.limit_in_bytes"] {
                    if group.join(file).exists() {
                        let _ = fs::write(group.join(file), bytes.to_string());
                    }
                }
            }
            made.push(group);
        }
        made
    }
}

/// Whether a group can be made below `parent`, and if so, whether it has this file.
fn probe(parent: &Path, file: &str) -> Option<bool> {
    let group = parent.join(format!("gauge-probe-{}", std::process::id()));
    fs::create_dir(&group).ok()?;
    let has = group.join(file).exists();
    let _ = fs::remove_dir(&group);
    Some(has)
}

/// The processes in groups.
pub(super) fn members(groups: &[PathBuf]) -> Vec<u32> {
    let read = |group: &PathBuf| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = groups
        .iter()
        .flat_map(|group| read(group).lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// CPU time of a group in user mode, in the kernel, and together, seconds; of ended processes too. In version 1 the first two go in steps of
/// a tick.
pub(super) fn cpu_s(groups: &[PathBuf]) -> Option<(f64, f64, f64)> {
    groups.iter().find_map(|group| {
        let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<f64>().ok();
        if let Some(user) = number("cpuacct.usage_user") {
            return Some((user / 1e9, number("cpuacct.usage_sys")? / 1e9, number("cpuacct.usage")? / 1e9));
        }
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        let field = |name: &str| {
            let line = stat.lines().find(|line| line.split(' ').next() == Some(name))?;
            line.split(' ').nth(1)?.parse::<f64>().ok()
        };
        Some((field("user_usec")? / 1e6, field("system_usec")? / 1e6, field("usage_usec")? / 1e6))
    })
}

/// Seconds in which the quota of a group held it up: `throttled_usec` of version 2, `throttled_time` of version 1.
pub(super) fn throttled_s(groups: &[PathBuf]) -> Option<f64> {
    groups.iter().find_map(|group| {
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        field("throttled_usec ").map(|us| us / 1e6).or_else(|| field("throttled_time ").map(|ns| ns / 1e9))
    })
}

/// Kills whatever is in groups.
pub(super) fn kill(groups: &[PathBuf]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = members(groups);
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes empty groups.
pub(super) fn remove(groups: &[PathBuf]) {
    for group in groups {
        let deadline = Instant::now() + Duration::from_secs(1);
        // The last process may be on its way out.
        while fs::remove_dir(group).is_err_and(|error| error.raw_os_error() == Some(16)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
