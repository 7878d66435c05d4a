//! The users of a scenario: requests at a constant rate, each with what became of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::load::{Lost, Prepared};

/// Most users: as many requests wait for a response at once.
const USERS: u32 = 256;
/// A pause of this process above which a trial says nothing of the gateway.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// When it was due, and when it ended.
    pub(super) due: Instant,
    pub(super) done: Instant,
    pub(super) outcome: Result<u16, Lost>,
}

impl Sent {
    /// How it went wrong, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        match self.outcome {
            Ok(200..=299) => None,
            Ok(status) => Some(format!("status {status}")),
            Err(Lost::Refused) => Some("refused".to_owned()),
            Err(Lost::Reset) => Some("reset".to_owned()),
            Err(Lost::Timeout) => Some("timeout".to_owned()),
        }
    }
}

/// Sends `rate` requests a second until `stop`. The second value is the longest that this process was held up.
pub(super) fn send(prepared: &Prepared, rate: u32, stop: &AtomicBool) -> (Vec<Sent>, Duration) {
    let (next, worst, begin) = (AtomicU32::new(0), AtomicU64::new(0), Instant::now());
    let user = |number: u32| {
        let mut sent = Vec::new();
        prepared.user(number, |request| {
            loop {
                let due = begin + Duration::from_secs(1) * next.fetch_add(1, Ordering::Relaxed) / rate;
                while Instant::now() < due && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = request();
                sent.push(Sent { due, done: Instant::now(), outcome });
            }
        });
        sent
    };
    let all = std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS.min(rate)).map(|number| scope.spawn(move || user(number))).collect();
        // A thread that only sleeps shows when the machine had no time for any.
        let tick = Duration::from_millis(10);
        while !stop.load(Ordering::Relaxed) {
            let before = Instant::now();
            std::thread::sleep(tick);
            worst.fetch_max(before.elapsed().saturating_sub(tick).as_micros() as u64, Ordering::Relaxed);
        }
        users.into_iter().flat_map(|user| user.join().unwrap_or_default()).collect()
    });
    (all, Duration::from_micros(worst.into_inner()))
}

/// Failures by kind.
pub(super) fn kinds<'s>(failed: impl Iterator<Item = &'s Sent>) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for kind in failed.filter_map(Sent::failure) {
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Clients that send the head of a request byte by byte and never end it, until one of `stops`.
pub(super) fn dribble(gateway: SocketAddr, clients: usize, stops: [&AtomicBool; 2]) {
    let open = |_| TcpStream::connect_timeout(&gateway, Duration::from_secs(2)).ok();
    let mut streams: Vec<TcpStream> = (0..clients).filter_map(open).collect();
    let head = b"GET / HTTP/1.1\r\nHost: slow.example\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'x'));
    for byte in head {
        if stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            return;
        }
        streams.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        std::thread::sleep(Duration::from_millis(50));
    }
}
