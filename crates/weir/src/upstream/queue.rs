//! The bounded waiting room of an upstream, over all workers: first come, first served, or tenants in turn by what their requests cost.
//!
//! A request enters when every usable target is at `max_in_flight`. Whoever gives a place back serves the head of the queue: it takes the place in that
//! request's name and hands the [`Lease`] over, so that each place wakes exactly one waiter, and no later request overtakes (a pick says busy
//! while somebody waits). The lock is taken only while somebody waits. Who is next says [`line`].
//!
//! No place is missed: a waiter is in line before it looks for a place, with a fence between; a lease gives its place back before it looks for
//! waiters, both sequentially consistent. In the one order that these have, one of the two sees the other.

mod drain;
mod line;
mod waits;

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth::Priority;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::drain::Drain;
pub use self::line::QueueEntry;
use self::line::{Line, QueueSlot};
use self::waits::Waits;
pub use self::waits::{BOUNDS, ClassWaits};
use super::Upstream;
use super::lease::Lease;
use super::set::Grant;
use super::target::TargetId;
use crate::config;

/// How often the head of the queue looks for places that become free without a request that ends: a target is healthy again, an ejection is over,
/// a breaker lets a probe through.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Why a wait ended without a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitError {
    /// There is no queue, or it is full.
    QueueFull,
    /// `queue.timeout` would run out before it is served, which is in this time.
    TooLong(Duration),
    /// `queue.timeout` ran out.
    TimedOut,
    /// The last usable target went out of service.
    Unavailable,
}

/// The line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Queue {
    /// Length of the line; read by every pick and every release.
    waiting: AtomicUsize,
    inner: Mutex<Inner>,
    pub(super) waited: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) too_long: AtomicU64,
    pub(super) timed_out: AtomicU64,
    waits: Waits,
}

#[derive(Debug, Default)]
struct Inner {
    line: Line<Waiter>,
    drain: Drain,
}

#[derive(Debug)]
struct Waiter {
    give: oneshot::Sender<Result<Lease, WaitError>>,
    priority: Priority,
    since: Instant,
    /// Targets that failed its request.
    tried: Box<[TargetId]>,
}

impl Waiter {
    /// No target has failed its request.
    fn is_free(&self) -> bool {
        self.tried.is_empty()
    }
}

impl Queue {
    /// Whether somebody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How long those who were served have waited.
    pub(super) fn waits(&self) -> Vec<ClassWaits> {
        self.waits.snapshot()
    }

    /// Gives places to those in line as long as `find` finds any; its argument is the list of targets
    /// that failed the first request in line.
    pub(super) fn serve(&self, mut find: impl FnMut(&[TargetId]) -> Grant) {
        // A place whose waiter had just left goes to the next one; if there is none, it is given back after the lock.
        let mut spare = None;
        let mut inner = super::lock(&self.inner);
        let Inner { line, drain } = &mut *inner;
        let now = Instant::now();
        while let Some((_, first)) = line.first() {
            let grant = spare.take().map_or_else(|| find(&first.tried), Grant::Lease);
            let result = match grant {
                Grant::Lease(lease) => Ok(lease),
                Grant::Unavailable => Err(WaitError::Unavailable),
                // What is free may be where it was tried: others can go there.
                Grant::Full if !first.tried.is_empty() && line.has_where(Waiter::is_free) => match find(&[]) {
                    Grant::Lease(lease) => {
                        spare = self.give_where(line, drain, lease, now);
                        if spare.is_some() {
                            break;
                        }
                        continue;
                    }
                    Grant::Unavailable | Grant::Full => break,
                },
                Grant::Full => break,
            };
            let Some(first) = line.serve() else { break };
            if result.is_ok() {
                drain.served(now);
                self.waits.observe(first.priority, now.saturating_duration_since(first.since));
            }
            if let Err(Ok(lease)) = first.give.send(result) {
                spare = Some(lease);
            }
        }
        self.waiting.store(line.len(), Ordering::SeqCst);
        drop(inner);
        drop(spare);
    }

    /// Gives a place to the first that was tried nowhere; returns it if all of those had just left.
    fn give_where(&self, line: &mut Line<Waiter>, drain: &mut Drain, lease: Lease, now: Instant) -> Option<Lease> {
        let mut lease = lease;
        while let Some(other) = line.serve_where(Waiter::is_free) {
            match other.give.send(Ok(lease)) {
                Err(Ok(back)) => lease = back,
                _ => {
                    drain.served(now);
                    self.waits.observe(other.priority, now.saturating_duration_since(other.since));
                    return None;
                }
            }
        }
        Some(lease)
    }

