//! One target: where it is, and the state that all workers share about it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::affinity::Token;
use super::breaker::Breaker;
use super::ewma::PeakEwma;
use super::inference::EngineState;
use super::outcome::FailureKind;
use super::time::Moment;
use crate::config::TlsPolicy;

/// Identifies a target's state for the life of the process: kept when a reload or a new DNS response keeps the address, never used
/// again for another one. Pools of idle connections are keyed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct TargetId(pub(super) u64);

/// Where to connect, after resolution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// TCP with TLS over it.
    Tls(SocketAddr, TlsIdentity),
    /// Unix stream socket.
    Unix(Arc<Path>),
}

/// Who is expected at a TLS target, and how it is connected to. Part of the address: a connection, or the health, of one identity
/// says nothing about another at the same place.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    /// Name that the certificate must be valid for.
    pub name: Arc<str>,
    /// Trust, own certificate, versions.
    pub policy: Arc<TlsPolicy>,
}

impl TlsIdentity {
    fn key(&self) -> (&str, &[u8; 32]) {
        (&self.name, &self.policy.digest)
    }
}

impl PartialEq for TlsIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for TlsIdentity {}

impl Hash for TlsIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for TlsIdentity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TlsIdentity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Address {
    /// Whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Address::Tls(..))
    }

    /// The address of a TCP target.
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) | Address::Tls(address, _) => Some(*address),
            Address::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) | Address::Tls(address, _) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One target as the current configuration describes it, with its shared state.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) address: Address,
    /// The address as text: the access log has it in every line.
    pub(super) text: Arc<str>,
    /// See [`crate::config::Target::authority`].
    pub(super) authority: Option<Arc<str>>,
    pub(super) base_path: Arc<str>,
    pub(super) weight: u32,
    /// 0 is the first: targets of a later tier get requests while none of an earlier one may be used.
    pub(super) tier: u16,
    /// What named it, if not the configuration itself.
    pub(super) source: Option<Arc<str>>,
    /// Identity in a consistent hash: follows from the address alone, so that replicas of the gateway agree.
    pub(super) hash_seed: u64,
    /// What names it in a cookie of affinity.
    pub(super) token: Option<Token>,
    /// Part of the set, not of the state: its size is configured.
    pub(super) breaker: Option<Arc<Breaker>>,
    /// Among the replicas of an inference engine.
    pub(super) slot: Option<u8>,
    pub(super) state: Arc<TargetState>,
}

impl Target {
    /// Identity of the state behind it.
    pub fn id(&self) -> TargetId {
        self.state.id
    }

    /// Where to connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The same as text.
    pub fn address_text(&self) -> &str {
        &self.text
    }

    /// What the configuration calls it: its authority, else the source that named it, else its address. Host names and services have one name,
    /// whatever addresses they lead to.
    pub fn configured_name(&self) -> &Arc<str> {
        self.authority.as_ref().or(self.source.as_ref()).unwrap_or(&self.text)
    }

    /// The `Host` that the target sees unless the route rewrites it; `None`: the client's own.
    pub fn authority(&self) -> Option<&Arc<str>> {
        self.authority.as_ref()
    }

    /// Put before every forwarded path; without a trailing slash, usually empty.
    pub fn base_path(&self) -> &Arc<str> {
        &self.base_path
    }

    /// What names it in a cookie, if targets of its upstream are named.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Healthy as far as active checks know, not drained, and not held back by its breaker. Ejection is checked separately, since it may be
    /// overruled.
    pub(super) fn alive(&self, now: Moment) -> bool {
        self.state.health() != Health::Unhealthy
            && !self.state.is_drained()
            && self.breaker.as_ref().is_none_or(|breaker| breaker.admits(now))
    }
}

/// What active checks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Not checked, or not yet: counts as healthy.
    Unknown,
    /// The last checks succeeded.
    Healthy,
    /// The last checks failed: no request goes there.
    Unhealthy,
}

/// State of a target, shared by all workers and the control thread. What every request writes, what every pick reads and what is rare lie on cache
/// lines of their own.
#[derive(Debug)]
pub(super) struct TargetState {
    pub(super) id: TargetId,
    pub(super) load: Load,
    pub(super) engine: EngineState,
    condition: Condition,
    record: Record,
}

/// Written by every request.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Load {
    /// Requests in flight in the low [`IN_FLIGHT_BITS`], attempts since the start above them: one atomic operation for both. At 100,000 a second on one
    /// target the latter begin again at 0 after 500 days.
    counts: AtomicU64,
    pub(super) ewma: PeakEwma,
}

/// Four million requests in flight at one target: more than there can be descriptors.
const IN_FLIGHT_BITS: u32 = 22;

const IN_FLIGHT_MASK: u64 = (1 << IN_FLIGHT_BITS) - 1;

/// One more in flight, one more since the start.
const ENTERED: u64 = (1 << IN_FLIGHT_BITS) + 1;

/// Read by every pick, written when something changes.
#[derive(Debug)]
#[repr(align(128))]
struct Condition {
    health: AtomicU8,
    consecutive_failures: AtomicU32,
    /// Out until then; 0 when never ejected.
    ejected_until_us: AtomicU64,
    /// Since when it is back (or new): slow start counts from here. 0: from the start of the process.
    back_since_us: AtomicU64,
    /// Since when an operator keeps requests away; 0 if nobody does.
    drained_since_us: AtomicU64,
}

/// Counts and the last probe, for people and metrics.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Record {
    failures: [AtomicU64; FailureKind::ALL.len()],
    ejections: AtomicU64,
    breaker_opened: AtomicU64,
    last_probe: Mutex<Option<Probe>>,
}

/// Result of the last active check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) at: Moment,
    /// Status in the range, or what went wrong.
    pub(super) result: Result<u16, String>,
}

