//! The bounded waiting room of an upstream: first come, first served, over all workers.
//!
//! A request enters when every usable target is at `max_in_flight`. Whoever gives a place back serves the head of the queue: it takes the place in that
//! request's name and hands the [`Lease`] over, so that each place wakes exactly one waiter, and no later request overtakes (a pick says busy
//! while somebody waits). The lock is taken only while somebody waits.
//!
//! No place is missed: a waiter is in line before it looks for a place, with a fence between; a lease gives its place back before it looks for
//! waiters, both sequentially consistent. In the one order that these have, one of the two sees the other.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

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
    /// `queue.timeout` ran out.
    TimedOut,
    /// The last usable target went out of service.
    Unavailable,
}

/// The line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Queue {
    /// Length of `line`; read by every pick and every release.
    waiting: AtomicUsize,
    line: Mutex<VecDeque<Waiter>>,
    tickets: AtomicU64,
    pub(super) waited: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) timed_out: AtomicU64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    give: oneshot::Sender<Result<Lease, WaitError>>,
    /// Targets that failed its request.
    tried: Box<[TargetId]>,
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

    /// Gives places to those in line as long as `find` finds any; its argument is the list of targets
    /// that failed the first request in line.
    pub(super) fn serve(&self, mut find: impl FnMut(&[TargetId]) -> Grant) {
        // A place whose waiter had just left goes to the next one; if there is none, it is given back after the lock.
        let mut spare = None;
        let mut line = super::lock(&self.line);
        while let Some(first) = line.front() {
            let grant = spare.take().map_or_else(|| find(&first.tried), Grant::Lease);
            let result = match grant {
                Grant::Lease(lease) => Ok(lease),
                Grant::Unavailable => Err(WaitError::Unavailable),
                Grant::Full => break,
            };
            if let Some(first) = line.pop_front()
                && let Err(Ok(lease)) = first.give.send(result)
            {
                spare = Some(lease);
            }
        }
        self.waiting.store(line.len(), Ordering::SeqCst);
        drop(line);
        drop(spare);
    }

    fn is_first(&self, ticket: u64) -> bool {
        super::lock(&self.line).front().is_some_and(|first| first.ticket == ticket)
    }

    fn leave(&self, ticket: u64) {
        let mut line = super::lock(&self.line);
        if let Ok(position) = line.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            line.remove(position);
            self.waiting.store(line.len(), Ordering::SeqCst);
        }
    }
}

/// Enters the line now and returns the wait. Dropping the wait leaves the line; a place that was already given then goes to the next.
pub(super) fn wait(
    upstream: Arc<Upstream>,
    spec: Option<config::Queue>,
    tried: Box<[TargetId]>,
) -> impl Future<Output = Result<Lease, WaitError>> + Send + use<> {
    let entered = spec.ok_or(WaitError::QueueFull).and_then(|spec| enter(upstream, spec, tried));
    async move {
        let (mut place, timeout) = entered?;
        let waiting = async {
            loop {
                match tokio::time::timeout(LOOK_AGAIN, &mut place.given).await {
                    Ok(Ok(result)) => return result,
                    Ok(Err(_gone)) => return Err(WaitError::Unavailable),
                    Err(_not_yet) => place.look_again(),
                }
            }
        };
        let result = tokio::time::timeout(timeout, waiting).await;
        result.unwrap_or_else(|_elapsed| {
            place.upstream.shared.queue.timed_out.fetch_add(1, Ordering::Relaxed);
            Err(WaitError::TimedOut)
        })
    }
}

fn enter(upstream: Arc<Upstream>, spec: config::Queue, tried: Box<[TargetId]>) -> Result<(Place, Duration), WaitError> {
    let (give, given) = oneshot::channel();
    let queue = &upstream.shared.queue;
    let ticket = {
        let mut line = super::lock(&queue.line);
        if line.len() >= spec.size {
            queue.refused.fetch_add(1, Ordering::Relaxed);
            return Err(WaitError::QueueFull);
        }
        // Under the lock, so that the line is ordered by ticket.
        let ticket = queue.tickets.fetch_add(1, Ordering::Relaxed);
        line.push_back(Waiter { ticket, give, tried });
        queue.waiting.store(line.len(), Ordering::SeqCst);
        queue.waited.fetch_add(1, Ordering::Relaxed);
        ticket
    };
    fence(Ordering::SeqCst);
    upstream.serve_waiters();
    Ok((Place { upstream, ticket, given }, spec.timeout))
}

/// A place in line.
struct Place {
    upstream: Arc<Upstream>,
    ticket: u64,
    given: oneshot::Receiver<Result<Lease, WaitError>>,
}

impl Place {
    fn look_again(&self) {
        if self.upstream.shared.queue.is_first(self.ticket) {
            self.upstream.serve_waiters();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.upstream.shared.queue.leave(self.ticket);
    }
}

#[cfg(test)]
mod tests;
