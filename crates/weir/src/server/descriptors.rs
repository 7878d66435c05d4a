//! File descriptors: a bound for client connections that leaves enough for everything else.
//!
//! Each client connection may need one to an upstream. Without a bound clients could take all descriptors, and every one of them would get
//! an error, because none is left for upstreams.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the process as a whole: standard streams, the log, admin connections, health checks, name servers, a reload.
const RESERVE: usize = 100;
/// For each worker: its event loop, its connections to Redis, an idle upstream connection or two.
const RESERVE_PER_WORKER: usize = 16;

/// The soft limit in force, after it was raised to the hard one if it is to be.
pub fn limit(raises: bool) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if !raises {
        return number(limit);
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    number(limit)
}

fn number(limit: Rlimit) -> usize {
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether so many can still be opened.
///
/// # Errors
/// Why not.
pub fn ensure(count: usize) -> io::Result<()> {
    let null = File::open("/dev/null")?;
    (1..count).map(|_| null.try_clone()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// Client connections that so many descriptors allow.
pub fn connections(limit: usize, workers: usize, listeners: usize) -> usize {
    let reserved = RESERVE + RESERVE_PER_WORKER * workers + listeners;
    (limit.saturating_sub(reserved) / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_not_reserved_is_for_clients() {
        assert_eq!(connections(1024, 4, 8), (1024 - 100 - 64 - 8) / 2);
        assert_eq!(connections(100, 4, 8), 1, "somebody must be served");
        assert!(connections(usize::MAX, 4, 8) > 1 << 40);
    }
}
