//! Idle connections to targets, per worker: last in, first out, so that few stay warm and the rest can age out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

use super::TargetId;
use crate::config::UpstreamKeepAlive;
use crate::io::life::Life;
use crate::io::stream::Stream;
use crate::runtime::deadline::nanos;

struct Idle {
    stream: Stream,
    /// What is left of its use.
    life: Life,
    /// Nanoseconds since process start until which it is kept.
    until: u64,
}

/// Idle connections of one worker.
#[derive(Default)]
pub struct Pool {
    idle: RefCell<HashMap<TargetId, Vec<Idle>, BuildHasherDefault<IdHasher>>>,
    /// Those that began with a PROXY header, by the client that it names.
    named: RefCell<HashMap<TargetId, Named>>,
}

/// Idle connections to one target, by the client that their PROXY header names; `None`: it names none.
#[derive(Default)]
struct Named {
    lists: HashMap<Option<IpAddr>, Vec<Idle>>,
    /// Of all clients.
    count: usize,
}

/// Whose requests a connection may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Everyone's.
    All,
    /// Those of one client: it began with a PROXY header that names this address, or none.
    Only(Option<IpAddr>),
}

impl Pool {
    /// Takes a usable connection. Connections that the upstream closed, or sent a byte on that nobody requested (HTTP1-SAFETY's rule of idle
    /// connections), are thrown away and counted by `discarded`.
    #[inline]
    pub fn take(&self, target: TargetId, now_ns: u64, mut discarded: impl FnMut()) -> Option<(Stream, Life)> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(&target)?;
        while let Some(mut candidate) = list.pop() {
            if candidate.until > now_ns && is_quiet(&mut candidate.stream) {
                return Some((candidate.stream, candidate.life));
            }
            discarded();
        }
        None
    }

    /// The same among connections whose PROXY header names this client.
    pub fn take_named(
        &self,
        target: TargetId,
        client: Option<IpAddr>,
        now_ns: u64,
        mut discarded: impl FnMut(),
    ) -> Option<(Stream, Life)> {
        let mut named = self.named.borrow_mut();
        let named = named.get_mut(&target)?;
        let list = named.lists.get_mut(&client)?;
        let mut found = None;
        while let Some(mut candidate) = list.pop() {
            named.count -= 1;
            if candidate.until > now_ns && is_quiet(&mut candidate.stream) {
                found = Some((candidate.stream, candidate.life));
                break;
            }
            discarded();
        }
        if list.is_empty() {
            named.lists.remove(&client);
        }
        found
    }

    /// Puts a connection back, if there is room and time for it, and it is to be used again.
    #[inline]
    pub fn put(
        &self,
        target: TargetId,
        stream: Stream,
        life: Life,
        carries: Carries,
        keep: UpstreamKeepAlive,
        now_ns: u64,
    ) {
        if life.is_over(now_ns) {
            return;
        }
        let until = now_ns.saturating_add(nanos(keep.idle)).min(life.until_ns());
        if let Carries::Only(client) = carries {
            let mut named = self.named.borrow_mut();
            let named = named.entry(target).or_default();
            if named.count < keep.max_idle && !keep.idle.is_zero() {
                named.lists.entry(client).or_default().push(Idle { stream, life, until });
                named.count += 1;
            }
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(target).or_default();
        if list.len() < keep.max_idle && !keep.idle.is_zero() {
            list.push(Idle { stream, life, until });
        }
    }

    /// Closes what has aged out or was closed by its upstream; called now and then.
    pub fn sweep(&self, now_ns: u64) {
        self.idle.borrow_mut().retain(|_, list| {
            list.retain_mut(|idle| idle.until > now_ns && is_quiet(&mut idle.stream));
            !list.is_empty()
        });
        self.named.borrow_mut().retain(|_, named| {
            named.lists.retain(|_, list| {
                list.retain_mut(|idle| idle.until > now_ns && is_quiet(&mut idle.stream));
                !list.is_empty()
            });
            named.count = named.lists.values().map(Vec::len).sum();
            named.count > 0
        });
    }

    /// Closes everything: the worker drains.
    pub fn clear(&self) {
        self.idle.borrow_mut().clear();
        self.named.borrow_mut().clear();
    }

    /// How many connections are idle.
    pub fn len(&self) -> usize {
        let named: usize = self.named.borrow().values().map(|named| named.count).sum();
        self.idle.borrow().values().map(Vec::len).sum::<usize>() + named
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether nothing came in: no end, no error, no byte. Costs no system call unless something did, because the runtime stores that
/// the last read took all there was.
fn is_quiet(stream: &mut Stream) -> bool {
    let mut byte = [0];
    let mut cx = Context::from_waker(Waker::noop());
    matches!(Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)), Poll::Pending)
}

/// Target ids are small numbers given out in turn: spread them, no more.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
