//! What the operating system knows of this process, under the names that Prometheus client libraries agreed on.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::Exposition;

/// One reading of `/proc/self`.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) cpu_seconds: f64,
    threads: u64,
    virtual_bytes: u64,
    pub(super) resident_bytes: u64,
}

impl Reading {
    /// Reads it; none where it cannot be read.
    pub(super) fn take() -> Option<Reading> {
        std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse_stat(&stat))
    }
}

/// Writes the families of the process; what cannot be read is left out, never 0.
pub(super) fn collect(out: &mut Exposition<'_>, started: SystemTime) -> fmt::Result {
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    out.gauge("process_start_time_seconds", "Start of the process since the Unix epoch", |s| s.add(&[], started))?;
    if let Some(reading) = Reading::take() {
        let p = &reading;
        out.counter("process_cpu_seconds", "User and system CPU time", |s| s.add(&[], p.cpu_seconds))?;
        out.gauge("process_resident_memory_bytes", "Resident memory", |s| s.add(&[], p.resident_bytes))?;
        out.gauge("process_virtual_memory_bytes", "Virtual memory", |s| s.add(&[], p.virtual_bytes))?;
        out.gauge("process_threads", "Operating system threads", |s| s.add(&[], p.threads))?;
    }
    if let Ok(fds) = std::fs::read_dir("/proc/self/fd") {
        // The listing itself holds one.
        let open = (fds.count() as u64).saturating_sub(1);
        out.gauge("process_open_fds", "Open file descriptors", |s| s.add(&[], open))?;
    }
    if let Some(max) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        out.gauge("process_max_fds", "Most file descriptors that may be open", |s| s.add(&[], max))?;
    }
    Ok(())
}

/// Reads `/proc/PID/stat` (proc_pid_stat(5)).
fn parse_stat(stat: &str) -> Option<Reading> {
    // The second field is the program's name in parentheses and may hold spaces and parentheses itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field N of the manual is at index N - 3 here.
    let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Some(Reading {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
        threads: field(20)?,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * rustix::param::page_size() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_is_no_trap() {
        let stat =
            "7 (a ) (b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 3 0 1000 4096000 50 18446744073709551615";
        let process = parse_stat(stat).unwrap();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(process.cpu_seconds, 400.0 / ticks);
        assert_eq!((process.threads, process.virtual_bytes), (3, 4_096_000));
        assert_eq!(process.resident_bytes, 50 * rustix::param::page_size() as u64);
    }

    #[test]
    fn a_cut_line_is_no_reading() {
        assert_eq!(parse_stat("7 (weir) S 1 7"), None);
        assert_eq!(parse_stat(""), None);
    }
}