    fn is_first(&self, place: QueueSlot) -> bool {
        super::lock(&self.inner).line.first().is_some_and(|(first, _)| first == place)
    }

    fn release(&self, place: QueueSlot) {
        let mut inner = super::lock(&self.inner);
        if inner.line.release(place).is_some() {
            self.waiting.store(inner.line.len(), Ordering::SeqCst);
        }
    }
}

/// Enters the line now and returns the wait. Dropping the wait leaves the line; a place that was already given then goes to the next.
pub(super) fn wait(
    upstream: Arc<Upstream>,
    spec: Option<&config::Queue>,
    entry: QueueEntry,
    tried: Box<[TargetId]>,
) -> impl Future<Output = Result<Lease, WaitError>> + Send + use<> {
    let entered = spec.ok_or(WaitError::QueueFull).and_then(|spec| acquire(upstream, spec, entry, tried));
    async move {
        let (mut waiting, timeout) = entered?;
        let given = async {
            loop {
                match tokio::time::timeout(LOOK_AGAIN, &mut waiting.given).await {
                    Ok(Ok(result)) => return result,
                    Ok(Err(_disconnected)) => return Err(WaitError::Unavailable),
                    Err(_not_yet) => waiting.look_again(),
                }
            }
        };
        let result = tokio::time::timeout(timeout, given).await;
        result.unwrap_or_else(|_elapsed| {
            waiting.upstream.shared.queue.timed_out.fetch_add(1, Ordering::Relaxed);
            Err(WaitError::TimedOut)
        })
    }
}

fn acquire(
    upstream: Arc<Upstream>,
    spec: &config::Queue,
    entry: QueueEntry,
    tried: Box<[TargetId]>,
) -> Result<(Waiting, Duration), WaitError> {
    let (give, given) = oneshot::channel();
    let queue = &upstream.shared.queue;
    let place = {
        let mut inner = super::lock(&queue.inner);
        let Inner { line, drain } = &mut *inner;
        let now = Instant::now();
        let is_fair = spec.fair.is_some();
        if line.len() == 0 {
            drain.begin(now);
        } else if is_fair && let Some(time) = time_before(line, drain, &entry, spec.timeout, now) {
            queue.too_long.fetch_add(1, Ordering::Relaxed);
            return Err(WaitError::TooLong(time));
        }
        if line.len() >= spec.size {
            queue.refused.fetch_add(1, Ordering::Relaxed);
            // One of those who wait has less right to a place, or this one has none.
            let out = if is_fair { line.give_up_for(&entry, spec.size) } else { None };
            drop(out.ok_or(WaitError::QueueFull)?.give.send(Err(WaitError::QueueFull)));
        }
        let place = line.acquire(entry, Waiter { give, priority: entry.priority, since: now, tried });
        queue.waiting.store(line.len(), Ordering::SeqCst);
        queue.waited.fetch_add(1, Ordering::Relaxed);
        place
    };
    fence(Ordering::SeqCst);
    upstream.serve_waiters();
    Ok((Waiting { upstream, place, given }, spec.timeout))
}

/// How long a request would wait, if that is longer than it may, and than what is left for the exchange.
fn time_before(
    line: &Line<Waiter>,
    drain: &Drain,
    entry: &QueueEntry,
    timeout: Duration,
    now: Instant,
) -> Option<Duration> {
    let most = entry.left.map_or(timeout, |left| left.min(timeout));
    let is_long = |requests| drain.time_for(requests, now).filter(|time| *time > most);
    // Tenants are looked at only where it may matter.
    is_long(line.served_before_at_most(entry))?;
    is_long(line.served_before(entry))
}

/// A request in line.
struct Waiting {
    upstream: Arc<Upstream>,
    place: QueueSlot,
    given: oneshot::Receiver<Result<Lease, WaitError>>,
}

impl Waiting {
    fn look_again(&self) {
        if self.upstream.shared.queue.is_first(self.place) {
            self.upstream.serve_waiters();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.upstream.shared.queue.release(self.place);
    }
}

#[cfg(test)]
mod tests;
