//! What the other machine prints, read.

use std::collections::BTreeSet;

use crate::observe::process::{Process, Stat, pss, schedstat};

/// `0-3,6` as a list.
pub(super) fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
                    cpus.extend(from..=to.min(from + 4096));
                }
            }
            None => cpus.extend(part.parse::<u32>().ok()),
        }
    }
    cpus
}

/// Local ports in `/proc/net/tcp`, in any state: one that is about to be free is not yet.
pub(super) fn used_ports(text: &str) -> BTreeSet<u16> {
    let port = |line: &str| {
        let local = line.split_ascii_whitespace().nth(1)?;
        u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
    };
    text.lines().filter_map(port).collect()
}

/// What `gauge_look` prints: for each process a line `P`, and the lines of its files.
pub(super) fn processes(text: &str) -> Vec<Process> {
    let mut list: Vec<Process> = Vec::new();
    let mut current: Option<Process> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("S ") {
            current = Stat::parse(rest).filter(|stat| !stat.zombie).map(|stat| Process {
                user_ticks: stat.user_ticks,
                system_ticks: stat.system_ticks,
                on_cpu_ns: Some(0),
                rss_pages: stat.rss_pages,
                threads: stat.threads,
                ..Process::default()
            });
        } else if line.starts_with("P ") {
            list.extend(current.take());
        } else if let Some(process) = &mut current {
            let number = || line.rsplit([':', ' ', '\t']).next()?.parse::<u64>().ok();
            if let Some(rest) = line.strip_prefix("C ") {
                process.on_cpu_ns = process.on_cpu_ns.zip(schedstat(rest)).map(|(sum, one)| sum + one);
            } else if line.starts_with("Pss:") {
                process.pss_bytes = pss(line);
            } else if line.starts_with("F ") {
                process.descriptors = number().map(|count| count as u32);
            } else if line.starts_with("voluntary") {
                process.voluntary += number().unwrap_or(0);
            } else if line.starts_with("nonvoluntary") {
                process.involuntary += number().unwrap_or(0);
            }
        }
    }
    list.extend(current);
    list
}

#[cfg(test)]
mod tests;
