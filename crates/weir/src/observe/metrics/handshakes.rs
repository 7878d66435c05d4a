//! TLS on listeners: handshakes by result, certificates by the time that is left.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use tls::{Failure, Names};

use super::cells::WorkerCells;
use super::exposition::Exposition;

/// How a client's TLS handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeResult {
    /// With a connection.
    Done {
        /// Whether an earlier session was resumed.
        is_resumed: bool,
        /// TLS 1.3, else 1.2.
        is_tls13: bool,
    },
    /// The client, or what it sent, was refused.
    Failed(Failure),
    /// It took too long.
    Late,
    /// It was closed to make room for others.
    Displaced,
}

impl HandshakeResult {
    /// Number of results that are counted apart.
    pub(super) const COUNT: usize = 6 + Failure::ALL.len();

    pub(super) fn position(self) -> usize {
        match self {
            HandshakeResult::Done { is_resumed, is_tls13 } => usize::from(is_resumed) * 2 + usize::from(is_tls13),
            HandshakeResult::Late => 4,
            HandshakeResult::Displaced => 5,
            HandshakeResult::Failed(failure) => {
                6 + Failure::ALL.iter().position(|one| *one == failure).unwrap_or_default()
            }
        }
    }

    fn all() -> impl Iterator<Item = HandshakeResult> {
        let done = |(is_resumed, is_tls13)| HandshakeResult::Done { is_resumed, is_tls13 };
        let done = [(false, false), (false, true), (true, false), (true, true)].into_iter().map(done);
        let others = [HandshakeResult::Late, HandshakeResult::Displaced];
        done.chain(others).chain(Failure::ALL.into_iter().map(HandshakeResult::Failed))
    }

    /// Values of the labels `result` and `version`.
    fn labels(self) -> (&'static str, &'static str) {
        match self {
            HandshakeResult::Done { is_resumed, is_tls13 } => {
                (if is_resumed { "resumed" } else { "full" }, if is_tls13 { "1.3" } else { "1.2" })
            }
            HandshakeResult::Failed(failure) => (failure.reason(), ""),
            HandshakeResult::Late => ("tls_timeout", ""),
            HandshakeResult::Displaced => ("tls_overload", ""),
        }
    }
}

/// A connection whose ClientHello is waited for.
pub struct HelloAwaited(Arc<WorkerCells>);

impl HelloAwaited {
    pub(super) fn new(cells: Arc<WorkerCells>) -> Self {
        cells.hellos_awaited.add(1);
        HelloAwaited(cells)
    }
}

impl Drop for HelloAwaited {
    fn drop(&mut self) {
        self.0.hellos_ended.add(1);
    }
}

/// Writes what workers counted. Results that never occurred are left out, but for those of success.
pub(super) fn handshakes<'c>(
    cells: impl Iterator<Item = &'c WorkerCells> + Clone,
    out: &mut Exposition<'_>,
) -> fmt::Result {
    out.counter("tls_handshakes", "TLS handshakes of clients: full, resumed, or why they failed", |s| {
        for result in HandshakeResult::all() {
            let count: u64 = cells.clone().map(|cells| cells.handshakes[result.position()].get()).sum();
            if count > 0 {
                let (result, version) = result.labels();
                s.add(&[("result", result), ("version", version)], count)?;
            }
        }
        Ok(())
    })
}

/// Writes how long the certificates of listeners are valid.
///
/// # Errors
/// Only those of `out`.
pub fn collect_certificates<'n>(names: impl Iterator<Item = &'n Names>, out: &mut Exposition<'_>) -> fmt::Result {
    let now = SystemTime::now();
    let mut hosts: Vec<(String, f64)> = Vec::new();
    for (host, not_after) in names.flat_map(Names::hosts) {
        let left = match not_after.duration_since(now) {
            Ok(left) => left.as_secs_f64(),
            Err(error) => -error.duration().as_secs_f64(),
        };
        // One host on several listeners: the certificate that ends first.
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, least)) => *least = least.min(left),
            None => hosts.push((host, left)),
        }
    }
    let about = "Seconds until the certificate of a host expires; negative once it has";
    out.gauge("tls_certificate_expiry_seconds", about, |s| {
        hosts.iter().try_for_each(|(host, left)| s.add(&[("host", host)], super::Value::Number(left.round())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_a_place_and_a_name_of_its_own() {
        let mut places: Vec<usize> = HandshakeResult::all().map(HandshakeResult::position).collect();
        places.sort_unstable();
        assert_eq!(places, (0..HandshakeResult::COUNT).collect::<Vec<_>>());
        let mut labels: Vec<_> = HandshakeResult::all().map(HandshakeResult::labels).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), HandshakeResult::COUNT);
    }
}