impl TargetState {
    /// Of a target that appears at `since`; [`Moment::START`] for one that was there from the beginning and needs no slow start.
    pub(super) fn new(id: TargetId, since: Moment) -> TargetState {
        TargetState {
            id,
            load: Load::default(),
            engine: EngineState::default(),
            condition: Condition {
                health: AtomicU8::new(Health::Unknown as u8),
                consecutive_failures: AtomicU32::new(0),
                ejected_until_us: AtomicU64::new(0),
                back_since_us: AtomicU64::new(since.as_micros()),
                drained_since_us: AtomicU64::new(0),
            },
            record: Record::default(),
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        (self.load.counts.load(Ordering::Relaxed) & IN_FLIGHT_MASK) as u32
    }

    /// Takes a place among the requests in flight, unless `max` are taken: exact over all workers.
    pub(super) fn acquire(&self, max: Option<u32>) -> bool {
        let counts = &self.load.counts;
        // Sequentially consistent, here and in `release`: see `queue`, which must not miss a place that becomes free.
        let Some(max) = max else {
            counts.fetch_add(ENTERED, Ordering::SeqCst);
            return true;
        };
        let acquire = |word: u64| {
            (word & IN_FLIGHT_MASK < u64::from(max).min(IN_FLIGHT_MASK)).then(|| word.wrapping_add(ENTERED))
        };
        counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, acquire).is_ok()
    }

    /// Gives the place back.
    pub(super) fn release(&self) {
        self.load.counts.fetch_sub(1, Ordering::SeqCst);
    }

    /// Attempts since the start.
    pub(super) fn requests(&self) -> u64 {
        self.load.counts.load(Ordering::Relaxed) >> IN_FLIGHT_BITS
    }

    pub(super) fn health(&self) -> Health {
        match self.condition.health.load(Ordering::Relaxed) {
            1 => Health::Healthy,
            2 => Health::Unhealthy,
            _ => Health::Unknown,
        }
    }

    /// Sets the verdict of active checks; returns the one before.
    pub(super) fn set_health(&self, health: Health) -> Health {
        match self.condition.health.swap(health as u8, Ordering::Relaxed) {
            1 => Health::Healthy,
            2 => Health::Unhealthy,
            _ => Health::Unknown,
        }
    }

    pub(super) fn ejected(&self, now: Moment) -> bool {
        self.ejected_until() > now
    }

    /// End of the last ejection, [`Moment::START`] when there was none.
    pub(super) fn ejected_until(&self) -> Moment {
        Moment::from_micros(self.condition.ejected_until_us.load(Ordering::Relaxed))
    }

    pub(super) fn eject_until(&self, until: Moment) {
        let until = until.as_micros();
        self.condition.ejected_until_us.store(until, Ordering::Relaxed);
        self.condition.back_since_us.store(until, Ordering::Relaxed);
        self.record.ejections.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends an ejection, and forgets the failures that led to it.
    pub(super) fn readmit(&self, now: Moment) {
        self.condition.ejected_until_us.store(0, Ordering::Relaxed);
        self.condition.back_since_us.store(now.as_micros(), Ordering::Relaxed);
        self.clear_failures();
    }

    pub(super) fn is_drained(&self) -> bool {
        self.condition.drained_since_us.load(Ordering::Relaxed) != 0
    }

    /// Since when an operator keeps requests away.
    pub(super) fn drained_since(&self) -> Option<Moment> {
        let since = self.condition.drained_since_us.load(Ordering::Relaxed);
        (since != 0).then(|| Moment::from_micros(since))
    }

    /// Keeps requests away from now on, if nobody does yet.
    pub(super) fn drain(&self, now: Moment) {
        let since = now.as_micros().max(1);
        let _ = self.condition.drained_since_us.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Lets requests go there again. False if nobody kept them away.
    pub(super) fn undrain(&self, now: Moment) -> bool {
        let was_drained = self.condition.drained_since_us.swap(0, Ordering::Relaxed) != 0;
        if was_drained {
            self.set_back_since(now);
        }
        was_drained
    }

    /// Since when it is back; in the future while it is ejected.
    pub(super) fn back_since(&self) -> Moment {
        Moment::from_micros(self.condition.back_since_us.load(Ordering::Relaxed))
    }

    pub(super) fn set_back_since(&self, moment: Moment) {
        self.condition.back_since_us.fetch_max(moment.as_micros(), Ordering::Relaxed);
    }

    /// Ends a run of failures. A target that works costs one read.
    pub(super) fn clear_failures(&self) {
        if self.condition.consecutive_failures.load(Ordering::Relaxed) != 0 {
            self.condition.consecutive_failures.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a failure; returns how many there were in a row.
    pub(super) fn count_failure(&self, kind: FailureKind) -> u32 {
        self.record.failures[kind.index()].fetch_add(1, Ordering::Relaxed);
        self.condition
            .consecutive_failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_add(1)))
            .map_or(u32::MAX, |before| before.saturating_add(1))
    }

    pub(super) fn consecutive_failures(&self) -> u32 {
        self.condition.consecutive_failures.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self, kind: FailureKind) -> u64 {
        self.record.failures[kind.index()].load(Ordering::Relaxed)
    }

    pub(super) fn ejections(&self) -> u64 {
        self.record.ejections.load(Ordering::Relaxed)
    }

    pub(super) fn count_breaker_opened(&self) {
        self.record.breaker_opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn breaker_opened(&self) -> u64 {
        self.record.breaker_opened.load(Ordering::Relaxed)
    }

    pub(super) fn set_probe(&self, probe: Probe) {
        *super::lock(&self.record.last_probe) = Some(probe);
    }

    pub(super) fn probe(&self) -> Option<Probe> {
        super::lock(&self.record.last_probe).clone()
    }
}
