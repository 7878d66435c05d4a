//! The HTTP/2 connections of one worker, by target, and who waits for one of their streams.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::spawn_local;

use super::slot::New;
use super::{Host, driver};
use crate::config::Upstream;
use crate::io::life::Life;
use crate::io::stream::Stream;
use crate::runtime::clock;
use crate::streams::client_stream::{ClientStream, pair};
use crate::streams::ready::Ready;
use crate::upstream::TargetId;

/// One connection as those see it who want a stream of it.
#[derive(Debug)]
pub(super) struct Session {
    target: TargetId,
    /// Streams that may be opened.
    free: Cell<u32>,
    /// The target's SETTINGS have come: until then a connection has one stream, because the target's limit is not known.
    is_settled: Cell<bool>,
    /// What is left of its use.
    life: Cell<Life>,
    /// Streams that the connection's task has not seen yet.
    pub(super) new: RefCell<Vec<New>>,
    pub(super) ready: Arc<Ready>,
}

impl Session {
    /// What is left of its use.
    pub(super) fn life(&self) -> Life {
        self.life.get()
    }

    fn open(&self) -> ClientStream {
        let mut life = self.life.get();
        let is_last = life.take(clock::loop_ns());
        self.life.set(life);
        self.free.set(if is_last { 0 } else { self.free.get().saturating_sub(1) });
        let (stream, pipe, link) = pair(&self.ready);
        self.new.borrow_mut().push(New { pipe, link });
        stream
    }
}

#[derive(Default)]
struct Group {
    sessions: Vec<Rc<Session>>,
    /// Connections that are being made.
    connecting: u32,
    /// Exchanges that wait for a stream, in order.
    waiting: VecDeque<(u64, Waker)>,
}

impl Group {
    /// A stream of the connection that has the most left, so that all are used alike.
    fn open(&self) -> Option<ClientStream> {
        let most = self.sessions.iter().max_by_key(|session| session.free.get())?;
        (most.free.get() > 0).then(|| most.open())
    }

    fn wake(&mut self, count: usize) {
        for (_, waker) in self.waiting.drain(..count.min(self.waiting.len())) {
            waker.wake();
        }
    }

    fn is_unused(&self) -> bool {
        self.sessions.is_empty() && self.connecting == 0 && self.waiting.is_empty()
    }
}

/// All of a worker.
#[derive(Default)]
pub struct Sessions {
    groups: RefCell<HashMap<TargetId, Group>>,
    last_ticket: Cell<u64>,
}

/// What [`Sessions::poll_open`] gives.
pub enum Opened<'s> {
    /// A stream of a connection that is open.
    Stream(ClientStream),
    /// Leave to make a connection, and to [add](Sessions::add) it.
    Connect(Permit<'s>),
}

/// Leave to make one connection. Dropped, it passes to another exchange that waits.
pub struct Permit<'s> {
    sessions: &'s Sessions,
    target: TargetId,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.sessions.change(self.target, |group| {
            group.connecting -= 1;
            group.wake(1);
        });
    }
}

/// A place among those who wait.
pub struct Ticket<'s> {
    sessions: &'s Sessions,
    target: TargetId,
    /// 0: none.
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        self.sessions.change(self.target, |group| {
            match group.waiting.iter().position(|(number, _)| *number == self.number) {
                Some(place) => drop(group.waiting.remove(place)),
                // It was woken and has no use for what it was woken for.
                None => group.wake(1),
            }
        });
    }
}

impl Sessions {
    /// A stream to a target, if a connection has one left.
    #[inline]
    pub fn open(&self, target: TargetId) -> Option<ClientStream> {
        self.groups.borrow().get(&target)?.open()
    }

    /// A place to wait at.
    pub fn ticket(&self, target: TargetId) -> Ticket<'_> {
        Ticket { sessions: self, target, number: 0 }
    }

    /// A stream to a target, or leave to make another connection: one is made at a time, and none beyond `most`. Else waits.
    pub fn poll_open<'s>(&'s self, ticket: &mut Ticket<'s>, most: u32, cx: &Context<'_>) -> Poll<Opened<'s>> {
        let target = ticket.target;
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(target).or_default();
        let opened = if let Some(stream) = group.open() {
            Some(Opened::Stream(stream))
        } else {
            // A connection that is being made, or whose limit is not known yet, will have streams.
            let is_coming = group.connecting > 0 || group.sessions.iter().any(|session| !session.is_settled.get());
            (!is_coming && group.sessions.len() < most as usize).then(|| {
                group.connecting += 1;
                Opened::Connect(Permit { sessions: self, target })
            })
        };
        let place = group.waiting.iter().position(|(number, _)| *number == ticket.number);
        match (opened, place) {
            (Some(opened), place) => {
                place.map(|place| group.waiting.remove(place));
                ticket.number = 0;
                Poll::Ready(opened)
            }
            (None, Some(place)) => {
                group.waiting[place].1 = cx.waker().clone();
                Poll::Pending
            }
            (None, None) => {
                self.last_ticket.set(self.last_ticket.get() + 1);
                ticket.number = self.last_ticket.get();
                group.waiting.push_back((ticket.number, cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// Whether a connection to the target has sent its SETTINGS: who waits, waits for a stream and not for a connection.
    pub fn is_connected(&self, target: TargetId) -> bool {
        let groups = self.groups.borrow();
        groups.get(&target).is_some_and(|group| group.sessions.iter().any(|session| session.is_settled.get()))
    }

    /// Connections and the streams that are left, of all targets.
    pub fn len(&self) -> usize {
        self.groups.borrow().values().map(|group| group.sessions.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new connection, and its first stream.
    pub fn add<H: Host>(&self, host: &Rc<H>, target: TargetId, stream: Stream, upstream: &Upstream) -> ClientStream {
        let session = Rc::new(Session {
            target,
            free: Cell::new(1),
            is_settled: Cell::new(false),
            life: Cell::new(Life::new(upstream.keep_alive.used_for, clock::loop_ns(), || host.random())),
            new: RefCell::default(),
            ready: Ready::new(upstream.http2.max_concurrent_streams as usize),
        });
        let first = session.open();
        self.change(target, |group| group.sessions.push(session.clone()));
        spawn_local(driver::run(host.clone(), session, stream, upstream));
        first
    }

    /// A connection's task says what can be had of it.
    pub(super) fn publish(&self, session: &Session, free: u32, is_settled: bool) {
        let has_settled = is_settled && !session.is_settled.replace(is_settled);
        session.free.set(free);
        // All have waited for this connection while its limit was not known: one more than it has streams for may make another.
        let count = free as usize + usize::from(has_settled);
        if count > 0 {
            self.change(session.target, |group| group.wake(count));
        }
    }

    /// Nothing more can be had of a connection.
    pub(super) fn remove(&self, session: &Session) {
        session.free.set(0);
        self.change(session.target, |group| {
            let before = group.sessions.len();
            group.sessions.retain(|other| !std::ptr::eq(&**other, session));
            if group.sessions.len() < before {
                group.wake(1);
            }
        });
    }

    fn change(&self, target: TargetId, change: impl FnOnce(&mut Group)) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(target).or_default();
        change(group);
        if group.is_unused() {
            groups.remove(&target);
        }
    }
}
